"""The digest of what a node holds of a tick: the state it gives to clients and the view it draws."""

import hashlib

from samepath.sim.server.viewing.view import View


def digest_bytes(state: bytes, view: bytes) -> bytes:
    """Name a state and a view."""
    made = hashlib.blake2b(len(state).to_bytes(8, "little") + state, digest_size=16)
    made.update(view)
    return made.digest()


def held_digest(state: bytes, view: View) -> bytes:
    """The same of what was understood: the view is written anew from what was read, so that a mistake in reading shows."""
    return digest_bytes(state, view.pack())
