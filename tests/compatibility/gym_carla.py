"""gym-carla (a reinforcement-learning environment), unmodified, against ``samepath serve``.

``python -m tests.compatibility.gym_carla FOLDER --maps TOWNS --python PYTHON``, with FOLDER a checkout of gym-carla, TOWNS a
folder with ``Town01.xodr``, and PYTHON an interpreter with the ``carla`` wheel, ``gym`` before 0.26 (the environment has that
interface), ``pygame``, ``scikit-image``, ``matplotlib`` and numpy 1. The environment has the parameters of its ``test.py``, but
for the port, the town and the number of vehicles; it is reset twice and stepped, and its observations are looked at.

It reads ``x``, ``y`` and ``z`` of a LiDAR's detections, which clients since CARLA 0.9.10 have in ``point``, and so stops in its
first step with any of them. That is run first, and then all of it again with those three put back as they were.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

from bench.tools import code_measured, save
from tests.compatibility.serving import serving

PORT = 3860
LONGEST_S = 900.0

# Runs in the other interpreter, in a checkout of gym-carla.
SCRIPT = """
import ast, sys
port, town, vehicles, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if sys.argv[5] == "put back":
    import carla
    for name in "xyz":
        setattr(carla.LidarDetection, name, property(lambda seen, name=name: getattr(seen.point, name)))
import gym, gym_carla
tree = ast.parse(open("test.py").read())
assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
params = next(ast.literal_eval(node.value) for node in assigned if node.targets[0].id == "params")
params.update(port=port, town=town, number_of_vehicles=vehicles)
env = gym.make("carla-v0", params=params)
for episode in range(2):
    seen = env.reset()
    total, made = 0.0, 0
    for _ in range(steps):
        seen, reward, done, info = env.step([2.0, 0.0])
        total, made = total + float(reward), made + 1
        if done:
            break
    shapes = {name: value.shape for name, value in seen.items()}
    assert seen["camera"].max() > 0 and seen["lidar"].max() > 0
    print(f"result: episode {episode}: {made} steps, reward {total:.1f}, {shapes}", flush=True)
import os
os._exit(0)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="a checkout of gym-carla")
    parser.add_argument("--maps", type=Path, required=True, help="a folder with the town's *.xodr file")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--town", default="Town01")
    parser.add_argument("--vehicles", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--version", default="", help="which version FOLDER is, for the results")
    parser.add_argument("--save", action="store_true", help="write the results to bench/results, too")
    arguments = parser.parse_args()
    code_measured()  # now: what is changed while this runs is not measured
    if not (arguments.folder / "gym_carla").is_dir():
        parser.error(f"{arguments.folder}: a checkout of gym-carla was wanted")
    with serving(arguments.port, ["--map", arguments.town, "--maps", str(arguments.maps.absolute())]):
        found = {how: run(arguments, how) for how in ("as it is", "put back")}
    for how, told in found.items():
        print("\n".join([f"{how}:", *told["episodes"], told["error"]]).strip())
    if arguments.save:
        named = ["FOLDER", "--maps", "TOWNS", "--python", "PYTHON"]
        figures: dict[str, object] = {"version": arguments.version, "town": arguments.town, **found}
        save("gym-carla", figures, ["python", "-m", "tests.compatibility.gym_carla", *named])
    return 1 if found["put back"]["error"] else 0


class Told(TypedDict):
    """What became of it: a line for each episode, and the last line of what it complained of."""

    episodes: list[str]
    error: str


def run(arguments: argparse.Namespace, how: str) -> Told:
    """Reset and step the environment, in the other interpreter."""
    words = [str(arguments.port), arguments.town, str(arguments.vehicles), str(arguments.steps), how]
    theirs = {**os.environ, "SDL_VIDEODRIVER": "dummy", "PYTHONPATH": str(arguments.folder.absolute())}
    command = [str(arguments.python), "-c", SCRIPT, *words]
    try:
        done = subprocess.run(
            command, cwd=arguments.folder, capture_output=True, text=True, check=False, timeout=LONGEST_S, env=theirs
        )
    except subprocess.TimeoutExpired:
        return {"episodes": [], "error": f"took more than {LONGEST_S:g} s"}
    episodes = [line.removeprefix("result: ") for line in done.stdout.splitlines() if line.startswith("result: ")]
    error = ""
    if done.returncode:
        error = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), f"ended with {done.returncode}")
    return {"episodes": episodes, "error": error}


if __name__ == "__main__":
    sys.exit(main())
