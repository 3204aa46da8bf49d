"""Four thousand malformed and odd messages: no error of ours, nobody else notices. A million: ``python -m bench fuzz``."""

import importlib
import select
import socket
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.simulator.server.methods import methods
from tests.support.serving import RawClient, RawListener, served

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def fuzz():
    sys.path.insert(0, str(ROOT))
    try:
        yield importlib.import_module("bench.fuzz")
    finally:
        sys.path.remove(str(ROOT))


def test_four_thousand_inputs_do_nothing(fuzz, tmp_path):
    figures = fuzz.run(4000, 7, tmp_path / "data")
    assert figures["closed"] > 1000
    assert figures["clients_left"] == 0
    assert {path.name for path in tmp_path.iterdir()} <= {"data"}


ARGUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=6) | st.binary(max_size=6),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=15,
)


@pytest.fixture(scope="module")
def target(fuzz, tmp_path_factory):
    return fuzz.Target(tmp_path_factory.mktemp("data"))


@settings(max_examples=600, deadline=None)
@given(name=st.sampled_from(sorted(methods())), arguments=st.lists(ARGUMENTS, max_size=6), number=st.integers(0, 2**32 - 1))
def test_any_arguments_of_any_method_are_answered(fuzz, target, name, arguments, number):
    caller = target.connect()
    line = caller._transport.line
    caller.data_received(fuzz.msgpack.packb([0, number, name, [[False], *arguments]]))
    (answer,) = fuzz.msgpack.Unpacker(fuzz._reader(bytes(line.written)), strict_map_key=False)
    assert answer[:2] == [1, number]
    assert (answer[2] is None) != (answer[3] is None)
    assert not line.closed
    caller.connection_lost(None)
    assert not [text for text in target.lines if "error of ours" in text]


def test_over_real_sockets_a_second_client_notices_nothing(fuzz):
    inputs = fuzz.Fuzzer(11).inputs()
    with served() as server, RawClient(server) as good, RawListener(server, 1) as listener:
        half_open = []
        for number in range(300):
            noise = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            noise.sendall(next(inputs))
            if number % 20 == 0:
                half_open.append(noise)  # left hanging
            else:
                noise.close()
            if number % 10 == 0:
                stream = socket.create_connection(("127.0.0.1", server.stream_port), timeout=60)
                stream.sendall(next(inputs)[:6])
                stream.close()
                assert good.value("version") == "0.9.16"
                # Some input may be valid and ask for synchronous mode: from then on states come by ticks alone.
                while not select.select([listener.socket], [], [], 0.1)[0]:
                    good.value("tick_cue")
                assert listener.message()
        for item in half_open:
            item.close()
        assert good.value("version") == "0.9.16"
        assert not [line for line in server.lines if "error of ours" in line]
