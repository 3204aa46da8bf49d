"""What sensors need beside samepath itself."""

from importlib.util import find_spec

from samepath.base.errors import InputError


def require_sensors() -> None:
    """Say in one line what is missing, before anything is imported that needs it."""
    if find_spec("numba") is None:
        raise InputError("sensors need the compiler numba, which is not installed: pip install 'samepath[sensors]'")
