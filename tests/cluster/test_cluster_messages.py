"""Messages between main server and nodes: read as they were written, or refused; whatever a node sends, main lives."""

import math
import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("zmq")

from samepath.cluster import messages as m
from samepath.cluster.coordinator import by_name
from samepath.cluster.identity import boot_id, fingerprint
from samepath.cluster.link import LinkLostError, NodeLink, Received
from samepath.simulator.carla.codec import WireError
from tests.support.clustering import Cluster, wait_for
from tests.support.serving import RawClient

HELLO = m.Hello("node-1", "1.0", "f", "host", "boot", 1234, "127.0.0.1", 2000, 2001, 8)
RESULT = m.SensorResult(7, True, "", True, 0.01)
OF_NODES = [
    HELLO,
    m.MapReady(3, "m", "p"),
    m.TickResult(9, b"digest", 0.5, (RESULT, RESULT)),
    m.ClientCall(1, 12.5),
    m.ClientGone(1),
    m.Synced(4),
    m.StreamUnused(2**32 - 1),
    m.Heartbeat(3),
]
OF_MAIN = [
    m.Welcome(1, True, {"Town01": "town"}),
    m.Refused("why"),
    m.Joined(5),
    m.NewEpisode(2, "Town01", "town", "digest"),
    m.NewSettings(b"s", b"w"),
    m.NewActors((b"a", b"b"), (1, 2), 3),
    m.Sync(4),
    m.TickMessage(9, True, b"requests", ((0, 1), (2,)), False, True),
    m.StreamData(4, 9, False),
    m.LatestState(9),
    m.ExpectListener(4, 9),
    m.StreamClosed(4),
    m.CallResult(1, None),
    m.Leave("why"),
]


@pytest.mark.parametrize("message", OF_NODES, ids=lambda message: type(message).__name__)
def test_messages_of_nodes_come_back_as_they_were_and_nodes_refuse_them(message):
    assert m.from_node(m.encode(message)) == message
    with pytest.raises(WireError):
        m.from_main(m.encode(message))


@pytest.mark.parametrize("message", OF_MAIN, ids=lambda message: type(message).__name__)
def test_messages_of_main_come_back_as_they_were_and_main_refuses_them(message):
    assert m.from_main(m.encode(message)) == message
    with pytest.raises(WireError):
        m.from_node(m.encode(message))


def changed(message, **changes):
    return msgspec.structs.replace(message, **changes)


WRONG = {
    "a process number that Linux has not": changed(HELLO, pid=2**40),
    "process 0": changed(HELLO, pid=0),
    "a name that is a path": changed(HELLO, name="../node"),
    "no name": changed(HELLO, name=""),
    "a port beyond all ports": changed(HELLO, rpc_port=65536),
    "a long text": changed(HELLO, host="h" * 1000),
    "no time": m.TickResult(1, b"", math.nan, ()),
    "an endless time": m.TickResult(1, b"", math.inf, ()),
    "a time before the beginning": m.TickResult(1, b"", -0.1, ()),
    "a time that is no 64-bit number of microseconds": m.TickResult(1, b"", 1e300, ()),
    "no cost": m.TickResult(1, b"", 0.0, (changed(RESULT, cost_s=math.nan),)),
    "a sensor that cannot be": m.TickResult(1, b"", 0.0, (changed(RESULT, sensor=-1),)),
    "a frame before the first": m.TickResult(-1, b"", 0.0, ()),
    "a clock that does not count": m.ClientCall(1, math.nan),
    "fewer than no clients": m.Heartbeat(-1),
    "a stream that cannot be": m.StreamUnused(2**32),
}


@pytest.mark.parametrize("message", WRONG.values(), ids=WRONG)
def test_numbers_that_mean_nothing_are_refused_as_they_are_read(message):
    with pytest.raises(WireError):
        m.from_node(m.encode(message))


@pytest.mark.parametrize(
    "row", [None, [], [1, True, "", False], ["1", True, "", True, 0.0], [1, True, "", b"", 0.0], [1, True, "", True, 0.0, 0]]
)
def test_what_a_node_says_of_a_request_has_one_shape(row):
    good = ["TickResult", 1, b"", 0.0, [[1, True, "", False, 0.0]]]
    assert m.from_node(msgspec.msgpack.encode(good)).results == (m.SensorResult(1, True, "", False, 0.0),)
    with pytest.raises(WireError):
        m.from_node(msgspec.msgpack.encode([*good[:-1], [row]]))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(OF_NODES), st.data())
def test_bytes_that_were_tampered_with_are_a_message_or_refused_and_nothing_else(message, data):
    content = bytearray(m.encode(message))
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    for read in (m.from_node, m.from_main):
        try:
            read(bytes(content[: data.draw(st.integers(0, len(content)))]))
        except WireError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    "content", [b"", b"\x91" * 100_000, b"\xdc\xff\xff", struct.pack(">BI", 0xDD, 2**32 - 1), b"\xa2\xff\xff"]
)
def test_junk_is_refused(content):
    with pytest.raises(WireError):
        m.from_node(content)


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


class Rogue:
    """A node with the right keys that says what it likes."""

    def __init__(self, cluster, **changes):
        from samepath import __version__

        main = cluster.main
        self.link = NodeLink(main.link.endpoint, cluster.keys, main.keys.public)
        hello = m.Hello("rogue", __version__, fingerprint(), "host", boot_id(), 1, "127.0.0.1", 1, 2, 1)
        self.said = []
        self.send(msgspec.structs.replace(hello, **changes))

    def send(self, message):
        self.link.send(m.encode(message))

    def listen(self):
        self.said += [m.from_main(event.message) for event in self.link.poll(0.1) if isinstance(event, Received)]
        return self.said

    def heard(self):
        """What main said until it cut the connection."""
        try:
            wait_for(lambda: self.listen() is None, "main cuts the connection")
        except LinkLostError:
            return self.said
        finally:
            self.link.close()


def main_works(cluster):
    with RawClient(DoorsOf(cluster.main)) as client:
        return client.value("version")


class DoorsOf:
    def __init__(self, main):
        self.port, self.stream_port = main.port, main.stream_port


def test_a_node_with_an_impossible_process_number_is_cut_off_and_main_lives(cluster):
    rogue = Rogue(cluster, pid=2**40)
    assert rogue.heard() == []
    wait_for(lambda: any("was cut off" in line and "cannot be read" in line for line in cluster.lines), cluster.lines)
    assert cluster.main.shell.members() == []
    assert main_works(cluster)
    cluster.add()
    assert cluster.is_working("node-1")


@pytest.mark.parametrize("busy_s", [math.nan, math.inf, -1.0, 1e300])
def test_a_node_whose_times_mean_nothing_is_fenced_and_main_lives(cluster, busy_s):
    rogue = Rogue(cluster)
    wait_for(lambda: by_name(cluster.main.shell.state, "rogue") is not None, "the node is a member")
    wait_for(rogue.listen, "main welcomes it")  # what is under way when a connection is cut may not arrive
    rogue.send(m.TickResult(1, b"", busy_s, ()))
    assert isinstance(rogue.heard()[0], m.Welcome)
    wait_for(lambda: any("rogue was taken out" in line for line in cluster.lines), cluster.lines)
    assert cluster.main.shell.members() == []
    wait_for(lambda: cluster.main.counters.fenced == 1, "it is counted")  # after the line in the log
    assert main_works(cluster)
