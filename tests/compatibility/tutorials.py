"""The tutorials of CARLA's documentation: every Python block of every page, against ``samepath serve``.

``python -m tests.compatibility.tutorials FOLDER --maps TOWNS --python PYTHON``, with FOLDER CARLA's ``Docs`` (branch
``ue4/0.9.16``) and PYTHON an interpreter with the ``carla`` package, NumPy, OpenCV, Matplotlib, ``networkx`` and ``pygame``.
Each page has a fresh server with Town10HD, CARLA's own first map. The blocks of a page run in order in one interpreter, as a
reader types them. Names that the page takes for granted are there before: ``client`` and ``world``, and ``vehicle`` and
``vehicles``, a car that drives. A block that has no end gets Ctrl-C, and the page goes on behind it.

A block *ran* if it raised nothing. What it raised is kept, with the block's number: many blocks show a part of a program.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from tests.compatibility.serving import serving

PORT = 2000  # written into the pages
BLOCK_S = 20
PAGE_S = 900.0
TOWN = "Town10HD"
PAGES = (
    "tuto_first_steps", "tuto_G_add_friction_triggers", "tuto_G_bounding_boxes", "tuto_G_control_vehicle_physics",
    "tuto_G_control_walker_skeletons", "tuto_G_getting_started", "tuto_G_instance_segmentation_sensor", "tuto_G_openstreetmap",
    "tuto_G_pedestrian_bones", "tuto_G_pygame", "tuto_G_retrieve_data", "tuto_G_texture_streaming", "tuto_G_traffic_manager",
    "core_world", "core_actors", "core_map", "core_sensors", "adv_synchrony_timestep", "adv_recorder", "adv_traffic_manager",
    "adv_agents", "bp_library",
)  # fmt: skip
# The indent of the first fence is that of the block: pages put blocks into lists.
_BLOCK = re.compile(r"^[ \t]*```(?:py|python|Python)[ \t]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)

# Runs in the other interpreter: the blocks of a page, one after the other; a JSON line for each.
RUN = """
import json, os, random, signal, sys, threading, traceback
import carla
if not hasattr(signal, "setitimer"):
    sys.exit("expected a system with interval timers")
signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
blocks, limit_s = json.load(open(sys.argv[1])), float(sys.argv[2])
client = carla.Client("127.0.0.1", 2000)
client.set_timeout(120.0)
world = client.get_world()
places = world.get_map().get_spawn_points()
vehicle = world.spawn_actor(world.get_blueprint_library().find("vehicle.tesla.model3"), places[-1])
vehicle.set_autopilot(True)
names = {"__name__": "__main__", "carla": carla, "client": client, "world": world, "vehicle": vehicle, "vehicles": [vehicle],
         "random": random}
for number, block in enumerate(blocks, 1):
    found = {"block": number, "result": "ran", "why": ""}
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        exec(compile(block, f"block {number}", "exec"), names)
    except KeyboardInterrupt:
        found["result"] = "has no end"
    except SystemExit:
        pass
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        found.update(result="raised", why=f"{type(error).__name__}: {error}"[:300].replace(chr(10), " "))
        traceback.print_exc()
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(chr(30) + json.dumps(found), flush=True)
    # A page's loop may have left the world waiting for ticks; the next block is typed by a reader who sees it move.
    try:
        settings = client.get_world().get_settings()
        if settings.synchronous_mode and found["result"] == "has no end":
            client.get_world().tick()
    except RuntimeError:
        pass
os._exit(0)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="CARLA's Docs")
    parser.add_argument("--maps", type=Path, required=True, help=f"a folder with {TOWN}.xodr")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--only", nargs="*", help="names of pages")
    parser.add_argument("--keep", type=Path, help="a folder for what the pages print")
    parser.add_argument("--block-seconds", type=float, default=BLOCK_S, help="when a block gets Ctrl-C")
    parser.add_argument("--version", default="", help="which version FOLDER is, for the results")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    if not (arguments.folder / "core_world.md").is_file():
        parser.error(f"{arguments.folder}: expected CARLA's Docs with core_world.md")
    code_measured()  # now: what is changed while this runs is not measured
    results = {}
    for page in PAGES:
        blocks = blocks_of(arguments.folder / f"{page}.md")
        if blocks and (not arguments.only or page in arguments.only):
            print(f"{page} ...", file=sys.stderr, flush=True)
            results[page] = run(page, blocks, arguments)
    table = Table("page", "blocks", "ran", "has no end", "raised", "what", box=None)
    for page, found in results.items():
        table.add_row(page, *(str(found[key]) for key in ("blocks", "ran", "endless", "raised", "why")))
    Console(width=200).print(table)
    if arguments.save:
        figures: dict[str, object] = {"version": arguments.version, "block_s": arguments.block_seconds, "pages": results}
        save("tutorials", figures, ["python", "-m", "tests.compatibility.tutorials", "FOLDER"])
    return 0


def blocks_of(page: Path) -> list[str]:
    """Return the Python blocks of a page, without the indent of the list they stand in."""
    return [dedent(block) for block in _BLOCK.findall(page.read_text("utf-8"))] if page.is_file() else []


def run(page: str, blocks: Sequence[str], arguments: argparse.Namespace) -> dict[str, object]:
    """Run the blocks of a page against a fresh server."""
    with tempfile.TemporaryDirectory(prefix="tutorial-") as place:
        script, given = Path(place) / "run.py", Path(place) / "blocks.json"
        script.write_text(RUN)
        given.write_text(json.dumps(blocks))
        command = [str(arguments.python.absolute()), str(script), str(given), str(arguments.block_seconds)]
        with serving(PORT, ["--map", TOWN, "--maps", str(arguments.maps.absolute())]):
            said, ended = _said(command, Path(place))
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
        (arguments.keep / f"{page}.log").write_text(said)
    found = [json.loads(line) for line in re.findall(r"\x1e(.*)", said)]
    counts = Counter(block["result"] for block in found)
    why = [f"{block['block']}: {block['why']}" for block in found if block["result"] == "raised"]
    if len(found) < len(blocks):
        why.append(f"{len(found) + 1}: {ended}")
    return {
        "blocks": len(blocks),
        "ran": counts["ran"],
        "endless": counts["has no end"],
        "raised": len(blocks) - counts["ran"] - counts["has no end"],
        "why": why,
    }


def _said(command: Sequence[str], place: Path) -> tuple[str, str]:
    """Run a command; return what it printed and how it ended."""
    output = place / "output.log"
    with output.open("w") as file:
        try:
            done = subprocess.run(
                command, cwd=place, stdout=file, stderr=subprocess.STDOUT, check=False, timeout=PAGE_S,
                env={"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "MPLBACKEND": "Agg", "HOME": str(place)},
            )  # fmt: skip
            ended = f"the page ended with {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"the page did not end within {PAGE_S:g} s"
    return output.read_text(errors="replace"), ended


if __name__ == "__main__":
    sys.exit(main())
