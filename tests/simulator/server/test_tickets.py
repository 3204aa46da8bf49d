"""The store of outcomes: what was done is not done again, what is forgotten is refused by name, and it survives being saved."""

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.errors import InputError, SamepathError
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.tickets import CallOutcome, Status, TicketId
from samepath.simulator.server.methods import methods
from samepath.simulator.server.methods.table import VOID
from samepath.simulator.server.tickets import TicketStore
from tests.support.serving import RawClient, call, described, episode, served

A, B = "a" * 32, "0123456789abcdef" * 2
METADATA = [False]


def packed(*arguments):
    return msgpack.packb([METADATA, *arguments])


def by_ticket(host, number, method, *arguments, client=A):
    """Call by ticket; gives status, error, result."""
    status, error, result, _ = call(host, "samepath_call", client, number, method, packed(*arguments))
    return status, error, msgpack.unpackb(result) if status == "success" else result


class Work:
    """Counts how often each ticket was done."""

    def __init__(self, limits=None, size=0):
        self.store = TicketStore(limits or ServerLimits())
        self.done = []
        self.size = size

    def do(self, client, number):
        ticket = TicketId(client, number)

        def run():
            self.done.append(ticket)
            return CallOutcome(Status.SUCCESS, result=f"{client} {number}".encode() + bytes(self.size), frame=number)

        return self.store.do(ticket, run)


def test_a_call_that_is_asked_for_again_is_not_done_again():
    work = Work()
    first = work.do(A, 1)
    assert work.do(A, 2).result != first.result
    assert work.do(A, 1) == first
    assert work.do(B, 1).result != first.result
    assert work.done == [(A, 1), (A, 2), (B, 1)]


def test_a_call_whose_predecessor_has_not_come_is_refused_and_not_done():
    work = Work()
    with pytest.raises(
        CallError, match=f"^ticket 2 of client {A} came, but none of its earlier ones is known: this is another world"
    ):
        work.do(A, 2)
    work.do(A, 1)
    with pytest.raises(CallError, match=f"^ticket 3 of client {A} came before ticket 2: "):
        work.do(A, 3)
    work.do(A, 2)
    assert work.done == [(A, 1), (A, 2)]


def test_a_call_that_is_too_old_is_refused_by_name():
    work = Work(ServerLimits(tickets=5))
    for number in range(1, 23):
        work.do(A, number)
    work.do(B, 1)
    assert len(work.store) == 6
    with pytest.raises(CallError, match=f"^ticket 17 of client {A} is too old to be asked about"):
        work.do(A, 17)
    with pytest.raises(CallError, match=f"^ticket 17 of client {A} is too old to be asked about"):
        work.store.find(TicketId(A, 17))
    assert work.do(A, 18).frame == 18
    assert len(work.done) == 23


def test_results_are_kept_up_to_so_many_bytes_and_the_newest_always():
    work = Work(ServerLimits(ticket_bytes=5000), size=1000)
    for number in range(1, 11):
        work.do(A, number)
        work.do(B, number)
    assert len(work.store) == 4
    assert [work.do(client, number).frame for client in (A, B) for number in (9, 10)] == [9, 10, 9, 10]
    huge = Work(ServerLimits(ticket_bytes=5000), size=100_000)
    huge.do(A, 1)
    assert huge.do(A, 1).frame == 1
    huge.do(B, 1)
    with pytest.raises(CallError, match="too old"):
        huge.do(A, 1)
    assert len(huge.done) == 2


def client(number):
    return f"{number:032x}"


def test_of_too_many_clients_the_one_that_has_not_called_for_longest_is_forgotten_and_refused_by_name():
    work = Work(ServerLimits(ticket_clients=2))
    work.do(A, 1)
    work.do(B, 1)
    work.do(A, 1)  # a retry is a call too
    work.do(client(1), 1)
    for number in (1, 2, 3):
        with pytest.raises(
            CallError, match=f"^ticket {number} of client {B} cannot be told from one that was done: .*connect anew"
        ):
            work.do(B, number)
        with pytest.raises(CallError, match="was forgotten"):
            work.store.find(TicketId(B, number))
    assert work.do(A, 2).frame == 2
    assert work.done == [(A, 1), (B, 1), (client(1), 1), (A, 2)]
    assert len(work.store) == 3  # what came of B's call is not kept either


def test_clients_come_and_go_without_end_and_none_of_their_calls_is_done_twice():
    work = Work(ServerLimits(ticket_clients=10))
    for number in range(500):
        work.do(client(number), 1)
    for number in range(490):
        with pytest.raises(CallError, match="was forgotten"):
            work.do(client(number), 1)
    assert [work.do(client(number), 1).frame for number in range(490, 500)] == [1] * 10
    assert len(work.done) == 500


def test_who_was_forgotten_stays_forgotten_when_the_world_is_saved_and_the_next_to_be_forgotten_is_the_same():
    limits = ServerLimits(ticket_clients=3)
    work = Work(limits)
    for number in (1, 2, 3, 4, 2):
        work.do(client(number), 1)
    saved = msgpack.unpackb(msgpack.packb(work.store.state()))
    resumed = Work(limits)
    resumed.store.restore(saved)
    assert msgpack.unpackb(msgpack.packb(resumed.store.state())) == saved
    for store in (work.store, resumed.store):
        store.do(TicketId(client(5), 1), lambda: CallOutcome(Status.SUCCESS))
        for number, is_known in ((1, False), (2, True), (3, False), (4, True)):
            if is_known:
                assert store.find(TicketId(client(number), 1)).frame == 1
            else:
                with pytest.raises(CallError, match="was forgotten"):
                    store.find(TicketId(client(number), 1))


def test_a_store_that_has_forgotten_nobody_is_saved_as_it_always_was():
    work = Work()
    work.do(A, 1)
    assert len(work.store.state()) == 2


def test_while_it_is_being_done_a_call_is_pending():
    store, seen = TicketStore(ServerLimits()), []
    ticket = TicketId(A, 1)

    def run():
        seen.append(store.find(ticket).status)
        return CallOutcome(Status.FAILED, "no")

    assert store.find(ticket).status is Status.UNKNOWN
    store.do(ticket, run)
    assert seen == [Status.PENDING]
    assert store.find(ticket) == CallOutcome(Status.FAILED, "no")


STEPS = st.lists(st.tuples(st.sampled_from([A, B]), st.integers(1, 12)) | st.none(), max_size=60)


@settings(max_examples=200, deadline=None)
@given(steps=STEPS, tickets=st.integers(1, 6), size=st.sampled_from([300, 700, 100_000]))
def test_in_whatever_order_calls_come_each_is_done_at_most_once_and_in_its_turn(steps, tickets, size):
    """None saves the store and goes on from the copy."""
    limits = ServerLimits(tickets=tickets, ticket_bytes=size)
    work = Work(limits)
    for step in steps:
        if step is None:
            state = msgpack.unpackb(msgpack.packb(work.store.state()))
            work.store = TicketStore(limits)
            work.store.restore(state)
            assert msgpack.unpackb(msgpack.packb(work.store.state())) == state
            continue
        client, number = step
        last = len([item for item in work.done if item.client == client])
        try:
            outcome = work.do(client, number)
        except CallError as error:
            assert ("too old" in str(error)) == (number <= last)
            assert number <= last or number > last + 1
        else:
            assert outcome.result == f"{client} {number}".encode()
    for client in (A, B):
        numbers = [item.number for item in work.done if item.client == client]
        assert numbers == list(range(1, len(numbers) + 1))
    assert len(work.store) <= 2 * tickets


def test_a_call_that_was_being_done_when_the_world_was_saved_is_not_done_again():
    store, saved = TicketStore(ServerLimits()), []
    store.do(TicketId(A, 1), lambda: CallOutcome(Status.SUCCESS))
    store.do(TicketId(A, 2), lambda: saved.append(store.state()) or CallOutcome(Status.SUCCESS))
    resumed = TicketStore(ServerLimits())
    resumed.restore(msgpack.unpackb(msgpack.packb(saved[0])))
    assert resumed.find(TicketId(A, 1)).status is Status.SUCCESS
    with pytest.raises(CallError, match=f"ticket 2 of client {A} was being done when this world was saved"):
        resumed.do(TicketId(A, 2), lambda: pytest.fail("done twice"))
    assert resumed.do(TicketId(A, 3), lambda: CallOutcome(Status.SUCCESS)).status is Status.SUCCESS


@pytest.mark.parametrize(
    "state",
    [
        None,
        [],
        [[], [], []],
        [[["x", 1, 0]], []],
        [[[A, 0, 0]], []],
        [[[A, 1, 2]], [[A, 1, "success", "", b"", 0]]],
        [[[A, 1, 1]], [[A, 2, "success", "", b"", 0]]],
        [[], [[A, 1, "success", "", b"", 0]]],
        [[[A, 1, 1]], [[A, 1, "done", "", b"", 0]]],
        [[[A, 1, 1 << 63]], []],
        [[], [], b"too short"],
        [[], [], "no bytes"],
    ],
)
def test_a_store_that_makes_no_sense_is_not_restored(state):
    store = TicketStore(ServerLimits())
    store.do(TicketId(A, 1), lambda: CallOutcome(Status.SUCCESS))
    with pytest.raises(InputError, match="outcomes of tickets cannot be read"):
        store.restore(state)
    assert store.find(TicketId(A, 1)).status is Status.SUCCESS


def test_calls_by_ticket_do_what_the_calls_do_and_only_once():
    host = episode()
    where = [list(part) for part in host.map.spawn_points[0]]
    spawn = described("vehicle.tesla.model3")
    status, _, actor = by_ticket(host, 1, "spawn_actor", spawn, where)
    assert status == "success"
    frame = host.frame
    assert by_ticket(host, 2, "tick_cue") == ("success", "", frame + 1)
    assert by_ticket(host, 2, "tick_cue") == ("success", "", frame + 1) == by_ticket(host, 2, "tick_cue")
    assert host.frame == frame + 1
    control = [0.5, 0.0, 0.0, False, False, False, 0]
    assert by_ticket(host, 3, "apply_control_to_vehicle", actor[0], control) == ("success", "", None)
    assert by_ticket(host, 4, "samepath_control", actor[0]) == ("success", "", control)
    assert by_ticket(host, 1, "spawn_actor", spawn, where)[2] == actor
    assert call(host, "samepath_ticket", A, 2) == ("success", "", msgpack.packb(frame + 1), frame + 1)
    assert call(host, "samepath_ticket", A, 9)[0] == "unknown"
    destroyed = by_ticket(host, 5, "destroy_actor", actor[0])
    assert destroyed == ("success", "", True) == by_ticket(host, 5, "destroy_actor", actor[0])
    assert by_ticket(host, 6, "destroy_actor", actor[0]) == ("failed", "unable to destroy actor: not found", b"")


def test_tickets_outlive_the_load_of_a_map():
    host = episode()
    assert by_ticket(host, 1, "load_new_episode", "", False, 0xFFFF) == ("success", "", None)
    number = host.id
    assert by_ticket(host, 1, "load_new_episode", "", False, 0xFFFF) == ("success", "", None)
    assert host.id == number


def test_what_cannot_be_called_fails_and_takes_its_number():
    host = episode()
    assert by_ticket(host, 1, "make_coffee")[:2] == ("failed", "samepath has no method 'make_coffee'")
    assert by_ticket(host, 2, "samepath_call", A, 3, "version", packed())[1] == "samepath_call cannot be called by ticket"
    assert by_ticket(host, 3, "samepath_ticket", A, 1)[1] == "samepath_ticket cannot be called by ticket"
    assert by_ticket(host, 4, "console_command", "x")[1].startswith("not supported by samepath: console_command: ")
    assert by_ticket(host, 5, "spawn_actor", 1)[1] == "spawn_actor takes 2 arguments, but 1 came"
    assert "a number between" in by_ticket(host, 6, "set_imui_gravity", "much")[1]
    assert (
        by_ticket(host, 7, "get_actors_by_id", [1] * 3_000_000)[1]
        == "get_actors_by_id: its arguments have more than 2097152 bytes"
    )
    assert by_ticket(host, 8, "version") == ("success", "", "0.9.16")


def test_what_is_answered_beside_the_world_is_done_in_its_turn_by_ticket():
    host = episode()
    xodr = host.map.road_map.xodr
    assert methods()["copy_opendrive_to_file"].aside
    assert by_ticket(host, 1, "copy_opendrive_to_file", xodr, [2.0, 50.0, 1.0, 0.6, True, True, True]) == ("success", "", None)
    assert by_ticket(host, 2, "load_new_episode", "OpenDriveMap", True, 0xFFFF) == ("success", "", None)
    assert host.map.name == "OpenDriveMap"


def test_an_error_of_ours_in_a_call_that_only_reads_is_told_and_not_repeated(monkeypatch):
    host = episode()
    monkeypatch.setattr(host.actors, "get", lambda *_: 1 / 0)
    first = by_ticket(host, 1, "samepath_control", 5)
    assert first[:2] == ("failed", "internal error of samepath in samepath_control: ZeroDivisionError: division by zero")
    assert by_ticket(host, 1, "samepath_control", 5) == first
    assert len([line for line in host.context.outbox.lines if "error of ours in samepath_control" in line]) == 1


def test_an_error_of_ours_in_a_call_that_changes_the_world_is_no_outcome(monkeypatch):
    host = episode()
    monkeypatch.setattr(host.actors, "find", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        by_ticket(host, 1, "destroy_actor", 5)


@pytest.mark.parametrize(
    "arguments",
    [
        ("A" * 32, 1, "version", packed()),
        ("a" * 31, 1, "version", packed()),
        (b"a" * 32, 1, "version", packed()),
        (A, 0, "version", packed()),
        (A, 1 << 63, b"version", packed()),
        (A, 1, "version", [METADATA]),
    ],
)
def test_a_ticket_that_is_none_is_refused_and_nothing_is_kept(arguments):
    host = episode()
    with pytest.raises(SamepathError, match=r"^samepath_call: .* was wanted, but|were wanted, but"):
        call(host, "samepath_call", *arguments)
    assert len(host.tickets) == 0


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=6) | st.binary(max_size=6),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def host():
    found = episode()
    found.calls = 0  # made by ticket
    return found


@settings(max_examples=400, deadline=None)
@given(
    name=st.sampled_from(sorted(set(methods()) - {"load_new_episode", "start_recorder", "replay_file"})) | st.text(max_size=8),
    content=st.lists(JUNK, max_size=6).map(msgpack.packb) | st.binary(max_size=40) | st.just(b"\x91" * 5000),
    cut=st.integers(0, 3),
)
def test_junk_as_arguments_fails_and_the_next_call_goes_on(host, name, content, cut):
    number, host.calls = host.calls, host.calls + 2
    raw = content[: len(content) - cut]
    status, error, result, _ = call(host, "samepath_call", B, number + 1, name, raw)
    assert status in ("failed", "success")
    assert (status == "failed") == bool(error)
    assert "\n" not in error or "\n" in name
    if status == "success":
        assert methods()[name].shape != VOID or result == b"\xc0"
    assert call(host, "samepath_call", B, number + 1, name, raw) == (status, error, result, host.frame)
    assert call(host, "samepath_call", B, number + 2, "version", packed())[0] == "success"
    assert not [line for line in host.context.outbox.lines if "error of ours" in line]


def test_over_the_wire_a_call_answers_with_its_status_error_result_and_frame():
    with served() as server, RawClient(server) as client:
        status, error, result, frame = client.value("samepath_call", A, 1, "get_spectator", packed())
        assert (status, error) == ("success", "")
        assert msgpack.unpackb(result) == client.value("get_spectator")
        assert client.value("samepath_ticket", A, 1) == [status, error, result, frame]
        assert client.value("samepath_ticket", A, 2)[0] == "unknown"
        _, refused = client.ask("samepath_call", A, 3, "get_spectator", packed())
        assert refused == [
            [0, [f"ticket 3 of client {A} came before ticket 2: calls are done in their order, so connect anew"]]
        ]
