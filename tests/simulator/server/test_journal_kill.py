"""A real server killed with -9 while a client calls, twice, and continued: no call is lost, none is made twice."""

import os
import select
import signal
import subprocess
import sys
from types import SimpleNamespace

import msgpack
import pytest

from samepath.core.streams import stream
from samepath.instrument.traces.importers import load_cells
from samepath.simulator.carla.recorder import info_text
from samepath.simulator.carla.recorder_file import open_log
from samepath.simulator.server.journal import JournalSettings
from samepath.simulator.server.journal_files import RecordKind, numbers_of, part_path, read_part
from samepath.simulator.server.resume import JournalConfig
from tests.support.journal_scenario import Desk, begin, calls_of
from tests.support.serve_processes import until
from tests.support.serving import RawClient, served

TICKS = 40
SERVER = """
import asyncio, sys
from pathlib import Path
from samepath.simulator.server.journal import JournalSettings
from samepath.simulator.server.resume import JournalConfig
from samepath.simulator.server.server import SimulatorServer, ServerSettings

folder, resume = Path(sys.argv[1]), sys.argv[2] == "resume"

async def main():
    keeping = JournalConfig(folder / "journal", JournalSettings(every_s=None, every_ticks=4), resume=resume)
    server = SimulatorServer(ServerSettings(port=0, map_name="town", data_folder=folder / "data", journal=keeping), print)
    await server.start()
    print("port", server.port, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Noted(Desk):
    """A desk that notes its calls, and the world's digest and frame after each."""

    def __init__(self, **more):
        super().__init__(**more)
        self.calls, self.after = [], [None]

    def send(self, name, *arguments):
        self.calls.append((name, *arguments))
        result = super().send(name, *arguments)
        self.after.append((self.episode.world.digest, self.episode.frame))
        return result


def started(folder, how):
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(folder), how], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("port "):
            return process, SimpleNamespace(port=int(line.split()[1])), lines
    raise AssertionError("".join(lines))


def call_on(client, calls, done, answered):
    """Send all calls that were not made, without waiting for each answer; returns when so many were answered."""
    last = done
    for number, (name, *arguments) in enumerate(calls[done:], start=done + 1):
        client.socket.sendall(msgpack.packb([0, number, name, [[False], *arguments]]))
        while select.select([client.socket], [], [], 0.0)[0] or number - last >= 16:
            last = client.receive()[0]
            if last >= answered:
                return last
    while last < answered:
        last = client.receive()[0]
    return last


def calls_made(folder):
    """The id of the last call in the journal."""
    parts, _ = numbers_of(folder)
    records = [record for number in parts for record in read_part(part_path(folder, number)).records]
    return msgpack.unpackb([record for record in records if record.kind is RecordKind.CALL][-1].fields[1])[1]


@pytest.fixture
def whole(tmp_path):
    """A desk in this process that nobody kills."""
    desk = Noted(data=tmp_path / "whole")
    yield desk
    desk.close()
    Desk.open.clear()


def test_a_server_that_is_killed_twice_ends_like_one_that_never_was(whole, tmp_path):
    first = begin(whole)
    for number in range(TICKS):
        for name, *arguments in calls_of(first, number):
            whole.send(name, *arguments)
    calls, begun = whole.calls, next(number for number, call in enumerate(whole.calls) if call[0] == "start_recorder")
    done, how = 0, "begin"
    for round_number, low in enumerate((begun + 10, len(calls) // 2)):
        process, address, lines = started(tmp_path, how)
        try:
            assert how == "begin" or any(line.startswith("resumed from snapshot") for line in lines)
            with RawClient(address) as client:
                answered = call_on(client, calls, done, low + int(stream(17, "kill", round_number).integers(0, 30)))
                # It was due long ago, and is put away by a thread that may not have run since.
                until(lambda: numbers_of(tmp_path / "journal")[1], "a snapshot")
                os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        done, how = calls_made(tmp_path / "journal"), "resume"
        assert answered <= done < len(calls), "what was answered is in the journal"
        recording = open_log(tmp_path / "data" / "run.log")
        frames = list(recording.frames())
        ticks = whole.after[done][1] - whole.after[begun][1]
        assert ticks <= len(frames) <= ticks + 1  # the tick that was being made may be there
        assert f"Frames: {len(frames)}" in info_text(recording, everything=True)
        (cell,) = load_cells([recording.path])
        assert len(cell.ticks) == len(frames)
    keeping = JournalConfig(tmp_path / "journal", JournalSettings(), resume=True)
    with served(map_name="town", data_folder=tmp_path / "data", journal=keeping) as server:
        episode = server._runner.episode
        assert episode.world.digest == whole.after[done][0]
        with RawClient(server) as client:
            call_on(client, calls, done, len(calls))
            client.ask("stop_recorder")
        assert episode.world.digest == whole.after[-1][0]
    whole.close()
    both = [(folder / "run.log").read_bytes() for folder in (tmp_path / "whole", tmp_path / "data")]
    day = slice(18, 26)  # when it was begun
    assert both[0].replace(both[0][day], b"") == both[1].replace(both[1][day], b"")
