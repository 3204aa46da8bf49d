"""Words from elsewhere, made fit to be shown."""


def printable(text: str) -> str:
    """Put a question mark for whatever does not print: nothing in it moves a terminal's cursor or begins a new line."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
