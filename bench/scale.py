"""Clusters of 10, 100 and 1000 nodes with up to 10,000 sensors, in virtual time with costs that are measured here.

``python -m bench scale`` measures what a tick costs its main server (the coordinator itself at every size, the world, messages
over the real link) and what drawing takes, puts that into ``bench/scale_model.py``, and keeps parameters and curves in
``bench/results/scale.json``. What is computed is measured in time of the processor: other work on the machine does not count.
``--write-page`` writes the tables and pictures of ``docs/scale.md`` from that file.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from bench.scale_model import (
    SHAPES,
    CoordinatorCost,
    Parameters,
    Step,
    last_within,
    needed_sizes,
    slowest_of,
    step,
    thinned,
)
from bench.tools import RESULTS, code_measured, save, show
from samepath.cluster import coordinator as c
from samepath.cluster import messages as m
from samepath.cluster.assignment import spread
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.states import Pose
from samepath.simulator.server.rendering import RenderRequest, pack_requests

NODES: Final = (10, 32, 100, 320, 1000)
SENSORS_MOST: Final = 10_000
SENSORS_PER_NODE: Final = 10
RACK: Final = 32
RACKS_TRIED: Final = (4, 8, 16, 32, 64, 128, 256)
SIZE: Final = (180, 120)
FRAME_BYTES: Final = 4 * SIZE[0] * SIZE[1]
# Of the network between machines; those are not measured but stated: a rack's switch, and 10 Gbit/s.
HALF_ROUND_TRIP_S: Final = 50e-6
BYTES_PER_S: Final = 10e9 / 8
REBALANCE_TICKS: Final = 16  # between two times at which the coordinator asks whether sensors should move
RATIOS_KEPT: Final = 400
LIMIT_MS: Final = 100.0
_AT: Final = Pose(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
_STEP_S: Final = 0.05
_TICKS: Final = 3
_LARGE: Final = 3_000_000  # nodes times sensors, from which one tick must do


# The coordinator itself, at any size: the real one, fed with what a cluster of that size would say.


class DrivenCoordinator:
    """The main server's coordinator with so many nodes that answer at once. What it computes is timed, call by call."""

    def __init__(self, nodes: int, sensors: int) -> None:
        facts = c.MapFacts(m.NewEpisode(1, "town", "town", "map"), b"xodr")
        self.state = c.ClusterState(c.ClusterConfig("1", "f", "", picture="p"), facts)
        self.now_s, self.frame = 1.0, 0
        self.due_s: list[float] = []
        self.result_s: list[float] = []
        self.delivered = self.rounds = 0
        self.sensors = sensors
        for number in range(1, nodes + 1):
            peer = number.to_bytes(4, "big")
            self._feed(c.NodeMessage(peer, m.Hello(f"node-{number}", "1", "f", "host", "", 7, "host", 1, 2, 1)))
            self._feed(c.NodeMessage(peer, m.MapReady(1, "map", "p")))

    def requests(self) -> tuple[RenderRequest, ...]:
        """What is due in a tick: every sensor."""
        head = bytes(8) + self.frame.to_bytes(8, "little") + bytes(8)
        attributes = (("image_size_x", str(SIZE[0])), ("image_size_y", str(SIZE[1])))
        return tuple(
            RenderRequest(
                sensor, sensor, "sensor.camera.rgb", attributes, head, _AT, None, 1, 1, 0.0, _STEP_S, size_bytes=FRAME_BYTES
            )
            for sensor in range(1, self.sensors + 1)
        )

    def tick(self) -> tuple[RenderRequest, ...]:
        """One tick; every node draws what it is given in its time and says so."""
        self.frame += 1
        self.now_s += _STEP_S
        due = self.requests()
        frames = tuple(c.DueFrame(request, (1 + request.sensor % len(self.state.members),)) for request in due)
        effects = self._feed(c.TickDue(self.frame, b"d", frames, True, _STEP_S), self.due_s)
        is_over = False
        while not is_over:
            sent = [order for effect in effects if isinstance(effect, c.SendTick) for order in effect.orders]
            effects = []
            for order in sent:
                results = tuple(m.SensorResult(request.sensor, False, "", False, 1e-3) for request in order.requests)
                answer = m.TickResult(self.frame, b"d", 1e-3 * len(results), results)
                self.now_s += 1e-6
                effects += self._feed(c.NodeMessage(order.peer, answer), self.result_s)
            if any(isinstance(effect, c.RoundOver) for effect in effects):
                self.rounds += 1
                effects += self._feed(c.SendsDrained())
            over = [effect for effect in effects if isinstance(effect, c.TickOver)]
            is_over = bool(over)
            self.delivered += sum(len(effect.results) for effect in over)
            if not sent and not is_over:
                raise RuntimeError(f"tick {self.frame} of {len(self.state.members)} nodes does not end")
        return due

    def _feed(self, event: c.Event, times: list[float] | None = None) -> list[c.Effect]:
        start_s = time.thread_time()
        self.state, effects = c.step(self.state, event, self.now_s)
        if times is not None:
            c.deadline_s(self.state)  # the main server asks before it waits for the next message
            times.append(time.thread_time() - start_s)
        return list(effects)


def coordinator_cost(nodes: int, sensors: int, ticks: int = _TICKS) -> CoordinatorCost:
    """What the coordinator computes in a tick of that size: the least disturbed of some ticks."""
    driven = DrivenCoordinator(nodes, sensors)
    due = driven.tick()  # costs of sensors are measured in it, and all are placed
    due_s, result_s = [], []
    with _no_collection():
        for _ in range(ticks):
            driven.due_s, driven.result_s = [], []
            driven.tick()
            due_s.append(sum(driven.due_s))
            result_s.append(sum(driven.result_s) / nodes)
        if driven.delivered != (ticks + 1) * sensors:
            raise RuntimeError(f"{(ticks + 1) * sensors} frames were due, and {driven.delivered} came")
        balance = driven.state.balance
        homes = {request.sensor: (1 + request.sensor % nodes,) for request in due}
        numbers = [member.number for member in c.renderers(driven.state)]
        start_s = time.thread_time()
        spread(balance.costs, due, numbers, homes, balance.where)
        plan_s = (time.thread_time() - start_s) / REBALANCE_TICKS
    return CoordinatorCost(
        nodes, sensors, _short(min(due_s)), _short(min(result_s)), _short(plan_s), driven.rounds // (ticks + 1)
    )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Garbage is not looked for while something is timed: a pass over all of it belongs to no call."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def sizes_needed() -> list[tuple[int, int]]:
    """All sizes at which a curve wants the coordinator's costs."""
    wanted: set[tuple[int, int]] = set()
    for nodes in NODES:
        wanted |= needed_sizes(nodes, SENSORS_PER_NODE * nodes, RACK) | needed_sizes(nodes, SENSORS_MOST, RACK)
    for rack in RACKS_TRIED:
        wanted |= needed_sizes(NODES[-1], SENSORS_MOST, rack)
    return sorted(wanted)


# The world, messages, drawing.


def message_costs() -> dict[str, float]:
    """Packing a node's requests and reading its results, per message and per sensor in it."""
    driven = DrivenCoordinator(1, 64)
    requests = driven.requests()

    def pack(count: int) -> float:
        few = requests[:count]
        listeners = tuple((1,) for _ in few)
        return _least_s(lambda: m.encode(m.TickMessage(1, True, pack_requests(few)[0], listeners, False, False)))

    def read(count: int) -> float:
        results = tuple(m.SensorResult(request.sensor, False, "", False, 1e-3) for request in requests[:count])
        data = m.encode(m.TickResult(1, bytes(16), 1e-3, results))
        return _least_s(lambda: m.from_node(data))

    costs = {}
    for name, cost in (("send", pack), ("receive", read)):
        single, many = cost(1), cost(64)
        each = "request" if name == "send" else "sensor"
        costs[f"{name}_{each}_s"] = (many - single) / 63
        costs[f"{name}_s"] = max(single - (many - single) / 63, 0.0)
    return costs


def link_costs(counts: Sequence[int] = (1, 2, 4)) -> dict[str, float]:
    """A tick over the real link without work in it, over the wire: what each node adds, half of it to send, half to receive."""
    from bench.link import _cluster, _tick
    from samepath.cluster.link import hold_memory

    hold_memory()
    times = {}
    for count in counts:
        with _cluster(count, 256, shared_memory=False) as (link, peers):
            messages = dict.fromkeys(peers, b"tick")
            every = [_tick(link, messages, 256) for _ in range(300)]
        # The best tenth: where there are fewer cores than processes, others wait for them.
        times[count] = sorted(every)[len(every) // 10]
    each_s = max((times[counts[-1]] - times[counts[0]]) / (counts[-1] - counts[0]), 0.0)
    return {"each_s": each_s, **{f"nodes_{count}_ms": _short(1e3 * took_s) for count, took_s in times.items()}}


class _Watched:
    """The renderer of a world: it keeps what it was asked for, and how long it took."""

    wants_every_tick = False

    def __init__(self, real: Any) -> None:  # noqa: ANN401 - a renderer
        self._real = real
        self.took_s, self.view, self.requests = 0.0, None, ()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._real, name)

    def render(self, view: Any, requests: Any) -> Any:  # noqa: ANN401
        start_s = time.process_time()
        # As in a main server: what was drawn is not in its hands.
        results = [replace(result, payload=b"") for result in self._real.render(view, requests)]
        self.took_s += time.process_time() - start_s
        self.view, self.requests = view, tuple(requests)
        return results


def world_costs() -> tuple[dict[str, float], Any]:
    """A tick of the world with vehicles and cameras, drawing taken off, and the size of what every node is sent of it."""
    settings = ((8, 0), (40, 0), (40, 4))  # vehicles, and cameras of each
    found = [_world(vehicles, cameras) for vehicles, cameras in settings]
    (few_s, few_bytes, _), (many_s, many_bytes, _), (seen_s, seen_bytes, watched) = found
    vehicle_s, vehicle_bytes = max(many_s - few_s, 0.0) / 32, (many_bytes - few_bytes) / 32
    sensors = 160
    costs = {
        "world_s": max(few_s - 8 * vehicle_s, 0.0), "world_vehicle_s": vehicle_s,
        "world_sensor_s": max(seen_s - many_s, 0.0) / sensors,
        "state_bytes": few_bytes - 8 * vehicle_bytes, "state_vehicle_bytes": vehicle_bytes,
        "state_sensor_bytes": (seen_bytes - many_bytes) / sensors,
    }  # fmt: skip
    return costs, watched


def _world(vehicles: int, cameras: int) -> tuple[float, float, _Watched]:
    from samepath.simulator.carla.streams import WORLD_STREAM
    from tests.support.serving import call, described, episode

    host = episode("town")
    watched = _Watched(host.context.renderer)
    host.context = replace(host.context, renderer=watched)
    points = call(host, "get_map_info")[1]
    camera = described("sensor.camera.rgb", image_size_x=SIZE[0], image_size_y=SIZE[1])
    for k in range(vehicles):
        car = call(host, "spawn_actor", described("vehicle.tesla.model3"), points[k * len(points) // vehicles])
        for _ in range(cameras):
            made = call(host, "spawn_actor_with_parent", camera, ((1.5, 0.0, 2.0), (0.0, 0.0, 0.0)), car.id, 0, "")
            host.connections.subscriptions.add(_stream_of(made), 0)
    for _ in range(3):
        call(host, "tick_cue")
    times = []
    for _ in range(20):
        watched.took_s = 0.0
        start_s = time.process_time()
        call(host, "tick_cue")
        times.append(time.process_time() - start_s - watched.took_s)
    state = host.context.outbox.of(WORLD_STREAM)[-1]
    view = host.viewer.view()
    packing_s = _least_s(view.pack)
    return min(times) + packing_s, len(state) + len(view.pack()), watched


def _stream_of(record: Any) -> int:  # noqa: ANN401 - an actor's record
    from samepath.simulator.carla.codec import stream_of

    return stream_of(bytes(record.stream_token))


def drawing(watched: Any, samples: int) -> tuple[float, list[float]]:  # noqa: ANN401
    """What a camera takes, and how much longer or shorter than the median whole shares take, one after the other."""
    view, requests = watched.view, watched.requests[:SENSORS_PER_NODE]
    times, worked = [], []
    for _ in range(samples):
        start_s, began_s = SYSTEM_CLOCK.monotonic_s(), time.process_time()
        watched._real.render(view, requests)
        times.append(SYSTEM_CLOCK.monotonic_s() - start_s)
        worked.append(time.process_time() - began_s)
    # Who is late is a matter of the wall clock, what a camera costs one of the processor.
    middle_s = statistics.median(times)
    return statistics.median(worked) / len(requests), [took_s / middle_s for took_s in times]


def _least_s(work: Callable[[], object], rounds: int = 40) -> float:
    """Of one call, in the least disturbed of some rounds of ten."""
    times = []
    with _no_collection():
        for _ in range(rounds):
            start_s = time.thread_time()
            for _ in range(10):
                work()
            times.append((time.thread_time() - start_s) / 10)
    return min(times)


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def measured(samples: int, say: Callable[[str], None]) -> tuple[Parameters, dict[str, Any]]:
    """All parameters, and beside them what they were read off."""
    world, watched = world_costs()
    say("the world is measured")
    messages, link = message_costs(), link_costs()
    say("messages are measured")
    draw_s, ratios = drawing(watched, samples)
    say("drawing is measured")
    costs = []
    sizes = sizes_needed()
    for number, (nodes, sensors) in enumerate(sizes, start=1):
        costs.append(coordinator_cost(nodes, sensors, _TICKS if nodes * sensors < _LARGE else 1))
        say(f"{number} of {len(sizes)}: coordinator of {nodes} nodes, {sensors} sensors: {_total_ms(costs[-1]):.1f} ms a tick")
    parameters = Parameters(
        coordinator=tuple(costs),
        **{name: _short(value) for name, value in world.items()},
        send_s=_short(messages["send_s"] + 0.5 * link["each_s"]),
        send_request_s=_short(messages["send_request_s"]),
        receive_s=_short(messages["receive_s"] + 0.5 * link["each_s"]),
        receive_sensor_s=_short(messages["receive_sensor_s"]),
        draw_s=_short(draw_s),
        draw_ratios=tuple(_short(ratio) for ratio in thinned(ratios, RATIOS_KEPT)),
        frame_bytes=FRAME_BYTES,
        half_round_trip_s=HALF_ROUND_TRIP_S,
        bytes_per_s=BYTES_PER_S,
        rack=RACK,
    )
    return parameters, {"link": link, "draw_samples": samples, "cores": len(os.sched_getaffinity(0))}


def _total_ms(cost: CoordinatorCost) -> float:
    return 1e3 * (cost.due_s + cost.plan_s + cost.nodes * cost.result_s)


# Curves.


def curves(p: Parameters) -> dict[str, Any]:
    """Everything that is shown, from parameters alone."""
    weak = [step(shape, nodes, SENSORS_PER_NODE * nodes, p) for shape in SHAPES for nodes in NODES]
    strong = [step(shape, nodes, SENSORS_MOST, p) for shape in SHAPES for nodes in NODES]
    racks = [
        step(shape, NODES[-1], SENSORS_MOST, replace(p, rack=rack)) for shape in ("relays", "racks") for rack in RACKS_TRIED
    ]
    # The same without what the coordinator computes, and in one round: what the design allows.
    free = tuple(CoordinatorCost(cost.nodes, cost.sensors, 0.0, 0.0, 0.0) for cost in p.coordinator)
    lean = replace(p, coordinator=free)
    without = [step(shape, nodes, SENSORS_MOST, lean) for shape in SHAPES for nodes in NODES]
    return {
        "weak": [list(point) for point in weak],
        "strong": [list(point) for point in strong],
        "without_coordinator": [list(point) for point in without],
        "racks": [[rack, *point] for point, rack in zip(racks, [*RACKS_TRIED, *RACKS_TRIED], strict=True)],
        "slowest": [[count, round(slowest_of(count, p.draw_ratios), 4)] for count in (1, 3, *NODES)],
    }


def main(arguments: Sequence[str] = ()) -> bool:
    """Measure, work out the curves and keep both; or write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--samples", type=int, default=2000, help="shares that are drawn to see who is late (default: %(default)s)"
    )
    parser.add_argument(
        "--curves", action="store_true", help="only work the curves out anew, from the parameters that are kept"
    )
    parser.add_argument(
        "--write-page", action="store_true", help="only write docs/scale.md's tables and pictures from the result"
    )
    options = parser.parse_args(arguments)
    if options.write_page:
        from bench.scale_page import write

        write()
        return True
    if options.curves:
        work_out_again()
        return True
    if not 10 <= options.samples <= 1_000_000:
        parser.error(f"--samples: 10 to 1,000,000 were wanted, but {options.samples} came")
    code_measured()  # what is measured is the code as it is now
    parameters, beside = measured(options.samples, lambda line: print(line, file=sys.stderr, flush=True))
    found = curves(parameters)
    rows = [[point.shape, str(point.nodes), str(point.sensors), f"{point.step_ms:.1f}", f"{point.main_ms:.1f}",
             f"{point.network_ms:.1f}", f"{point.drawing_ms:.1f}", f"{point.efficiency:.2f}"]
            for point in map(_step, found["weak"])]  # fmt: skip
    columns = ["shape", "nodes", "sensors", "step, ms", "main busy", "network busy", "slowest node", "efficiency"]
    show(f"a step of {SENSORS_PER_NODE} cameras a node in virtual time", columns, rows)
    for shape in SHAPES:
        last = last_within([point for point in map(_step, found["weak"]) if point.shape == shape], LIMIT_MS)
        print(f"{shape}: ten steps a second up to {last.nodes if last else 'no'} nodes")
    figures = {"parameters": parameters.plain(), "beside": beside, "curves": found}
    if code_measured()["clean"]:
        save("scale", figures)
    else:
        print("the results are not kept: figures belong to a commit, and there are changes that no commit holds")
    return True


def work_out_again() -> None:
    """The kept curves by the model as it is now; what was measured stays, and says when and by which code."""
    path = RESULTS / "scale.json"
    content = json.loads(path.read_text("utf-8"))
    content["figures"]["curves"] = curves(Parameters.of(content["figures"]["parameters"]))
    content["figures"]["curves_worked_out_by"] = code_measured()["commit"]
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _step(row: Sequence[Any]) -> Step:
    return Step(*row)


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
