"""What a stranger waits for: minutes from a clone to the first report, to a CARLA script seen driving, to a gate that is red.

``python -m bench stranger`` does what ``docs/start.md`` and ``docs/tutorials/gate.md`` say, in a fresh clone of the commit
with an empty home: nothing is there but Python, pip and, for the page, a Chromium. Each time is counted from the clone on,
with the steps before it that it needs. Packages come from an index, so that the times hold for a machine, its neighbours and
its network.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.tools import ROOT, save, show
from samepath.core.clock import SYSTEM_CLOCK

PATIENCE_S: Final = 1800
# What every newcomer to CARLA writes first: a car, and the traffic manager drives it.
SCRIPT: Final = """
import math, sys, time
import carla
client = carla.Client("127.0.0.1", int(sys.argv[1]))
client.set_timeout(60.0)
world = client.get_world()
car = world.spawn_actor(world.get_blueprint_library().find("vehicle.tesla.model3"), world.get_map().get_spawn_points()[0])
car.set_autopilot(True)
began = car.get_location()
while car.get_location().distance(began) < 20.0:
    time.sleep(0.05)
print("driven", flush=True)
sys.stdin.readline()
"""
CROSSING: Final = """name: crossing
duration: 8 s
actors:
  - {id: 1, type: vehicle.mercedes.coupe, speed: 10 m/s, path: [[0, 0], [60, 0]]}
  - {id: 2, type: vehicle.mercedes.coupe, speed: 8 m/s, path: [[30, -30], [30, 40]]}
"""


class Steps:
    """The steps of a way, each with its seconds."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.seconds: dict[str, float] = {}

    def run(self, name: str, *command: str, wanted: int = 0) -> str:
        """Run a command as a step; it must end with the code that is wanted. Returns what it printed."""
        with self.timed(name):
            done = subprocess.run(
                command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
            )
        if done.returncode != wanted:
            raise SystemExit(f"{name}: exit code {done.returncode}, {wanted} was wanted: {(done.stdout + done.stderr)[-1500:]}")
        return done.stdout

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count what happens inside as a step."""
        start = SYSTEM_CLOCK.monotonic_s()
        yield
        self.seconds[name] = SYSTEM_CLOCK.monotonic_s() - start


def main() -> bool:
    """Go the three ways and tell how long each takes."""
    with tempfile.TemporaryDirectory(prefix="samepath-stranger-") as place:
        home = Path(place) / "home"
        home.mkdir()
        passed = {name: value for name, value in os.environ.items() if re.match(r"PIP_|SSL_|REQUESTS_|https?_proxy", name)}
        environment = {**passed, "HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb"}
        steps = Steps(Path(place), environment)
        steps.run("clone", "git", "clone", "--quiet", str(ROOT), "samepath")
        steps.folder = Path(place) / "samepath"
        steps.run("environment", sys.executable, "-m", "venv", ".venv")
        pip = [".venv/bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        steps.run("pip install", *pip, ".")
        steps.run("demo", ".venv/bin/samepath", "demo", "--no-open")
        report = (steps.folder / "runs" / "demo" / "report.html").exists()
        said = red_gate(steps)
        steps.run("pip install carla", *pip, "carla")
        seen = drive(steps)
    ways = {
        "a first report (`samepath demo`)": ("clone", "environment", "pip install", "demo"),
        "a gate that is red and says why (`samepath golden`)": (
            "clone", "environment", "pip install", "golden write", "golden check, green", "golden check, red",
        ),
        "a CARLA script seen driving in a browser (`samepath serve --view`)": (
            "clone", "environment", "pip install", "pip install carla", "serve --view", "script drives", "page shows it",
        ),
    }  # fmt: skip
    figures: dict[str, Any] = {
        "steps_s": steps.seconds,
        "ways_s": {name: sum(steps.seconds[step] for step in needs) for name, needs in ways.items()},
        "load_average": os.getloadavg()[0],
        "report": report,
        "red_gate": said,
        "seen": seen,
    }
    show("from a clone to", ["", "minutes"], [[name, f"{s / 60:.1f}"] for name, s in figures["ways_s"].items()])
    show("steps", ["", "s"], [[name, f"{seconds:.1f}"] for name, seconds in steps.seconds.items()])
    save("stranger", figures)
    return report and "First difference" in said and bool(seen.get("actors"))


def red_gate(steps: Steps) -> str:
    """Keep a run, change a car's speed by a millimetre a second, and be told."""
    (steps.folder / "crossing.yaml").write_text(CROSSING)
    samepath = ".venv/bin/samepath"
    steps.run("golden write", samepath, "golden", "write", "crossing.golden", "--", "crossing.yaml")
    steps.run("golden check, green", samepath, "golden", "check", "crossing.golden")
    (steps.folder / "crossing.yaml").write_text(CROSSING.replace("speed: 8 m", "speed: 8.001 m"))
    return steps.run("golden check, red", samepath, "golden", "check", "crossing.golden", wanted=1)


def drive(steps: Steps) -> dict[str, Any]:
    """Serve the town with a page, run the script, and look at the page with a real browser."""
    from tests.support.chromium import BROWSER, chromium

    if BROWSER is None:
        raise SystemExit("a Chromium was wanted to look at the page, but none is on PATH: install chromium")
    command = [".venv/bin/samepath", "serve", "--port", "0", "--map", "town", "--view"]
    how: dict[str, Any] = {"cwd": steps.folder, "env": steps.environment, "text": True}
    with subprocess.Popen(command, stderr=subprocess.PIPE, **how) as server:
        try:
            if server.stderr is None:
                raise SystemExit("the server has no pipe")
            with steps.timed("serve --view"):
                port, url = "", ""
                for line in server.stderr:
                    if found := re.search(r"serving map town on [\d.]+:(\d+)", line):
                        port = found[1]
                    if line.startswith("view: "):
                        url = line.split()[1]
                    if port and url:
                        break
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            with subprocess.Popen([".venv/bin/python", "-c", SCRIPT, port], **pipes, **how) as script:
                with steps.timed("script drives"):
                    said = script.stdout.readline() if script.stdout else ""
                with steps.timed("page shows it"), chromium() as open_page:
                    page = open_page(url)
                    first = _wait_until(page, "data-actors", 1) and int(page.get_attribute("body", "data-tick") or 0)
                    page.keyboard.press("f")  # follow it: the page begins where the car was, and a car drives on
                    _wait_until(page, "data-tick", first + 10)
                    page.wait_for_selector("#labels .actor", timeout=60_000)
                    if picture := os.environ.get("SAMEPATH_STRANGER_PICTURE"):
                        page.screenshot(path=picture)
                    seen = {
                        "actors": page.locator("#labels .actor").all_inner_texts(),
                        "complaints": page.complaints,
                        "script": said.strip(),
                    }
                if script.stdin:
                    script.stdin.write("\n")
        finally:
            server.send_signal(signal.SIGTERM)
            server.communicate(timeout=60)
    return seen


def _wait_until(page: Any, name: str, least: int) -> int:  # noqa: ANN401 - a page of Playwright's
    """Wait until a number that the page tells of itself is large enough. Its policy lets no script in, so it is asked again."""
    end_s = SYSTEM_CLOCK.monotonic_s() + 120.0
    while (found := int(page.get_attribute("body", name) or 0)) < least:
        if SYSTEM_CLOCK.monotonic_s() > end_s:
            raise SystemExit(f"the page says {name}={found} after 120 s; {least} was wanted: {page.complaints[:3]}")
        page.wait_for_timeout(50)
    return found


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
