"""Is the cause that ``samepath twice`` names the right one? Scripts of known truth, with decoys beside the cause.

Each script has one cause or two, how often it acts (always, 1 run in 3, 8 or 20), and decoys that act on nothing: a colour that
is drawn, an unused draw, a clock that is read, an idle thread, a joined thread, a listening IMU. What is named must be a cause
of the script, with its line; ``unknown`` is never wrong, and its share is printed.

Most cases run without a server: the script, its interpreter and all pins are real, and a small module in the place of CARLA's
client writes calls down. Every ``_SERVED``-th case that has a common cause runs with CARLA's client against a server.
``SAMEPATH_BENCH_MINUTES`` is the time for all (10).
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from scipy.stats import beta

from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.instrument.conditions import layout
from samepath.instrument.conditions.applicable import attempt
from samepath.sessions.causes import read_witness
from samepath.sessions.compare import SessionSource, compare_timelines
from samepath.sessions.investigation import Investigation
from samepath.sessions.script_runs import Pins, ScriptRun, _watching
from samepath.sessions.twice import twice
from tests.support.sessions import SCRIPTS, MadeSession, row

_SERVED = 8
_RUN_S = 60.0

# A number from 0 to 1 that differs between runs; the line that makes it is the one to name. None: not to be named at all.
CAUSES = {
    "random": ("x = random.random()", "random without seed"),
    "own generator": ("x = random.Random().random()", "random without seed"),
    "numpy": ("x = float(numpy.random.rand())", "random without seed"),
    "uuid": ("x = uuid.uuid4().int % 1000 / 1000", "random without seed"),
    "microsecond": ("x = datetime.datetime.now().microsecond % 4 / 4", "wall clock"),
    "time": ("x = time.time() % 1", "wall clock"),
    "strftime": ("x = int(time.strftime('%S')) / 60", "wall clock"),
    "clock_gettime": ("x = time.clock_gettime(time.CLOCK_REALTIME) % 1", "wall clock"),
    "hash": ("x = hash('anna') % 1000 / 1000", "hash order (sets"),
    "set": ("x = list({'a', 'b', 'c', 'd', 'e', 'f', 'g'}).index('a') / 7", "hash order (sets"),
    "address": ("x = (id(client) >> 12) % 997 / 997", "hash order of objects"),
    "pid": ("x = os.getpid() * 0.6180339887 % 1", None),
    "left-over file": ("x = left_over() * 0.6180339887 % 1", None),
    "every fifth run": ("x = 0.01 if left_over() % 5 == 0 else 0.99", None),
    "/proc": ("x = hash_of(open('/proc/stat', 'rb').read()) % 1000 / 1000", None),
    "/dev/urandom": ("x = open('/dev/urandom', 'rb').read(1)[0] / 256", None),
    "C clock": ("x = c_clock() % 1000 / 1000", None),
    "thread": ("x = raced()", None),
}
DECOYS = {
    "colour": "colour = random.choice(['red', 'green', 'blue'])",
    "unused draw": "unused = [random.random() for _ in range(3)]",
    "unused clock": "began = time.time()",
    "idle thread": "threading.Thread(target=over.wait, name='idle', daemon=True).start()",
    "joined thread": "joined = threading.Thread(target=lambda: None); joined.start(); joined.join()",
    "IMU": "imu = listening(world, car)",
    "unused set": "names = [name for name in {'x', 'y', 'z'}]",
}
RATES = {"always": None, "1 in 3": 1 / 3, "1 in 8": 1 / 8, "1 in 20": 1 / 20}

HEAD = """import ctypes, datetime, hashlib, os, pathlib, queue, random, threading, time, uuid
import numpy
import carla
from drive import connect, spawn
over, seen = threading.Event(), queue.Queue()
def left_over():
    path = pathlib.Path(__file__).with_suffix(".count")
    count = int(path.read_text()) + 1 if path.exists() else 1
    path.write_text(str(count))
    return count
def hash_of(data):
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
def c_clock():
    buffer = (ctypes.c_long * 2)()
    ctypes.CDLL(None).clock_gettime(0, buffer)
    return buffer[1] // 1000
def raced():
    count = [0]
    def work():
        while not over.is_set():
            count[0] += 1
    thread = threading.Thread(target=work, daemon=True); thread.start()
    sum(range(20000)); over.set(); thread.join()
    return count[0] % 97 / 97
def listening(world, car):
    imu = world.spawn_actor(world.get_blueprint_library().find("sensor.other.imu"), carla.Transform(), attach_to=car)
    imu.listen(seen.put)
    return imu
client, world = connect()
car = spawn(world)
"""
BODY = """for step in range(4):
    car.apply_control(carla.VehicleControl(throttle=value if step else 0.5))
    world.tick()
"""
# In the place of CARLA's client: calls go to a file, in the order in which they are made.
STAND_IN = """import os
def _write(*words):
    with open(os.environ["CALLS"], "a") as file:
        print(*words, file=file)
class VehicleControl:
    def __init__(self, throttle=0.0):
        self.throttle = throttle
class Transform: pass
class Sensor:
    id = 9
    def listen(self, callback): pass
class Vehicle:
    id = 7
    def apply_control(self, control): _write("drive", repr(float(control.throttle)))
class World:
    def tick(self): _write("tick")
    def spawn_actor(self, kind, place, attach_to=None): return Sensor() if attach_to else Vehicle()
    def get_blueprint_library(self): return self
    def find(self, name): return name
class Client: pass
"""
DRIVE = """import carla
def connect():
    return carla.Client(), carla.World()
def spawn(world):
    return world.spawn_actor("car", None)
"""


@dataclass(frozen=True)
class Case:
    """A script: its causes, how often they act, its decoys."""

    causes: tuple[str, ...]
    rate: str
    decoys: tuple[str, ...]

    @property
    def text(self) -> str:
        """The script; the causes' lines end in a mark."""
        share = RATES[self.rate]
        lines = [DECOYS[name] for name in self.decoys]
        for name in self.causes:
            lines += [f"{CAUSES[name][0]}  # CAUSE", "values.append(x)" if share is None else f"values.append(x < {share})"]
        lines[:0] = ["values = []", *(["import numpy"] if "numpy" in self.causes else [])]
        return HEAD + "\n".join([*lines, "value = sum(map(float, values)) * 0.25"]) + "\n" + BODY

    def is_wrong(self, cause: str) -> bool:
        """Is a cause named that this script does not have, or another line?"""
        if cause.startswith("unknown"):
            return False
        mine = [CAUSES[name] for name in self.causes]
        if not any(named is not None and cause.startswith(named) for _, named in mine):
            return True
        if ".py:" not in cause:
            return False
        number = int(cause.rpartition(":")[2].rstrip(")"))
        line = self.text.splitlines()[number - 1]
        return not any(line == f"{code}  # CAUSE" for code, named in mine if named is not None and cause.startswith(named))


def cases(chance: random.Random) -> list[Case]:
    """All causes alone at all rates, and pairs; each with some decoys; in random order; pairs and rare causes last."""
    found = [Case((name,), rate, ()) for name, rate in product(CAUSES, RATES)]
    found += [Case(pair, "always", ()) for pair in product(CAUSES, CAUSES) if pair[0] < pair[1]]
    chance.shuffle(found)
    found.sort(key=lambda case: (list(RATES).index(case.rate), len(case.causes)))
    return [replace(case, decoys=tuple(name for name in DECOYS if chance.random() < 0.5)) for case in found]


def judge(case: Case, chance: random.Random) -> str | None:
    """Name the cause of a script that runs without a server; None if its first runs are all the same."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (("script", case.text), ("carla", STAND_IN), ("drive", DRIVE)):
            (folder / f"{file}.py").write_text(text, encoding="utf-8")
        addresses = attempt("aslr", False) is None

        def run(label: str, pins: Pins | None) -> ScriptRun:
            return one_run(folder, label, pins)

        first, share = run("run-1", None), RATES[case.rate]
        for number in range(2, 3 if share is None else round(3 / share)):
            comparison = compare_timelines(first.timeline, run(f"run-{number}", None).timeline)
            if comparison.difference is not None:
                break
        else:
            return None
        if comparison.source is not SessionSource.SCRIPT:
            return None
        tries = 3 if share is None else round(1.5 / share)
        made = Investigation(run, first, comparison, lambda _: None, addresses=addresses, tries=tries, shuffle=chance.shuffle)
        found = made.findings()[0]
        return found.cause.name + (f" ({found.place})" if found.place else "")


def one_run(folder: Path, label: str, pins: Pins | None) -> ScriptRun:
    """Run a script once, and make a recording of its calls."""
    out = folder / label
    out.mkdir()
    environment = {**os.environ, "CALLS": str(out / "calls"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(folder / "script.py")]
    if pins is not None:
        environment |= _watching(out, pins, environment)
        if pins.addresses:
            command = [sys.executable, "-I", "-S", str(Path(layout.__file__)), "off", *command]
    code = subprocess.run(command, env=environment, timeout=_RUN_S, check=False, stdout=subprocess.DEVNULL).returncode
    made = MadeSession(out / "session").connect().state(row(3)).synchronous().tick(row(3)).spawn(7)
    for line in (out / "calls").read_text(encoding="utf-8").splitlines():
        word, *values = line.split()
        made.drive(7, float(values[0])) if word == "drive" else made.tick(row(3), row(7))
    made.done()
    return ScriptRun(label, out / "session", code, 0.0, "", read_witness(out / "witness.jsonl") if pins else None)


def judge_served(case: Case) -> str | None:
    """Name the cause of a script that runs with CARLA's client against a server."""
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "script.py"
        # One line, so that lines keep their numbers.
        script.write_text(
            case.text.replace("import ctypes", f"import sys; sys.path.insert(0, {str(SCRIPTS)!r}); import ctypes", 1)
        )
        report = twice([sys.executable, str(script)], port=0, timeout_s=_RUN_S)
        return None if report.source is not SessionSource.SCRIPT else report.cause


def interval(count: int, whole: int) -> str:
    """Return a share with its exact 95 % interval."""
    low = float(beta.ppf(0.025, count, whole - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, whole - count)) if count < whole else 1.0
    return f"{count} of {whole} ({100 * low:.1f} to {100 * high:.1f} %)"


def main() -> bool:
    """Judge as many cases as time allows; met: the share of wrong ones is at most 5 %."""
    minutes, chance = float(os.environ.get("SAMEPATH_BENCH_MINUTES", "10")), random.Random()
    end_s = SYSTEM_CLOCK.monotonic_s() + 60.0 * minutes
    judged: list[dict[str, object]] = []
    number = 0
    while SYSTEM_CLOCK.monotonic_s() < end_s:
        for case in cases(chance):
            if SYSTEM_CLOCK.monotonic_s() >= end_s:
                break
            number += 1
            served = case.rate == "always" and number % _SERVED == 0
            said = judge_served(case) if served else judge(case, chance)
            if said is None:
                continue
            result = "wrong" if case.is_wrong(said) else "unknown" if said.startswith("unknown") else "right"
            judged.append({"causes": case.causes, "rate": case.rate, "decoys": case.decoys, "served": served,
                           "said": said, "result": result})  # fmt: skip
            print(json.dumps(judged[-1]), flush=True)
    rows = []
    groups = [*CAUSES, "two causes"]
    for group in groups:
        mine = [
            entry
            for entry in judged
            if (len(entry["causes"]) == 2 if group == "two causes" else entry["causes"] == (group,))  # type: ignore[arg-type]
        ]
        counts = Counter(entry["result"] for entry in mine)
        rows.append([group, *map(str, (len(mine), counts["right"], counts["unknown"], counts["wrong"]))])
    show("causes in scripts", ["cause", "cases", "right", "unknown", "wrong"], rows)
    totals = {
        name: interval(sum(entry["result"] == name for entry in judged), len(judged)) for name in ("right", "unknown", "wrong")
    }
    wrong = sum(entry["result"] == "wrong" for entry in judged)
    met = wrong <= 0.05 * len(judged)
    show("all", ["right", "unknown", "wrong", "served", "aim"],
         [[*totals.values(), str(sum(bool(entry["served"]) for entry in judged)), verdict(met=met)]])  # fmt: skip
    save("script_causes", {"totals": totals, "rows": rows, "cases": judged})
    return met
