"""A server that runs out of descriptors, memory or disk answers, refuses in a line, or ends with a code that says so.

It never hangs, never spins and never floods its log. The limits are the kernel's own, on a process of its own; the resources
are used up by clients, as they would be.
"""

import select
import socket
from contextlib import ExitStack, suppress

import pytest

from samepath.simulator.carla.codec import stream_of
from samepath.simulator.carla.records import Settings, write_settings
from tests.support.serve_processes import HANGS_S, serve_pool, until
from tests.support.serving import described

SYNCHRONOUS = write_settings(Settings(synchronous_mode=True, fixed_delta_seconds=0.05))
MOUNT = ((1.5, 0.0, 2.0), (0.0, 0.0, 0.0))
# Of a server in its whole life here: a reason with a traceback or two, and a line for each client that was refused.
LINES_MOST = 200
IDLE_S = 0.5
IDLE_CPU_S = 0.15
WHILES = 8


@pytest.fixture(scope="module")
def pool():
    with serve_pool() as found:
        yield found


def asked(client, name, *arguments):
    """Call: the answer, or "gone" where the connection was closed instead. Waiting longer than anything takes is a failure."""
    try:
        client.send(name, *arguments)
        answer = client.receive()
    except TimeoutError:
        raise AssertionError(f"{name} was neither answered nor refused within {HANGS_S:g} s") from None
    except OSError:
        return "gone"
    return "gone" if answer is None else answer[1:]


def value_of(answer):
    """What a call answered with; None where it was refused."""
    error, result = answer
    return result[0][1] if error is None and result[0][0] == 1 else None


def quiet(server):
    """Nothing is asked of it: it comes to rest, and it must not have flooded its log.

    What was asked before may still be under way on a busy machine. One that spins does so in every one of these whiles.
    """
    used_s = []
    while not used_s or (used_s[-1] >= IDLE_CPU_S and len(used_s) < WHILES):
        before_s = server.cpu_s()
        select.select([], [], [], IDLE_S)  # how much it does in a while is the question, so a while must pass
        used_s.append(server.cpu_s() - before_s)
    assert used_s[-1] < IDLE_CPU_S, f"it spins: {used_s}"
    assert len(server.lines) < LINES_MOST, server.lines


def survived(server, client):
    """Is it still there and well, or has it ended with a code and a reason? Whatever else it does is a fault."""
    if asked(client, "version") != "gone":
        quiet(server)
        return True
    code = server.wait(HANGS_S)
    assert code is not None, f"it has closed its connections, but it hangs: {server.lines}"
    assert code != 0, server.lines
    assert server.lines
    assert len(server.lines) < LINES_MOST, server.lines
    return False


def camera_on_a_car(client, width, height):
    """A camera's stream, or None where there was no room for it."""
    points = client.value("get_map_info")[1]
    car = client.value("spawn_actor", described("vehicle.tesla.model3"), points[0])[0]
    camera = described("sensor.camera.rgb", image_size_x=width, image_size_y=height)
    return stream_of(bytes(client.value("spawn_actor_with_parent", camera, MOUNT, car, 0, "")[5]))


def test_without_descriptors_those_who_are_there_are_served_and_new_ones_wait_or_are_refused(pool, tmp_path):
    with pool.serve(tmp_path, limits={"RLIMIT_NOFILE": 48}) as server, server.ready().client() as client, ExitStack() as stack:
        client.value("set_episode_settings", SYNCHRONOUS)
        for port in (server.port, server.stream_port):
            for _ in range(60):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=HANGS_S))
        frame = client.value("tick_cue")
        quiet(server)
        assert len(server.lines) < 60, "one line for each of the many that were refused"
        assert client.value("tick_cue") == frame + 1
        stack.close()
        # Those who left have made room.
        assert until(lambda: newcomer(server), "a new client") == "0.9.16"


def newcomer(server):
    """What a new client is told; None where it is not let in."""
    with suppress(OSError, AssertionError), server.client() as client:
        return value_of(asked(client, "version"))
    return None


def test_without_descriptors_for_a_file_a_recording_is_refused_in_a_line(pool, tmp_path):
    with pool.serve(tmp_path, limits={"RLIMIT_NOFILE": 48}) as server, server.ready().client() as client, ExitStack() as stack:
        client.value("set_episode_settings", SYNCHRONOUS)
        for _ in range(60):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=HANGS_S))
        answer = asked(client, "start_recorder", "run.log", False)
        assert answer != "gone"
        map_answer = asked(client, "copy_opendrive_to_file", "<OpenDRIVE/>", [2.0, 50.0, 1.0, 0.6, True, True, True])
        assert map_answer != "gone"  # there may be descriptors enough to try the map, or not: it is no map either way
        assert map_answer[1][0][0] is True
        assert client.value("tick_cue") > 0
        quiet(server)


def test_without_memory_for_a_picture_it_answers_or_ends_with_a_reason(pool, tmp_path):
    with (
        pool.serve(tmp_path, limits={"RLIMIT_AS": 96 << 20}) as server,
        server.ready().client() as client,
        ExitStack() as stack,
    ):
        client.value("set_episode_settings", SYNCHRONOUS)
        try:
            stream_id = camera_on_a_car(client, 2048, 2048)
            client.value("get_sensor_token", stream_id)
            stack.enter_context(server.listener(stream_id))
        except (AssertionError, OSError):
            pass  # it was refused before
        for _ in range(3):
            if asked(client, "tick_cue") == "gone":
                break
        survived(server, client)


# Where memory has run out, the next thing that needs some may be the report of it.
UNHEARD = """
import traceback
from samepath.simulator.server.methods import connection
def fails(*_, **__): raise MemoryError
connection.tick = fails
traceback.format_exception = fails
"""


def test_a_world_whose_end_cannot_even_be_reported_ends_the_process(pool, tmp_path):
    with pool.serve(tmp_path, first=UNHEARD) as server, server.ready().client() as client:
        client.value("set_episode_settings", SYNCHRONOUS)
        assert asked(client, "tick_cue") == "gone"
        assert server.wait(HANGS_S) == 70
        assert "not even the reason could be written down" in server.lines[-1]


def test_without_memory_for_large_messages_it_answers_or_ends_with_a_reason(pool, tmp_path):
    with (
        pool.serve(tmp_path, limits={"RLIMIT_AS": 96 << 20}) as server,
        server.ready().client() as client,
        ExitStack() as stack,
    ):
        client.value("set_episode_settings", SYNCHRONOUS)
        for _ in range(8):  # half of a message of 30 MiB each
            with suppress(OSError):  # it may have ended before the last of them
                greedy = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=HANGS_S))
                greedy.sendall(b"\x94\x00\x01\xa4tick\x92\xc4\x00\xdb\x01\xe0\x00\x00" + bytes(15 << 20))
        survived(server, client)


def test_readers_that_never_read_cost_no_more_than_their_bound(pool, tmp_path):
    # Of data, not of addresses: each thread reserves 64 MiB of those, and how many threads there are is the machine's affair.
    with (
        pool.serve(tmp_path, limits={"RLIMIT_DATA": 512 << 20}) as server,
        server.ready().client() as client,
        ExitStack() as stack,
    ):
        client.value("set_episode_settings", SYNCHRONOUS)
        stream_id = camera_on_a_car(client, 1024, 1024)
        client.value("get_sensor_token", stream_id)
        stack.enter_context(server.listener(stream_id))
        deaf = stack.enter_context(server.client())
        deaf.socket.setblocking(False)
        with suppress(BlockingIOError):
            for _ in range(20_000):
                deaf.send("get_actor_definitions")
        for _ in range(20):  # 4 MiB each: more than may wait for one listener
            client.value("tick_cue")
        assert survived(server, client)
        server.line("was cut off")


def test_without_disk_a_recording_ends_in_a_line_and_the_world_goes_on(pool, tmp_path):
    with pool.serve(tmp_path, "--data", "data", limits={"RLIMIT_FSIZE": 8192}) as server, server.ready().client() as client:
        client.value("set_episode_settings", SYNCHRONOUS)
        camera_on_a_car(client, 32, 32)
        client.value("start_recorder", "run.log", True)
        frames = [value_of(asked(client, "tick_cue")) for _ in range(100)]
        assert frames == list(range(frames[0], frames[0] + 100))
        server.line(r"the recording ends: .*run\.log")
        assert survived(server, client)


def test_without_disk_for_its_journal_a_line_says_so(pool, tmp_path):
    arguments = ("--journal", "journal")
    with pool.serve(tmp_path, *arguments, limits={"RLIMIT_FSIZE": 16384}) as server, server.ready().client() as client:
        client.value("set_episode_settings", SYNCHRONOUS)
        until(
            lambda: asked(client, "tick_cue") == "gone" or any("journal" in line for line in server.lines), "the journal's end"
        )
        survived(server, client)
        server.line("cannot be written")


def test_a_server_that_cannot_even_start_says_why(pool, tmp_path):
    with pool.serve(tmp_path, limits={"RLIMIT_NOFILE": 8}) as server:
        assert server.wait(HANGS_S) not in (0, None)
        assert server.lines
        assert len(server.lines) < LINES_MOST
