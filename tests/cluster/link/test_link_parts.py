"""Main sees that part of a message has come, before all of it is there: a slow link is no frozen node."""

import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster.coordinator import PeerHeard
from samepath.cluster.link import NodeLink, Received
from samepath.cluster.shell import ClusterShell
from tests.support.linking import MAIN_KEYS, NODE_KEYS, Pair, linked, listening

PICTURE = bytes(4 << 20)


class Gate:
    """A way to a port, on which bytes stop where it is closed."""

    def __init__(self, port):
        self._main_port = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._may_pass, self._left = threading.Condition(), None
        self._sockets = [self._server]
        threading.Thread(target=self._serve, daemon=True).start()

    def pass_only(self, count):
        """Let so many bytes more pass; None: all."""
        with self._may_pass:
            self._left = count
            self._may_pass.notify_all()

    def _serve(self):
        near, _ = self._server.accept()
        far = socket.create_connection(("127.0.0.1", self._main_port))
        self._sockets += [near, far]
        threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()
        self._pump(near, far, True)

    def _pump(self, source, target, is_gated):
        try:
            while data := source.recv(1 << 16):
                with self._may_pass:
                    while is_gated and self._left == 0:
                        self._may_pass.wait()
                    if is_gated and self._left is not None:
                        self._left = max(0, self._left - len(data))
                target.sendall(data)
        except OSError:
            pass  # the test is over

    def close(self):
        self.pass_only(None)
        for each in self._sockets:
            each.close()


@contextmanager
def gated():
    main = listening(shared_memory=False)
    gate = Gate(int(main.endpoint.rpartition(":")[2]))
    node = NodeLink(f"tcp://127.0.0.1:{gate.port}", NODE_KEYS, MAIN_KEYS.public, shared_memory=False)
    try:
        pair = Pair(main, [node], [])
        pair.until(main.peers)
        yield pair, gate
    finally:
        node.close()
        gate.close()
        main.close()


def test_bytes_of_a_message_are_counted_before_all_of_it_has_come():
    with gated() as (pair, gate):
        (peer,) = pair.main.peers()
        before = pair.main.received_bytes(peer)
        gate.pass_only(len(PICTURE) // 2)
        pair.nodes[0].send(b"a picture", [PICTURE])
        pair.until(lambda: pair.main.received_bytes(peer) >= before + len(PICTURE) // 4)
        assert pair.at_main == []
        gate.pass_only(None)
        pair.until(lambda: pair.at_main)
        assert pair.at_main == [Received(peer, b"a picture", (PICTURE,))]


def test_of_a_connection_that_has_ended_nothing_is_known():
    with linked(shared=False) as pair:
        (peer,) = pair.peers
        pair.main._peers[peer].handle.close()
        assert pair.main.received_bytes(peer) is None


@pytest.mark.parametrize(
    ("heard_s", "local", "before", "now", "is_heard"),
    [
        (-2.0, False, 100, 900, True),
        (-2.0, False, 100, 100, False),
        (-2.0, False, None, 900, False),  # looked at for the first time
        (-2.0, False, 100, None, False),
        (-2.0, True, None, 900, False),
        (-0.5, False, 100, 900, False),  # a whole message came since, which was heard
    ],
)
def test_only_bytes_of_an_unfinished_message_are_a_sign_of_life(monkeypatch, heard_s, local, before, now, is_heard):
    clock = SimpleNamespace(monotonic_s=lambda: 0.0)
    monkeypatch.setattr("samepath.cluster.shell.SYSTEM_CLOCK", clock)
    fed = []
    shell = SimpleNamespace(
        _looked_s=-1.0,
        members=lambda: [SimpleNamespace(peer=b"node", heard_s=heard_s)],
        handles={b"node": SimpleNamespace(received_bytes=before)},
        link=SimpleNamespace(is_local=lambda _: local, received_bytes=lambda _: now),
        feed=fed.append,
    )
    ClusterShell._look_for_parts(shell)
    assert fed == ([PeerHeard(b"node")] if is_heard else [])
    ClusterShell._look_for_parts(shell)  # it was looked at just now
    assert len(fed) == is_heard
