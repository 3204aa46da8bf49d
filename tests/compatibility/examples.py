"""The programs in CARLA's ``PythonAPI/examples`` and ``PythonAPI/util``, unmodified, against ``samepath serve``.

``python -m tests.compatibility.examples FOLDER --python PYTHON``, with FOLDER CARLA's ``PythonAPI`` (branch ``ue4/0.9.16``)
and PYTHON an interpreter with the ``carla`` wheel, numpy before 1.24, matplotlib before 3.9, ``pygame``, ``networkx``,
``shapely``, ``pillow``, ``psutil``, ``py-cpuinfo`` and ``gputil``. Not a file is changed. Map ``town`` stands for CARLA's
towns; programs with places of Town03 and Town05 written into them run with ``--maps FOLDER`` alone, which holds those two.
There is no display: pygame draws into memory (``SDL_VIDEODRIVER=dummy``), and how many pictures a program shows is counted from
outside; ``--keep DIR`` keeps the last of each, beside what it wrote. Many of the programs have no end, or one that may come
late: they get Ctrl-C after some time, as from a user, and must then end by themselves. Programs of one session share a server;
after each of them the server must answer.

A program has *run* if it ended well, showed or wrote what it is there for, and its errors hold no traceback.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageOps
from rich.console import Console
from rich.table import Table

from bench.tools import code_measured, save
from samepath.core.clock import SYSTEM_CLOCK
from tests.compatibility.serving import serving

PORT = 2000  # written into some of the programs
END_S = 60.0
CTRL_CS = 3  # within END_S; a program with ``except: pass`` in it takes no notice of one that comes just then
CTRL_C = 130
SHOWN, SCREEN = "shown", "screen.png"
# Python's own words for Ctrl-C, and CARLA's, where they are not caught; neither is a fault.
_INTERRUPTED = re.compile(r"KeyboardInterrupt")
# CPython before 3.14 ends threads that want to run after it has shut down, and CARLA's client has some whose code may not be
# ended so: what is aborted then is a program that has said its last word. Its pool of processes may wait for ever for a lock
# that one of them held when Ctrl-C came.
_AFTER_THE_END = re.compile(r"terminate called without an active exception")
_LAST_WORDS = ("done.", "Bye!")
# What is "ignored" while Python ends is told by its own last line, which is no more than another Ctrl-C.
_BROKEN = re.compile(r"terminate called|Segmentation fault|(?m:^(?!Exception ignored in)\w*(?:\.\w+)*(?:Error|Exception)\b.*$)")

# Runs a program as a terminal would, where Ctrl-C is not ignored as it is in the background of a script; counts what it shows.
RUN = f"""
import runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
script = sys.argv[1]
sys.argv = sys.argv[1:]
sys.path[0] = script.rpartition("/")[0]
try:
    import pygame
except ImportError:
    pass
else:
    shown = 0
    file = open("{SHOWN}", "wb", buffering=0)
    flip = pygame.display.flip
    def counted():
        global shown
        flip()
        shown += 1
        file.write(b".")  # one byte, so that no interruption finds half a number
        if shown % 50 == 20:
            pygame.image.save(pygame.display.get_surface(), "{SCREEN}")
    pygame.display.flip = counted
runpy.run_path(script, run_name="__main__")
"""

# Has the server draw a picture, as it was when a user's second program comes: code of cameras is loaded with the first one, and
# some programs wait for 2 s at most.
WARM = """
import queue, sys, carla
client = carla.Client("127.0.0.1", int(sys.argv[1]))
client.set_timeout(120.0)
world, seen = client.get_world(), queue.Queue()
sensors = [world.spawn_actor(world.get_blueprint_library().find(name), world.get_map().get_spawn_points()[0])
           for name in ("sensor.camera.rgb", "sensor.lidar.ray_cast", "sensor.other.radar")]
for sensor in sensors:
    sensor.listen(seen.put)
for _ in range(12):
    seen.get(timeout=120.0)
for sensor in sensors:
    sensor.stop()
    sensor.destroy()
import os
os._exit(0)
"""

# Asks the server afterwards: does it answer, and who was left behind.
ASK = """
import sys, carla
client = carla.Client("127.0.0.1", int(sys.argv[1]))
client.set_timeout(20.0)
names = [actor.type_id for actor in client.get_world().get_actors()]
print(sum(name.startswith(("vehicle.", "walker.", "sensor.")) for name in names), flush=True)
import os
os._exit(0)
"""


@dataclass(frozen=True)
class Program:
    """What is run: after ``stop_s`` it gets Ctrl-C, or within ``stop_s`` it must end by itself.

    ``shows`` so many pictures at least, and ``writes`` a file of that pattern; ``says`` that in what it prints, and
    ``complains`` so (a pattern) of what it has checked. Programs that take out whoever they put there leave ``nobody`` behind.
    ``modules`` are put where it finds them. ``town`` is the map of its session's server, which nothing stands for.
    """

    name: str
    words: tuple[str, ...] = ()
    stop_s: float = 300.0
    endless: bool = False
    shows: int = 0
    writes: str = ""
    says: str = ""
    complains: str = ""
    nobody: bool = True
    modules: tuple[tuple[str, str], ...] = ()
    town: str = ""

    def __str__(self) -> str:
        return " ".join([self.name, *self.words])


def _endless(name: str, *words: str, stop_s: float = 20.0, shows: int = 0, says: str = "", nobody: bool = True) -> Program:
    return Program(name, words, stop_s, endless=True, shows=shows, says=says, nobody=nobody)


def _ends(name: str, *words: str, writes: str = "", says: str = "", nobody: bool = True) -> Program:
    return Program(name, words, writes=writes, says=says, nobody=nobody)


def _checks(name: str) -> Program:
    """Plays each of its scenes ten times, and says how often it came to the same."""
    return Program(name, stop_s=900.0, says="Deterministic Repetitions: [10] / 10", complains=r"Repetitions: \[(?!10\])")


def _benchmark(*words: str) -> Program:
    """It imports a name from a module ``tr`` that no package has, and never uses it: an empty one is put there."""
    command = (*words, "--maps", "town")
    return Program("util/performance_benchmark.py", command, 900.0, writes="benchmark.md", modules=(("tr", "tr = None\n"),))


RECORDING = "example.log"
SESSIONS: tuple[tuple[Program, ...], ...] = (
    (_endless("examples/automatic_control.py", "--agent", "Basic", "--loop", "--sync", shows=50),),
    (_endless("examples/automatic_control.py", "--agent", "Behavior", "--loop", "--sync", shows=50),),
    (_endless("examples/automatic_control.py", "--agent", "Constant", "--loop", "--sync", shows=50),),
    (_endless("examples/automatic_control.py", "--agent", "Behavior", "--loop", shows=50),),
    (_endless("examples/client_bounding_boxes.py", shows=50),),
    (_endless("examples/draw_skeleton.py", shows=20),),
    (_endless("examples/dynamic_weather.py", says="Sun"),),
    (_endless("examples/generate_traffic.py", "-n", "30", "-w", "20", says="spawned 30 vehicles and"),),
    (_endless("examples/generate_traffic.py", "-n", "30", "-w", "20", "--asynch", says="spawned 30 vehicles and"),),
    (_ends("examples/get_component_test.py", says="Transform", nobody=False),),
    (_ends("examples/lidar_to_camera.py", "-f", "20", writes="_out/*.png"),),
    (_endless("examples/manual_control.py", shows=50),),
    (_endless("examples/manual_control.py", "--sync", "--autopilot", shows=50),),
    (_endless("examples/no_rendering_mode.py", shows=50),),
    (_endless("examples/sensor_synchronization.py"),),
    (
        _ends("examples/start_recording.py", "-n", "10", "-t", "10", "-f", RECORDING, says="Recording on file"),
        _ends("examples/show_recorder_file_info.py", "-f", RECORDING, says="Frames:"),
        _ends("examples/show_recorder_collisions.py", "-f", RECORDING, says="Frames:"),
        _ends("examples/show_recorder_actors_blocked.py", "-f", RECORDING, says="Frames:"),
        _ends("examples/start_replaying.py", "-f", RECORDING, says="Replaying File", nobody=False),
    ),
    (_endless("examples/synchronous_mode.py", shows=50),),
    (_endless("examples/test_addsecondvx.py", nobody=False),),
    (_ends("examples/tutorial.py", writes="_out/*.png", says="done."),),
    (_ends("examples/tutorial_gbuffer.py", writes="_out/GBuffer-SceneDepth-*.png", says="done."),),
    (_endless("examples/V2XDemo.py", shows=50),),
    (_endless("examples/vehicle_gallery.py", stop_s=30.0, says="vehicle."),),
    (_ends("examples/vehicle_physics.py"),),
    (_endless("examples/visualize_multiple_sensors.py", "--sync", shows=50),),
    (_checks("util/check_collisions_substepping.py"),),
    (Program("util/check_lidar_bb.py", complains="Error!!!", town="Town03"),),
    (_checks("util/check_raycast_sensors_determinism.py"),),
    (
        _ends("util/config.py", "--inspect", says="town"),
        _ends("util/config.py", "--list", says="ClearNoon"),
        _ends("util/config.py", "--list-blueprints", "vehicle.*", says="vehicle."),
        _ends("util/config.py", "--map", "Town01", "--weather", "HardRainNoon", "--delta-seconds", "0.05"),
    ),
    (_ends("util/environment.py", "--sun", "sunset", "--weather", "rain", "--cars", "LowBeam"),),
    (_ends("util/extract_spawn_points.py", "-o", ".", writes="**/*spawn*"),),
    (_endless("util/lane_explorer.py"),),
    (_benchmark(),),
    (_benchmark("--tm"),),
    (_endless("util/raycast_sensor_testing.py", "--sync", "-ln", "1", "-rn", "1", shows=20),),
    (_ends("util/test_connection.py", says="onnected"),),
    (Program("util/vehicle_physics_tester.py", ("--filter", "model3"), says="80 -> 0 km/h", town="Town05"),),
)
NOT_RUN = {
    "examples/invertedai_traffic.py": "needs a key of a service on the internet",
    "examples/manual_control_carsim.py": "needs CarSim, which is sold",
    "examples/manual_control_chrono.py": "needs a CARLA that was built with Chrono",
    "examples/manual_control_steeringwheel.py": "needs a steering wheel",
    "examples/nvidia": "needs NVIDIA's neural renderer",
    "examples/open3d_lidar.py": "needs a display with OpenGL",
    "examples/rss": "needs a client that was built with RSS",
    "util/apply_texture.py": "our renderer has no textures to replace",
    "util/osm_to_xodr.py": "needs no server",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="CARLA's PythonAPI, with the folders examples and util in it")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--only", default="", help="run only programs in whose command this occurs")
    parser.add_argument("--maps", type=Path, help="a folder with Town03.xodr and Town05.xodr")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--keep", type=Path, help="keep there what each program wrote, and the last picture it showed")
    parser.add_argument("--picture", type=Path, help="with --keep: draw what six of them showed last into one picture")
    parser.add_argument("--version", default="", help="which version FOLDER is, for the results")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    if not (folder / "examples" / "tutorial.py").is_file():
        parser.error(f"{folder}: CARLA's PythonAPI was wanted, with examples/tutorial.py in it")
    if arguments.picture is not None and arguments.keep is None:
        parser.error("--picture is made of what --keep keeps: give both")
    if arguments.save and not code_measured()["clean"]:
        parser.error("results are kept of a commit, and there are changes that are in none")
    results: dict[str, dict[str, object]] = {}
    not_run = dict(NOT_RUN)
    for session in SESSIONS:
        if not any(arguments.only in str(program) for program in session):
            continue
        town = session[0].town
        if town and (arguments.maps is None or not (arguments.maps / f"{town}.xodr").is_file()):
            not_run |= {program.name: f"there is no {town}" for program in session}
            continue
        results |= run(folder, arguments.python.absolute(), session, arguments.port, arguments.keep, arguments.maps)
    table = Table("program", "result", "what it did", box=None, title="CARLA's programs, unmodified", title_justify="left")
    for name, found in results.items():
        table.add_row(name, str(found["result"]), str(found["did"]))
    console = Console(width=180)
    console.print(table)
    ran = sum(str(found["result"]).startswith("ran") for found in results.values())
    console.print(f"{ran} of {len(results)} ran")
    for name, why in not_run.items():
        console.print(f"not run: {name}: {why}")
    if arguments.picture is not None:
        montage(arguments.keep, arguments.picture)
    if arguments.save:
        figures: dict[str, object] = {"version": arguments.version, "programs": results, "not_run": not_run}
        save("examples", figures, ["python", "-m", "tests.compatibility.examples", "FOLDER", "--python", "PYTHON"])
    return 0 if ran == len(results) else 1


PICTURED = (
    "examples/manual_control.py --sync --autopilot",
    "examples/no_rendering_mode.py",
    "examples/client_bounding_boxes.py",
    "examples/draw_skeleton.py",
    "examples/visualize_multiple_sensors.py --sync",
    "util/raycast_sensor_testing.py --sync -ln 1 -rn 1",
)
TILE = (480, 300)


def montage(keep: Path, picture: Path) -> None:
    """What some of the programs showed last, side by side."""
    whole = Image.new("RGB", (2 * TILE[0], len(PICTURED) // 2 * TILE[1]))
    for number, name in enumerate(PICTURED):
        with Image.open(keep / _folder(name) / SCREEN) as screen:
            tile = ImageOps.pad(screen.convert("RGB"), TILE, Image.Resampling.LANCZOS)
        whole.paste(tile, (number % 2 * TILE[0], number // 2 * TILE[1]))
    whole.quantize(256).save(picture, optimize=True)


def _folder(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)


def run(
    folder: Path, python: Path, session: tuple[Program, ...], port: int, keep: Path | None, maps: Path | None
) -> dict[str, dict[str, object]]:
    """Run the programs of a session against one server; each by its command with what became of it."""
    results: dict[str, dict[str, object]] = {}
    town = session[0].town
    where = ["--map", town, "--maps", str(maps)] if town else ["--map", "town", "--alias", "Town*=town"]
    with serving(port, where):
        subprocess.run([python, "-c", WARM, str(port)], check=True, timeout=4.0 * END_S, capture_output=True)
        for program in session:
            print(f"{program} ...", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory() as place:
                found = _run(folder, python, program, Path(place))
                left = _left(python, port)
                if left is None:
                    found = found | {"result": "the server does not answer afterwards"}
                elif left and program.nobody:
                    found["did"] = f"{found['did']}; leaves {left} actors behind".removeprefix("; ")
                results[str(program)] = found
                if keep is not None:
                    shutil.copytree(place, keep / _folder(str(program)), dirs_exist_ok=True)
    return results


def _left(python: Path, port: int) -> int | None:
    """How many vehicles, walkers and sensors there are; None if the server does not answer."""
    try:
        asked = subprocess.run([python, "-c", ASK, str(port)], capture_output=True, text=True, timeout=END_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return int(asked.stdout) if asked.returncode == 0 else None


def _run(folder: Path, python: Path, program: Program, place: Path) -> dict[str, object]:
    """Run one program in an empty folder."""
    environment = {
        **os.environ,
        "SDL_VIDEODRIVER": "dummy",
        "SDL_AUDIODRIVER": "dummy",
        "PYTHONPATH": str(folder / "carla"),
        "PYTHONUNBUFFERED": "1",
    }
    for module, text in program.modules:
        (place / f"{module}.py").write_text(text)
        environment["PYTHONPATH"] = os.pathsep.join([str(folder / "carla"), str(place)])
    command = [str(python), "-c", RUN, str(folder / program.name), *program.words]
    with (place / "stdout").open("w") as out, (place / "stderr").open("w") as errors:
        process = subprocess.Popen(
            command, cwd=place, env=environment, stdout=out, stderr=errors, stdin=subprocess.DEVNULL, start_new_session=True
        )
        ended = "by itself"
        start_s = SYSTEM_CLOCK.monotonic_s()
        try:
            try:
                process.wait(program.stop_s)
            except subprocess.TimeoutExpired:
                ended = "by Ctrl-C"
                _interrupt(process)
        except subprocess.TimeoutExpired:
            ended = "not at all"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    took_s = SYSTEM_CLOCK.monotonic_s() - start_s
    return judge(program, place, ended, process.returncode) | {"took_s": round(took_s, 1)}


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    """Send Ctrl-C, to its helpers as well, as a terminal does; again if nothing comes of it, as its user would."""
    for _ in range(CTRL_CS - 1):
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S / CTRL_CS)
            return
    os.killpg(process.pid, signal.SIGINT)
    process.wait(END_S / CTRL_CS)


def judge(program: Program, place: Path, ended: str, code: int) -> dict[str, object]:
    """What became of a program, by what it left in its folder, and how it ended."""
    said, errors = (place / "stdout").read_text(errors="replace"), (place / "stderr").read_text(errors="replace")
    shown = (place / SHOWN).stat().st_size if (place / SHOWN).exists() else 0
    written = sorted(path for path in place.glob(program.writes) if path.is_file()) if program.writes else []
    did = [f"{shown} pictures shown"] if shown else []
    did += [f"{len(written)} files written"] if written else []
    did += [f"`{program.says}`: {said.count(program.says)} times"] if program.complains and program.says else []
    over = code < 0 and said.rstrip().endswith(_LAST_WORDS)
    fault = _BROKEN.search(said + "\n" + (_AFTER_THE_END.sub("", errors) if over else errors))
    well = (
        over
        or code == 0
        or (ended == "by Ctrl-C" and (code in (CTRL_C, -signal.SIGINT) or _INTERRUPTED.search(errors) is not None))
    )
    if fault is not None:
        result = f"`{fault[0].strip()[:200]}`"
    elif ended == "not at all" and not over:
        result = f"did not end within {END_S:g} s after Ctrl-C"
    elif not well:
        result = f"ended with {code}"
    elif ended == "by Ctrl-C" and not program.endless:
        result = f"ended {ended}"
    elif shown < program.shows:
        result = f"showed {shown} pictures"
    elif program.writes and not written:
        result = "wrote nothing"
    elif program.complains and (complaint := re.search(f"(?m)^.*{program.complains}.*$", said + errors)):
        result = f"`{complaint[0].strip()[:200]}`"
    elif program.says and program.says not in said + errors:
        result = f"did not say {program.says!r}"
    else:
        stayed = "did not end" if ended == "not at all" else "was aborted"
        result = f"ran; its process {stayed} after its last word" if over else "ran"
    return {"result": result, "did": "; ".join(did), "ended": ended}


if __name__ == "__main__":
    sys.exit(main())
