"""Who may not in is told why, on both sides, in one line."""

import socket

import pytest

from samepath.cluster.link import LinkLimits, LinkLostError, LinkRefusedError, MainLink, NodeLink, make_keys, wire
from samepath.cluster.link.wire import zmq
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError
from tests.support.linking import MAIN_KEYS, NODE_KEYS, listening, raw_dealer, wait_until

QUICK = LinkLimits(connect_s=0.3)


def refusal(node, main=None):
    """Poll both until the node is told; returns what it is told."""
    end_s = SYSTEM_CLOCK.monotonic_s() + 60.0
    with pytest.raises(LinkRefusedError) as caught:
        while SYSTEM_CLOCK.monotonic_s() < end_s:
            if main is not None:
                assert main.poll(0.01) == []
            assert node.poll(0.01) == []
    with pytest.raises(LinkRefusedError):
        node.poll(None)
    with pytest.raises(LinkRefusedError):
        node.send(b"still there?")
    node.close()
    text = str(caught.value)
    assert "\n" not in text
    return text


def until(log, main):
    end_s = SYSTEM_CLOCK.monotonic_s() + 60.0
    while not log and SYSTEM_CLOCK.monotonic_s() < end_s:
        main.poll(0.01)
    return " ".join(log)


@pytest.mark.parametrize("how", ["unknown", "the look-up fails"])
def test_a_node_with_an_unknown_key_is_refused(how):
    log = []

    def allowed(key):
        assert key == NODE_KEYS.public
        if how == "unknown":
            return False
        raise RuntimeError("no list")

    main = MainLink("127.0.0.1", 0, MAIN_KEYS, allowed, log=log.append)
    said = refusal(NodeLink(main.endpoint, NODE_KEYS, MAIN_KEYS.public), main)
    assert f"{main.endpoint} does not know this node's key" in said
    assert NODE_KEYS.public in until(log, main)
    assert main.peers() == ()
    main.close()


def test_a_node_that_has_another_key_of_main_is_refused():
    log = []
    main = listening(log=log.append)
    said = refusal(NodeLink(main.endpoint, NODE_KEYS, make_keys().public), main)
    assert "is not the one whose public key this node has" in said
    assert "does not know this main server's public key" in until(log, main)
    main.close()


def test_a_node_without_a_main_server_says_so():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
        assert f"no main server answered at {endpoint}" in refusal(
            NodeLink(endpoint, NODE_KEYS, MAIN_KEYS.public, limits=QUICK)
        )


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_node_at_the_door_of_something_else_says_so(words):
    with socket.create_server(("127.0.0.1", 0)) as server:
        node = NodeLink(f"tcp://127.0.0.1:{server.getsockname()[1]}", NODE_KEYS, MAIN_KEYS.public, limits=QUICK)
        with server.accept()[0] as connection:
            connection.sendall(words)
            said = refusal(node)
    assert "main server" in said


def test_an_unencrypted_client_gets_nowhere():
    log = []
    main = listening(log=log.append)
    context = zmq.Context()
    plain = context.socket(zmq.DEALER)
    plain.connect(main.endpoint)
    plain.send(wire.pack(wire.PacketKind.HELLO, 0, wire.pack_control(wire.LinkHello(True))))
    # Which of the two ends sees it first is a matter of luck.
    assert "is no node" in until(log, main)
    assert main.peers() == ()
    context.destroy(linger=0)
    main.close()


def test_the_second_main_server_on_a_port_says_so_in_one_line():
    first = listening()
    with pytest.raises(InputError, match=rf"^another main server \(or something else\) listens on 127.0.0.1:{first.port}: .*$"):
        MainLink("127.0.0.1", first.port, MAIN_KEYS, None)
    first.close()
    again = MainLink("127.0.0.1", first.port, MAIN_KEYS, None)
    assert again.port == first.port
    again.close()


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("no such host", 0), ("127.0.0.1", 70_000)])
def test_a_place_that_cannot_be_listened_at_is_one_line(host, port):
    with pytest.raises(InputError, match=r"^the main server cannot listen on .*$"):
        MainLink(host, port, MAIN_KEYS, None)


@pytest.mark.parametrize("endpoint", ["", "nowhere", "tcp://", "tcp://127.0.0.1:x", "ftp://127.0.0.1:1"])
def test_an_address_that_is_none_is_one_line(endpoint):
    with pytest.raises(InputError, match=r"^'.*' is no address of a main server .*$"):
        NodeLink(endpoint, NODE_KEYS, MAIN_KEYS.public)


def test_a_key_that_is_none_is_one_line():
    with pytest.raises(InputError, match=r"^a public key has 40 characters of Z85"):
        NodeLink("tcp://127.0.0.1:1", NODE_KEYS, "secret words")


def test_a_node_with_another_version_of_the_link_is_refused_by_version():
    log = []
    main = listening(log=log.append)
    with raw_dealer(main.endpoint, b"later") as later:
        later.send(bytes([99, wire.PacketKind.HELLO]) + b"whatever version 99 says")
        assert f"its link has version 99, this one {wire.VERSION}" in until(log, main)
        assert later.recv()[:2] == bytes([wire.VERSION, wire.PacketKind.REFUSED])
    assert main.peers() == ()
    main.close()


def test_a_main_server_with_another_version_of_the_link_is_refused_by_version(monkeypatch):
    main = listening()
    node = NodeLink(main.endpoint, NODE_KEYS, MAIN_KEYS.public)
    wait_until(lambda: (main.poll(0.01), main.peers())[1])
    monkeypatch.setattr(wire, "VERSION", 99)
    main.send(main.peers()[0], b"hello")
    monkeypatch.undo()
    assert f"speaks version 99 of the link, this node {wire.VERSION}" in refusal(node)
    main.close()


def test_a_node_whose_main_server_ends_is_told():
    main = listening()
    node = NodeLink(main.endpoint, NODE_KEYS, MAIN_KEYS.public)
    wait_until(lambda: (main.poll(0.01), main.peers())[1])
    main.close()
    with pytest.raises(LinkLostError, match=f"^the main server at {main.endpoint} has gone, or has cut this node off$"):
        node.poll(60.0)
    node.close()
