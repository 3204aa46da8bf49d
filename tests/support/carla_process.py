"""Runs CARLA's client in a process of its own, which it may take down with it, against servers that are processes too."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from samepath.core.errors import SamepathError
from samepath.engines import conformance
from samepath.engines.carla import Carla
from samepath.engines.conformance import CHECKS, run_request
from samepath.engines.interface import Preset, RunRequest

_MARK = "result: "
_SERVE = "import sys\n{first}\nfrom samepath.cli.app import main\nsys.argv = ['samepath', 'serve', '--port', '0']\nmain()"


@contextmanager
def served(first=""):
    """Start ``samepath serve`` on free ports and yield its process and port; ``first`` is run in it before."""
    command = [sys.executable, "-c", _SERVE.format(first=first)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = next((line for line in process.stderr if "serving map" in line), "")
        assert line, "the server did not start"
        # A pipe that nobody reads would stop the server in time.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield process, int(line.split(" on ")[1].split(",")[0].rpartition(":")[2])
        finally:
            process.kill()


def in_client(order, **arguments):
    """Do ``order`` in a new process and return its result."""
    command = [sys.executable, __file__, json.dumps({"order": order, **arguments})]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    results = [line.removeprefix(_MARK) for line in done.stdout.splitlines() if line.startswith(_MARK)]
    assert len(results) == 1, f"exit code {done.returncode}: {done.stdout} {done.stderr}"
    return json.loads(results[0])


def runs(port, requests, **settings):
    """Run scenarios one after the other: what each gave, or the line it failed with."""
    simulator = Carla({"port": port, **settings})
    found = []
    for request in requests:
        for _ in range(3):
            try:
                result = summary(run_request(simulator, RunRequest(repeat=0, **request)))
            except SamepathError as error:
                result = {"error": str(error)}
            # A thread of the client that was not run in time is refused, rightly: on a busy machine that happens.
            if "raise remove_after_s" not in result.get("error", ""):
                break
        found.append(result)
    return found


def summary(repeat):
    events = [(event.tick, event.kind, event.actor, event.other, event.detail) for event in repeat.events]
    return {
        "digest": repeat.digest,
        "end": repeat.end.tick,
        "reason": repeat.end.reason,
        "actors": [actor.type for actor in repeat.actors],
        "rows": len(repeat.tick),
        "times": sorted(set(repeat.time_s.tolist()))[:3],
        "float32": bool(np.array_equal(repeat.values.astype(np.float32), repeat.values, equal_nan=True)),
        "events": [event for event in events if event[1] != "spawn"],
        "sensors": [(frame.sensor, frame.kind, frame.tick, frame.digest.hex()) for frame in repeat.sensors],
    }


class Promising(Carla):
    """The adapter against a server that is known to repeat itself, and so held to it."""

    def __init__(self, defaults, scenario):
        super().__init__(defaults)
        self._scenario = scenario

    def described(self, settings):
        info = super().described(settings)
        able = replace(info.capabilities, deterministic=True)
        return replace(info, capabilities=able, scenarios=(self._scenario,))


def kit(port, scenario):
    """Run the conformance kit; returns what failed. One run serves all checks that only look at what was recorded."""
    failed, played, run_each = {}, [], conformance._each_scenario

    def each_scenario(factory):
        if not played:
            played.extend(run_each(factory))
        return iter(played)

    conformance._each_scenario = each_scenario  # in this process, which does nothing else
    for check in CHECKS:
        try:
            check(lambda: Preset(Promising({"port": port, "lead_s": 0.1, "settle_s": 0.4}, scenario), {}))
        except Exception as error:
            failed[check.__name__] = str(error)
    return failed


def leftovers(port):
    """What a fresh client finds on a server."""
    import carla

    client = carla.Client("127.0.0.1", port)
    client.set_timeout(60.0)
    world = client.get_world()
    world.wait_for_tick()
    settings = world.get_settings()
    kinds = ("vehicle.", "walker.", "sensor.")
    return {
        "synchronous": settings.synchronous_mode,
        "fixed_delta_s": settings.fixed_delta_seconds,
        "actors": [actor.type_id for actor in world.get_actors() if actor.type_id.startswith(kinds)],
    }


def ticked_by_two(port):
    """Run while another client ticks the same server."""
    import carla

    other = carla.Client("127.0.0.1", port)
    other.set_timeout(60.0)

    def meddle(tick):
        if tick == 5:
            other.get_world().tick()

    try:
        run_request(Carla({"port": port}), RunRequest("table1-test5", 0), meddle)
    except SamepathError as error:
        return str(error)
    return ""


def loses_its_server(timeout_s):
    """Ask a server of another version; then take any, and kill it during the run."""
    found = []
    with served("import samepath.simulator.server.methods.connection as c; c.VERSION = '0.9.13'") as (process, port):
        for any_version in (False, True):
            simulator = Carla({"port": port, "timeout_s": timeout_s, "any_version": any_version})
            try:
                run_request(simulator, RunRequest("table1-test1", 0), lambda tick: process.kill() if tick == 5 else None)
            except SamepathError as error:
                found.append(str(error))
    return found


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    result = globals()[given.pop("order")](**given)
    print(_MARK + json.dumps(result), flush=True)
