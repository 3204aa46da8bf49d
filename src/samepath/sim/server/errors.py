"""What a client is told when something cannot be done."""

from typing import Final

from samepath.base.errors import SamepathError

NOT_SUPPORTED: Final = "not supported by samepath"


class CallError(SamepathError):
    """A call that cannot be done; the text goes to the client."""
