"""A recorded session of the server: everything that forty ticks of a busy town consist of, with the digest of each.

The file beside the server's tests holds it as a journal, the calls as the very bytes that came. CI plays it with the code of
today. ``python -m tests.support.recorded_session`` records it anew, which is a change of what the product promises: see
CONTRIBUTING.md, "Golden digests".
"""

import tempfile
from pathlib import Path

from samepath.core.files import SYSTEM_DISK
from samepath.simulator.maps import load_map
from samepath.simulator.server.commands import CallerGone, NodeLeft, StreamUnheard
from samepath.simulator.server.journal_files import PartWriter, RecordKind, part_path, read_part
from tests.support.journal_scenario import Client, Desk, begin, kept, play
from tests.support.serving import call

FILE = Path(__file__).parents[1] / "simulator" / "server" / "session_golden.journal"
TICKS = 40
SHAPE = [2.0, 50.0, 1.0, 0.6, True, True, True]


def record(folder):
    """Play the session into a journal in a folder; returns the episode as it ended."""
    desk = Desk(kept(folder / "journal"), data=folder / "data")
    desk.client.name = "a client"
    first = begin(desk)
    play(desk, first, range(TICKS // 2))
    # A second client, at a node: its commands stand above the first one's, it listens, and its node leaves.
    other, owner = Client(), desk.client
    other.home, other.stream_port, other.name = 2, 2005, "a client of a node"
    desk.client = other
    desk.ask("apply_control_to_vehicle", first, [1.0, -0.2, 0.0, False, False, False, 0])
    desk.listen()
    desk.client = owner
    desk.ask("apply_control_to_vehicle", first, [0.0, 0.0, 1.0, False, False, False, 0])
    desk.ask("tick_cue")
    desk.runner._do(StreamUnheard(2, 2))
    desk.runner._do(NodeLeft(2))
    desk.runner._do(CallerGone(other))
    play(desk, first, range(TICKS // 2, TICKS))
    # A map of a client's own, and a few ticks on it.
    desk.runner._do(call(desk.episode, "copy_opendrive_to_file", load_map("t-junction").xodr, SHAPE))
    desk.ask("load_new_episode", "OpenDriveMap", False, 0xFFFF)
    begun = desk.ask("spawn_actor", [0, "vehicle.audi.tt", []], desk.ask("get_map_info")[1][0])[0]
    desk.ask("apply_control_to_vehicle", begun, [0.8, 0.1, 0.0, False, False, False, 0])
    for _ in range(10):
        desk.ask("tick_cue")
    desk.close()
    return desk.episode


def main():
    with tempfile.TemporaryDirectory() as made:
        record(Path(made))
        found = read_part(part_path(Path(made) / "journal", 0)).records
        FILE.unlink(missing_ok=True)
        part = PartWriter(FILE, SYSTEM_DISK)
        for item in found:
            if item.kind not in (RecordKind.HEAD, RecordKind.END):  # which say where and by which code it was made
                part.add(item.kind, *item.fields)
        part.flush(durable=False)
        part.close()
    print(f"{FILE.name}: {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
