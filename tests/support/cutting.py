"""A network that fails: a proxy before a server that cuts connections in mid-message, holds bytes back, or is gone."""

import socket
import struct
import threading
from contextlib import contextmanager, suppress

from samepath.core.streams import stream

NEVER = 1 << 60


class Proxy:
    """Passes bytes on to a server; ``cuts(n)`` says after how many up and down the nth connection is cut."""

    def __init__(self, port, cuts):
        self._target = ("127.0.0.1", port)
        self._cuts = cuts
        self._flowing = threading.Event()
        self._flowing.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self.cut = 0
        self._open = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def freeze(self):
        """Take bytes and keep them."""
        self._flowing.clear()

    def thaw(self):
        """Pass on what was kept."""
        self._flowing.set()

    def vanish(self):
        """Cut everybody, and let nobody in any more."""
        _shut(self._listener)
        self._threads[0].join()
        self._listener.close()
        self.hang_up()

    def hang_up(self):
        """Cut everybody."""
        for pair in list(self._open):
            _kill(pair)

    def move(self, server):
        """Pass on to another server from the next connection on."""
        self._target = ("127.0.0.1", server.port)

    def drain(self):
        """Wait until all connections have ended and everything has been passed on."""
        for thread in self._threads[1:]:
            thread.join(60)
            assert not thread.is_alive()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            up, down = self._cuts(self.connections)
            self.connections += 1
            try:
                far = socket.create_connection(self._target)
            except OSError:
                near.close()
                continue
            pair = (near, far)
            self._open.append(pair)
            for end in pair:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ends = threading.Barrier(2)
            for source, target, most in ((near, far, up), (far, near, down)):
                thread = threading.Thread(target=self._pass_on, args=(source, target, most, pair, ends))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source, target, most, pair, ends):
        passed = 0
        try:
            while data := source.recv(4096):
                self._flowing.wait()
                target.sendall(data[: most - passed])
                passed += len(data)
                if passed >= most:
                    self.cut += 1
                    # Half of them without a farewell.
                    if most % 2:
                        for end in pair:
                            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
        except OSError:
            pass
        _kill(pair)
        ends.wait()
        source.close()

    def close(self):
        self.thaw()
        self.vanish()
        self.drain()


def _shut(connection):
    with suppress(OSError):  # it may be closed already
        connection.shutdown(socket.SHUT_RDWR)


def _kill(pair):
    for end in pair:
        _shut(end)


@contextmanager
def proxied(server, cuts=lambda _: (NEVER, NEVER)):
    proxy = Proxy(server.port, cuts)
    try:
        yield proxy
    finally:
        proxy.close()


def random_cuts(seed, up_bytes, down_bytes):
    """Cut each connection at random bytes, in either direction."""

    def cuts(number):
        chance = stream(seed, "cuts", number)
        return int(chance.integers(1, up_bytes)), int(chance.integers(1, down_bytes))

    return cuts
