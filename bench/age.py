"""The proof that a server's past leaves no trace in what a client is sent.

``python -m bench age`` plays one script with every kind of sensor on servers with different pasts: at odd and usual sizes, at
noon and in rain at dusk, with every renderer that is installed, and with the server's own traffic. Then CARLA's own client
drives on servers that were left alone for 0, 2 and 17.35 s of real time. Everything that is not absolute by declaration must be
equal to the bit.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from bench.tools import save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError
from samepath.simulator.sensors.cuda.host_device import COMPILER
from samepath.simulator.sensors.renderer import create_renderer
from samepath.simulator.server.rendering import LocalRenderer
from samepath.simulator.traffic.traffic import TrafficSettings
from tests.support import ROOT, SUPPORT
from tests.support.server_age import (
    PASTS,
    WEATHERS,
    EmulatedRenderer,
    Past,
    Script,
    differences,
    fresh,
    session,
)
from tests.support.serving import served

SIZES = ((61, 37), (320, 240), (641, 361))
TICKS = 24
SMALL = Script(width=41, height=23, tick_count=20)
TRAFFIC = replace(SMALL, tick_count=200, width=9, height=7, traffic=TrafficSettings(vehicles=12, walkers=6))
# With traffic that another client has ticked, or from a session without a reload, the world is another one.
TRAFFIC_PASTS = ("2 s in real time", "17.35 s in real time", "a reload", "a session and a reload")
AGES_S = (0.0, 2.0, 17.35)
SERVED_SIZE, SERVED_TICKS = (641, 361), 40
Make = Callable[[], LocalRenderer]


def main() -> bool:
    """Run everything; return whether nothing differed."""
    proof = _Proof()
    for weather, values in WEATHERS.items():
        for width, height in SIZES:
            proof.compare(f"{weather}, {width} x {height}", Script(width, height, values, TICKS), PASTS)
    proof.compare("steps of a third of a second", replace(SMALL, step_s=1.0 / 3.0), PASTS)
    proof.compare("traffic", TRAFFIC, {name: PASTS[name] for name in TRAFFIC_PASTS})
    if shutil.which(COMPILER):
        proof.compare("CUDA kernels, emulated", SMALL, PASTS, EmulatedRenderer, by=LocalRenderer)
    try:
        create_renderer("opengl").close()
    except SimulatorError as error:
        proof.rows.append(["opengl", "", f"not run: {error}", ""])
    else:
        proof.compare("opengl", SMALL, PASTS, partial(LocalRenderer, renderer="opengl"))
    if find_spec("carla"):
        _by_carlas_client(proof)
    show(
        "what a client is sent on servers with other pasts",
        ["script", "messages", "equal pasts", "aim"],
        proof.rows,
    )
    for name, lines in proof.unlike.items():
        print(name, *lines, sep="\n  ")
    save("age", {"scripts": proof.rows, "unlike": proof.unlike, "pasts": list(PASTS)})
    return not proof.unlike


class _Proof:
    """What was compared, and what differed."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.unlike: dict[str, list[str]] = {}

    def compare(
        self,
        name: str,
        script: Script,
        pasts: Mapping[str, Past],
        make: Make = LocalRenderer,
        by: Make | None = None,
    ) -> None:
        """Compare sessions on servers with pasts with one on a fresh server, by the same renderer unless ``by`` another."""
        renderer, other = make(), (by or make)()
        wanted = session(fresh, script, other)
        found = {past: differences(wanted, session(run, script, renderer)) for past, run in pasts.items()}
        renderer.close()
        other.close()
        self.add(name, sum(map(len, wanted.values())), found)

    def add(self, name: str, messages: int, found: Mapping[str, list[str]]) -> None:
        """Note what differed on a server with each past."""
        self.unlike |= {f"{name}: {past}": lines for past, lines in found.items() if lines}
        same = sum(not lines for lines in found.values())
        self.rows.append([name, str(messages), f"{same} of {len(found)}", verdict(met=same == len(found))])


def _by_carlas_client(proof: _Proof) -> None:
    """CARLA's own client, on servers that were left alone for some time."""
    first, *others = AGES_S
    wanted = _driven(first)
    found = {}
    for age_s in others:
        heard = _driven(age_s)
        found[f"{age_s:g} s of real time"] = [kind for kind in wanted if heard[kind] != wanted[kind]]
    proof.add("CARLA's client", sum(map(len, wanted.values())), found)


def _driven(age_s: float) -> dict[str, list[object]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        served(map_name="town", data_folder=folder) as server,
    ):
        SYSTEM_CLOCK.sleep_s(age_s)
        arguments = [str(server.port), *map(str, SERVED_SIZE), str(SERVED_TICKS)]
        done = subprocess.run(
            [sys.executable, str(SUPPORT / "wheel_age_script.py"), *arguments],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=600,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CARLA_CACHE_DIR": folder},
        )
    found: dict[str, list[object]] = json.loads(done.stdout.splitlines()[-1])
    return found
