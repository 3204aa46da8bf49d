"""The only files a client can name: those inside the data folder."""

from pathlib import Path
from typing import Final

from samepath.base.errors import InputError

NAME_MAX_BYTES: Final = 200
PATH_MAX_BYTES: Final = 1000
_REFUSED: Final = frozenset('\\:*?"<>|')


def inside(folder: Path, name: str) -> Path:
    """The file called ``name`` in ``folder``, or an InputError: no way leads out, by dots, roots, links or odd characters.

    Subfolders may be named; links may not, not even those that stay inside.
    """
    shown = repr(name[:80])
    if not name or name.strip() != name:
        raise InputError(f"a file name was wanted, but {shown} came")
    if any(letter in _REFUSED or not letter.isprintable() for letter in name):
        raise InputError(f"a plain file name was wanted, but {shown} has a character that files may not have")
    if name.startswith("/"):
        raise InputError(f"a file name inside the data folder was wanted, but {shown} is a path from the root")
    parts = name.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise InputError(f"a file name inside the data folder was wanted, but {shown} walks through folders")
    sizes = [len(part.encode("utf-8", errors="surrogatepass")) for part in parts]
    if max(sizes) > NAME_MAX_BYTES or sum(sizes) + len(parts) > PATH_MAX_BYTES:
        raise InputError(f"a file name of at most {NAME_MAX_BYTES} bytes was wanted, but one of {max(sizes)} came")
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise InputError(f"{shown} leads through a link, which could lead out of the data folder; remove the link")
    if path.is_dir():
        raise InputError(f"a file was wanted, but {shown} is a folder")
    return path
