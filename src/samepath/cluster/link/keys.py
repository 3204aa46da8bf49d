"""Key pairs of the link: who may talk to whom is decided by public keys, never by addresses.

A pair lies in two files: ``NAME.public`` may be read by all, ``NAME.secret`` by its owner only. A key is one line of Z85 text.
Folder and files must belong to this user or to root, and nobody else may write them: whoever can, lets nodes in.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from samepath.core.errors import InputError, printable
from samepath.core.files import check_folder, make_folder, read_trusted, write_atomically

_CHARACTERS: Final = 40
_SAID_MOST: Final = 100
_Z85: Final = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#")


@dataclass(frozen=True)
class Keys:
    """A public and a secret key, in Z85."""

    public: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        for name, key in (("public", self.public), ("secret", self.secret)):
            check_key(name, key)


def check_key(name: str, key: str) -> None:
    """Refuse what cannot be a key; the key itself is not shown."""
    if not _is_key(key):
        raise InputError(
            f"a {name} key has {_CHARACTERS} characters of Z85, this one has {len(key)} or others; make a new pair"
        )


def make_keys() -> Keys:
    """A new pair."""
    from samepath.cluster.link.wire import zmq

    public, secret = zmq.curve_keypair()
    return Keys(public.decode("ascii"), secret.decode("ascii"))


def write_keys(folder: Path, name: str, keys: Keys) -> None:
    """Write both files, each whole or not at all; the folder and the secret are for this user only."""
    _check_name(name)
    if not folder.exists():
        make_folder(folder)
        folder.chmod(0o700)
    check_folder(folder)
    _write(folder / f"{name}.secret", keys.secret, 0o600)
    _write(folder / f"{name}.public", keys.public, 0o644)


def read_keys(folder: Path, name: str) -> Keys:
    """Read both files; a secret that others may read is refused."""
    _check_name(name)
    secret = _read(folder, f"{name}.secret", secret=True)
    return Keys(read_public(folder, name), secret)


def read_public(folder: Path, name: str) -> str:
    """Read a public key."""
    _check_name(name)
    return _read(folder, f"{name}.public")


class KnownKeys:
    """Who is let in: whoever has a public key in a folder, but for the one called ``own``, the main server's.

    Looked up at every handshake, so that a node's key can be put there or taken out while the cluster runs. A file that is no
    key, or not to be believed, keeps nobody else out: it is left out, and ``log`` is told once. A folder that is not to be
    believed lets nobody in.
    """

    def __init__(self, folder: Path, own: str, log: Callable[[str], None]) -> None:
        self._folder, self._own, self._log = folder, own, log
        self._said: set[str] = set()

    def __call__(self, public: str) -> bool:
        try:
            check_folder(self._folder)
            names = sorted(path.name.removesuffix(".public") for path in self._folder.glob("*.public"))
        except (InputError, OSError) as error:
            self._say(f"keys: nobody is let in by {self._folder}: {error}")
            return False
        return any(self._key(name) == public for name in names if name != self._own)

    def _key(self, name: str) -> str | None:
        try:
            return read_public(self._folder, name)
        except InputError as error:
            self._say(f"keys: left out: {printable(str(error))}")
            return None

    def _say(self, line: str) -> None:
        # Strangers decide how often they knock, and whoever can write here how many files there are.
        if line not in self._said and len(self._said) < _SAID_MOST:
            self._said.add(line)
            self._log(line)


def _write(path: Path, key: str, mode: int) -> None:
    def fill(partial: Path) -> None:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            os.fchmod(handle, mode)
            file.write(key + "\n")

    write_atomically(path, fill)


def _read(folder: Path, name: str, *, secret: bool = False) -> str:
    path = folder / name
    try:
        check_folder(folder)
        content = read_trusted(path, _CHARACTERS + 2, secret=secret)
    except OSError as error:
        raise _absent(path, error) from None
    key = content.decode("ascii", "replace").strip()
    if not _is_key(key):
        raise InputError(f"{path} should hold one line of {_CHARACTERS} characters of Z85 and does not; make a new pair")
    return key


def _absent(path: Path, error: OSError) -> InputError:
    return InputError(f"key {path} cannot be read: {error.strerror or error}; a main server writes its keys when it starts")


def _is_key(key: str) -> bool:
    return len(key) == _CHARACTERS and _Z85.issuperset(key)


def _check_name(name: str) -> None:
    if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise InputError(f"a key's name has letters, digits, - and _ only; this one is {name!r}")
