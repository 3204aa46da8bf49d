"""What can go wrong between a main server and its nodes; each is one line."""

from samepath.base.errors import SamepathError


class LinkError(SamepathError):
    """The link to a peer cannot be made or kept."""


class LinkRefusedError(LinkError):
    """The other side does not let us in, or is not who it should be."""


class LinkLostError(LinkError):
    """The main server has gone away, or has cut this node off."""


class PeerGoneError(LinkError):
    """A message for a peer that is not, or no longer, connected."""


class PeerStuckError(LinkError):
    """A peer that does not read: so much is waiting for it that nothing more is taken."""


class TooLargeError(LinkError):
    """A message that is larger than the link takes; nothing was sent, and the link is as it was."""


class MalformedError(Exception):
    """Bytes of an authenticated peer that are no message of this link. Never leaves the package."""
