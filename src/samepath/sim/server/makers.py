"""Who made a file that only the very same code can go on with: versions by name, and a digest of the source."""

import hashlib
import importlib.metadata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import samepath
from samepath.base.digests import LINK_BYTES
from samepath.base.errors import InputError

# What the bits of a world depend on.
_FOLDERS: Final = ("base", "sim", "traces")
_LIBRARIES: Final = ("rapier3d", "numpy")


@cache
def made_by() -> Mapping[str, str]:
    """The samepath that runs: its version, the libraries that compute for it, and a digest of its source."""
    root = Path(samepath.__file__).parent
    digest = hashlib.blake2b(digest_size=LINK_BYTES)
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {"samepath": samepath.__version__, **versions, "source": digest.hexdigest()}


def check_made_by(found: Mapping[str, str], what: str) -> None:
    """Refuse what another samepath made, by the name of the first difference."""
    here = made_by()
    for name in (*here, *found):
        if found.get(name) != here.get(name):
            raise InputError(
                f"{what} was made with {name} {found.get(name, 'unknown')}, but here is {here.get(name, 'none')}: "
                "only the very same code goes on bit for bit, so use that one"
            )
