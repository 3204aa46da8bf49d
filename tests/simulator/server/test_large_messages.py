"""Large messages: refused before they are unpacked, unpacked in steps, and read as small ones are."""

import tracemalloc
from contextlib import suppress

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.simulator.carla import codec
from samepath.simulator.carla.codec import Framer, LargeArray, WireError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.records import BrokenCommand, SpawnCommand
from samepath.simulator.server.dialects import dialect_of
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rpc import MalformedCallError, checked_call, parse
from tests.support.serving import RawClient, Somebody, served

LIMITS = ServerLimits()
MIB = 1 << 20
PARAMETERS = [2.0, 50.0, 1.0, 0.6, True, True, True]
CONTROL = [[2, [7, [0.5, 0.1, 0.0, False, False, False, 0]]]]


def spawn(*after):
    return [[0, [[0, "vehicle.tesla.model3", [["role_name", 4, "x"]]], [[0.0] * 3, [0.0] * 3], [False], 0, "", list(after)]]]


def message(name, *arguments):
    return msgpack.packb([0, 1, name, [[False], *arguments]])


def array(item, count):
    return b"\xdd" + count.to_bytes(4, "big") + item * count


def raw_message(name, *arguments):
    """A message whose arguments are MessagePack already."""
    return b"\x94\x00\x01" + msgpack.packb(name) + bytes([0x91 + len(arguments)]) + b"\x91\xc2" + b"".join(arguments)


def read(data):
    return checked_call(methods(), parse(data, LIMITS), Somebody(), data).arguments


def read_measured(data):
    """What comes of a message, and the most memory that reading it takes."""
    tracemalloc.start()
    try:
        return read(data), tracemalloc.get_traced_memory()[1]
    except WireError as error:
        return str(error), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_message_of_nils_is_refused_by_its_number_of_arguments():
    data = b"\x94\x00\x01\xa7version" + array(b"\xc0", 4_000_000)
    found, peak_bytes = read_measured(data)
    assert found == "version takes 0 arguments, but 3999999 came"
    assert peak_bytes < 2 * MIB


EMPTY_ARRAYS, EMPTY_MAPS, EXTENSIONS = b"\xdc\x00\x64" + b"\x90" * 100, b"\xdc\x00\x64" + b"\x80" * 100, b"\xd4\x01\x01" * 50
JUNK = {
    "ids that are arrays": raw_message("get_actors_by_id", array(b"\x90", 2_000_000)),
    "more ids than there may be": raw_message("get_actors_by_id", array(b"\x01", 2_000_000)),
    "ids in arrays in arrays": raw_message("get_actors_by_id", b"\x91" * 900 + array(b"\x90", 2_000_000)),
    "a number that is an array": raw_message("destroy_actor", array(b"\x90", 2_000_000)),
    "a number that is a map": raw_message("destroy_actor", b"\xdf\x00\x0f\xff\xff" + b"\x01\x80" * 0xFFFFF),
    "a name that is a long text": raw_message("get_required_files", msgpack.packb("x" * 8_000_000)),
    "metadata of nils": b"\x94\x00\x01\xa7version\x91" + array(b"\xc0", 4_000_000),
    "more than a structure may have": raw_message("get_actors_by_id", array(b"\xc0", 4_000_000)),
    "a description of maps": raw_message("spawn_actor", b"\x93\x01\xa1x" + array(EMPTY_MAPS * 40, 500), b"\xc0"),
    "a transform of maps": raw_message("set_actor_transform", b"\x01", b"\x92" + array(EMPTY_MAPS, 20_000) + b"\xc0"),
    "lights of extensions": raw_message("update_lights_state", b"\xa0", array(EXTENSIONS, 13_000), b"\xc2"),
    "physics of tiny texts": raw_message("apply_physics_control", b"\x01", b"\x92" + array(b"\xa1x", 1_000_000) + b"\xc0"),
    "a batch in a map": raw_message("apply_batch", b"\xdf\x00\x0f\xff\xff" + b"\x01\x80" * 0xFFFFF, b"\xc2"),
    "a batch of extensions": raw_message("apply_batch", array(b"\xdc\x00\x20" + b"\xd4\x01\x01" * 32, 20_000), b"\xc2"),
}  # fmt: skip


@pytest.mark.parametrize("kind", JUNK)
def test_junk_is_refused_in_a_line_before_much_of_it_is_unpacked(kind):
    found, peak_bytes = read_measured(JUNK[kind])
    assert isinstance(found, str)
    assert "\n" not in found
    assert len(found) < 200
    # A long text comes as a run of bytes; nothing else may take more than a few pieces.
    assert peak_bytes < 6 * MIB


@pytest.mark.parametrize("item", [EMPTY_ARRAYS, EMPTY_MAPS])
def test_commands_that_cannot_be_read_leave_only_a_line_each(item):
    (commands, _), peak_bytes = read_measured(raw_message("apply_batch", array(item, LIMITS.broken_commands), b"\xc2"))
    assert {type(command) for command in commands} == {BrokenCommand}
    assert peak_bytes < 5 * MIB


@pytest.mark.parametrize("item", [EMPTY_ARRAYS, EMPTY_MAPS, b"\x91\x92\x02\xdc\x00\x60" + b"\x90" * 96])
def test_a_batch_with_more_commands_that_cannot_be_read_is_refused(item):
    found, peak_bytes = read_measured(raw_message("apply_batch", array(item, 20_000), b"\xc2"))
    assert found.startswith("apply_batch: expected commands, got more than 256 that cannot be read: ")
    assert peak_bytes < 5 * MIB


def test_a_map_that_is_too_long_is_refused_before_it_is_decoded():
    found, peak_bytes = read_measured(message("copy_opendrive_to_file", "<" * (17 << 20), PARAMETERS))
    assert found == f"copy_opendrive_to_file: expected a text of at most {16 << 20} bytes, got {17 << 20} bytes"
    assert peak_bytes < 2 * MIB


@pytest.mark.parametrize("kind", JUNK)
def test_no_step_unpacks_more_than_a_piece(kind, monkeypatch):
    sizes = []

    class Counting(msgpack.Unpacker):
        def unpack(self):
            try:
                return super().unpack()
            finally:
                sizes.append(self.tell())

    unpackb = msgpack.unpackb
    monkeypatch.setattr(msgpack, "Unpacker", Counting)
    monkeypatch.setattr(msgpack, "unpackb", lambda data, **options: sizes.append(len(data)) or unpackb(data, **options))
    with suppress(WireError):
        read(JUNK[kind])
    assert max(sizes, default=0) <= codec.PIECE_BYTES + 16


def test_a_batch_of_all_commands_there_may_be_is_read_as_a_small_one():
    commands, _ = read(message("apply_batch", [CONTROL, spawn(CONTROL, CONTROL)] * 5_000, False))
    small, _ = read(message("apply_batch", [CONTROL, spawn(CONTROL, CONTROL)], False))
    assert commands == small * 5_000


def test_one_command_with_many_behind_it_is_read_as_a_small_one():
    commands, _ = read(message("apply_batch", [spawn(*[spawn(*[CONTROL] * 20)] * 500)], False))
    small, _ = read(message("apply_batch", [spawn(spawn(CONTROL))], False))
    assert isinstance(commands[0], SpawnCommand)
    assert len(commands[0].do_after) == 500
    assert {len(after.do_after) for after in commands[0].do_after} == {20}
    assert commands[0].do_after[-1].do_after[-1] == small[0].do_after[0].do_after[0]


@pytest.mark.parametrize(
    "commands",
    [
        [spawn(*[spawn(*[CONTROL] * 50)] * 999)],
        [spawn(*[CONTROL] * 999)] * 21,
        [spawn(*[spawn(*["not a command"] * 50)] * 999)],
    ],
)
def test_commands_behind_commands_count_as_commands(commands):
    with pytest.raises(WireError, match="at most 20000 commands were wanted"):
        read(message("apply_batch", commands, False))


def test_a_long_description_is_read():
    attributes = [[f"a{number}", 0, "x" * 1000] for number in range(500)]
    description, _ = read(message("spawn_actor", [0, "sensor.camera.rgb", attributes], [[0.0] * 3, [0.0] * 3]))
    assert [value.id for value in description.attributes] == [name for name, _, _ in attributes]


@pytest.mark.parametrize("text", ["<" * 5_000_000, "é" * 2_000_000 + "漢😀" * 300_000])
def test_a_long_text_is_read_whole(text):
    found, _ = read(message("copy_opendrive_to_file", text, PARAMETERS))
    assert found == text


def test_a_long_text_that_is_no_text_is_refused():
    body = b"\xdb" + (1_000_000).to_bytes(4, "big") + b"x" * 999_999 + b"\xe9"
    with pytest.raises(WireError, match="UTF-8"):
        read(raw_message("copy_opendrive_to_file", body, msgpack.packb(PARAMETERS)))


def test_a_large_ticket_is_read_as_a_small_one():
    arguments = msgpack.packb([[False], [CONTROL] * 10_000, False])
    assert read(message("samepath_call", "c" * 32, 1, "apply_batch", arguments))[3] == arguments


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=60) | st.binary(max_size=60),
    lambda inner: st.lists(inner, max_size=12),
    max_leaves=30,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, max_size=40), st.integers(10, 40))
def test_pieces_give_what_unpacking_at_once_gives(values, piece_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "PIECE_BYTES", piece_bytes)  # at least the 9 bytes of a number
        assert codec.plain(LargeArray(memoryview(msgpack.packb(values)), 0)) == values


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, max_size=8), st.integers(0, 400))
def test_a_message_that_is_cut_short_is_refused(values, length):
    data = msgpack.packb(values)[:length]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "PIECE_BYTES", 16)
        if length < len(msgpack.packb(values)):
            with pytest.raises(WireError):
                codec.plain(LargeArray(memoryview(data), 0))


def test_an_older_client_may_send_large_batches_too():
    old_spawn = [[0, [[0, "vehicle.tesla.model3", [["role_name", 3, "x"]]], [[0.0] * 3, [0.0] * 3], [False], []]]]
    translated = dialect_of("0.9.15").request(message("apply_batch", [old_spawn] * 1_000, False), LIMITS.structured_bytes)
    assert read(translated)[0] == read(message("apply_batch", [spawn()] * 1_000, False))[0]


def test_messages_that_come_together_are_cut_out_a_few_at_a_time():
    framer = Framer(LIMITS.message_bytes, MalformedCallError)
    small = message("version")
    found = framer.feed(small * 150 + small[:3], 64)
    assert (found, framer.has_more) == ([small] * 64, True)
    assert (framer.feed(b"", 64), framer.has_more) == ([small] * 64, True)
    assert (framer.feed(b"", 64), framer.has_more) == ([small] * 22, False)
    assert framer.feed(small[3:]) == [small]


def test_a_client_that_sends_many_quick_calls_at_once_is_answered_all_of_them_and_others_meanwhile():
    with served() as server, RawClient(server) as many, RawClient(server) as other:
        for _ in range(3):
            many.socket.sendall(message("version") * 5_000)
            assert other.value("version") == "0.9.16"
            assert [many.receive()[0] for _ in range(5_000)] == [1] * 5_000
