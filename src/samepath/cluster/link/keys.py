"""Key pairs of the link: who may talk to whom is decided by public keys, never by addresses.

A pair lies in two files: ``NAME.public`` may be read by all, ``NAME.secret`` by its owner only. A key is one line of Z85 text.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from samepath.core.errors import InputError
from samepath.core.files import make_folder, write_atomically

_CHARACTERS: Final = 40
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
    _write(folder / f"{name}.secret", keys.secret, 0o600)
    _write(folder / f"{name}.public", keys.public, 0o644)


def read_keys(folder: Path, name: str) -> Keys:
    """Read both files; a secret that others may read is refused."""
    _check_name(name)
    path = folder / f"{name}.secret"
    try:
        if path.stat().st_mode & 0o077:
            raise InputError(f"{path} can be read by other users: chmod 600 it, or make a new pair")
    except OSError as error:
        raise _absent(path, error) from None
    return Keys(read_public(folder, name), _read(path))


def read_public(folder: Path, name: str) -> str:
    """Read a public key."""
    _check_name(name)
    return _read(folder / f"{name}.public")


def _write(path: Path, key: str, mode: int) -> None:
    def fill(partial: Path) -> None:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            os.fchmod(handle, mode)
            file.write(key + "\n")

    write_atomically(path, fill)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            key = file.read(_CHARACTERS + 2).strip()
    except UnicodeDecodeError:
        key = ""
    except OSError as error:
        raise _absent(path, error) from None
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
