"""What the cluster needs beside samepath itself."""

from samepath.base.errors import InputError

try:
    import zmq
except ImportError:
    raise InputError("the cluster needs pyzmq, which is not installed: pip install 'samepath[cluster]'") from None

__all__ = ["zmq"]
