"""Who waits for what in a lockstep tick: the main server and its nodes, by the clock and by the kernel's own account.

``SAMEPATH_BENCH_CLUSTER=profile python -m bench cluster``. For each number of nodes two kinds of ticks: 16x16 pictures, which
cost nothing, so that what is left is the cluster; and eight 720x480 pictures for each core, as in the part ``scaling``.
``SAMEPATH_BENCH_NODES`` says for how many nodes, such as ``1,2,4``.

All stamps of a tick are of one clock. The kernel says for each thread how long it ran and how long it wanted to run and had to
wait for a core (``/proc/PID/task/*/schedstat``): a tick is slow because somebody works, or because somebody waits.
"""

import json
import os
import statistics
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench import watched_node
from bench.cluster_rig import Rig, pin
from bench.tools import show
from samepath.cluster import coordinator as c
from samepath.cluster.link.wire import LinkEvent, Received, ReceivedInPlace
from samepath.cluster.messages import TickResult, from_node
from samepath.core.clock import SYSTEM_CLOCK
from samepath.simulator.server.rendering import RenderRequest, RenderResult, SceneView

CARS, CAMERAS_PER_CORE = 40, 8
TINY, LARGE = (16, 16), (720, 480)
WARM_UP, TICKS = 70, {TINY: 150, LARGE: 20}
MAIN_STEPS = ("view packed", "decided", "sent to all", "until the first answer", "until the last answer", "to its end")
NODE_STEPS = ("on its way", "to the render thread", "state read", "drawing", "answer packed", "answer sent", "on its way back")


class Watch:
    """Stop watches in the main server: when each tick began, was sent, got its answers and ended."""

    def __init__(self, rig: Rig) -> None:
        self.ticks: list[dict[str, Any]] = []
        self.delivering_s = self.deciding_s = self.reading_s = 0.0
        shell = rig.main.shell
        render, carry_out, deliver = shell.render, shell._carry_out, rig.main.deliver
        on_link_event, poll = shell._on_link_event, shell.link.poll
        self._polled_s = 0.0

        def watched_render(view: SceneView, requests: Sequence[RenderRequest]) -> Sequence[RenderResult]:
            self.ticks.append({"frame": view.frame, "begin": SYSTEM_CLOCK.monotonic_s(), "answers": {}})
            self.delivering_s = self.reading_s = 0.0
            found = render(view, requests)
            self.ticks[-1] |= {
                "end": SYSTEM_CLOCK.monotonic_s(),
                "delivering": self.delivering_s,
                "reading": self.reading_s,
            }
            return found

        def watched_carry_out(effect: c.Effect) -> None:
            start_s = SYSTEM_CLOCK.monotonic_s()
            carry_out(effect)
            if isinstance(effect, c.SendTick) and "sent" not in self.ticks[-1]:
                self.ticks[-1] |= {"sending": start_s, "sent": SYSTEM_CLOCK.monotonic_s()}

        def watched_feed(event: c.Event) -> None:
            if isinstance(event, c.TickDue):
                self.ticks[-1]["due"] = SYSTEM_CLOCK.monotonic_s()
            feed(event)

        def watched_deliver(*arguments: Any) -> None:  # noqa: ANN401 - passed on
            start_s = SYSTEM_CLOCK.monotonic_s()
            deliver(*arguments)
            self.delivering_s += SYSTEM_CLOCK.monotonic_s() - start_s

        def watched_poll(*arguments: Any, **options: Any) -> list[LinkEvent]:  # noqa: ANN401 - passed on
            found = poll(*arguments, **options)
            self._polled_s = SYSTEM_CLOCK.monotonic_s()
            return found

        def watched_event(event: LinkEvent) -> None:
            start_s = SYSTEM_CLOCK.monotonic_s()
            on_link_event(event)
            self.reading_s += SYSTEM_CLOCK.monotonic_s() - start_s
            if isinstance(event, Received | ReceivedInPlace) and self.ticks:
                message = from_node(event.message)
                member = shell.state.members.get(event.peer)
                if isinstance(message, TickResult) and message.frame == self.ticks[-1]["frame"] and member is not None:
                    self.ticks[-1]["answers"][member.name] = (self._polled_s, bool(message.results))

        feed = shell.feed
        shell.render = watched_render  # type: ignore[method-assign]
        shell._carry_out = watched_carry_out  # type: ignore[method-assign]
        shell.feed = watched_feed  # type: ignore[method-assign]
        rig.main.deliver = watched_deliver  # type: ignore[method-assign]
        shell._on_link_event = watched_event  # type: ignore[method-assign]
        shell.link.poll = watched_poll  # type: ignore[method-assign]


def profile(figures: dict[str, Any]) -> bool:
    """Measure and show; there is no aim here."""
    cores = sorted(os.sched_getaffinity(0))
    asked = [int(number) for number in os.environ.get("SAMEPATH_BENCH_NODES", "").split(",") if number]
    counts = asked or [count for count in (1, 2, 4, 8, 16) if count <= max(len(cores), 4)]
    found: list[dict[str, Any]] = []
    for size in (TINY, LARGE):
        for count in counts:
            if size == LARGE and count > len(cores):
                continue
            found.append(_measured(count, size, cores))
            _print(found[-1])
    figures["profile"] = found
    return True


def _measured(count: int, size: tuple[int, int], cores: Sequence[int]) -> dict[str, Any]:
    cameras = 8 if size == TINY else CAMERAS_PER_CORE * len(cores)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[watched_node.FOLDER] = folder
        with Rig([1.0] * count, map_name="oval" if size == TINY else "town", module="bench.watched_node") as rig:
            cars = rig.fill(24 if size == TINY else CARS)
            rig.cameras([cars[k % len(cars)] for k in range(cameras)], *size)
            if count <= len(cores):
                rig.pin(set(cores[:count]), [{core} for core in cores[:count]])
            rig.tick(WARM_UP if size == TINY else 8)
            watch = Watch(rig)
            pids = {member.name: member.hello.pid for member in rig.members()} | {"main": os.getpid()}
            counts = rig.main.link.counts
            shared, passed = counts.shared_bytes, counts.passed_bytes
            before = {name: _threads(pid) for name, pid in pids.items()}
            rig.tick(TICKS[size])
            after = {name: _threads(pid) for name, pid in pids.items()}
            shared, passed = counts.shared_bytes - shared, counts.passed_bytes - passed
        pin(os.getpid(), set(cores))
        stamps = {path.stem: json.loads(path.read_text("utf-8")) for path in Path(folder).glob("*.json")}
    ticks = [tick for tick in watch.ticks if tick.keys() >= {"due", "sent", "end"} and tick["answers"]]
    return {
        "nodes": count,
        "size": f"{size[0]}x{size[1]}",
        "cameras": cameras,
        "cores": len(cores),
        "ticks": len(ticks),
        "tick_ms": _median(tick["end"] - tick["begin"] for tick in ticks),
        "main_ms": _main_ms(ticks),
        "delivering_ms": _median(tick["delivering"] for tick in ticks),
        "reading_ms": _median(tick["reading"] for tick in ticks),
        "slowest_node_ms": _node_ms(ticks, stamps, slowest=True),
        "node_ms": _node_ms(ticks, stamps, slowest=False),
        "bytes_through_memory_per_tick": shared / len(ticks),
        "bytes_from_node_to_node_per_tick": passed / len(ticks),
        "threads_ms_per_tick": _threads_ms(before, after, TICKS[size]),
    }


def _main_ms(ticks: Sequence[dict[str, Any]]) -> dict[str, float]:
    rows = []
    for tick in ticks:
        answers = [moment_s for moment_s, drew in tick["answers"].values() if drew]
        first, last = min(answers), max(answers)
        moments = (tick["begin"], tick["due"], tick["sending"], tick["sent"], first, last, tick["end"])
        rows.append([after - before for before, after in pairwise(moments)])
    return dict(zip(MAIN_STEPS, (_median(column) for column in zip(*rows, strict=True)), strict=True))


def _node_ms(ticks: Sequence[dict[str, Any]], stamps: dict[str, Any], *, slowest: bool) -> dict[str, float]:
    """What nodes that drew did of a tick: all of them, or the one whose answer came last."""
    rows = []
    for tick in ticks:
        answers = {name: moment_s for name, (moment_s, drew) in tick["answers"].items() if drew}
        for name in [max(answers, key=lambda name: answers[name])] if slowest else answers:
            own = stamps.get(name, {}).get(str(tick["frame"]), {})
            if all(moment in own for moment in watched_node.MOMENTS):
                moments = [tick["sending"], *(own[moment] for moment in watched_node.MOMENTS), answers[name]]
                rows.append([after - before for before, after in pairwise(moments)])
    return dict(zip(NODE_STEPS, (_median(column) for column in zip(*rows, strict=True)), strict=True)) if rows else {}


def _threads(pid: int) -> dict[str, tuple[int, int, int]]:
    """Of each kind of thread of a process how long it ran, waited for a core, and how often it was put on one."""
    found: dict[str, tuple[int, int, int]] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            ran, waited, times = (int(word) for word in (task / "schedstat").read_text().split())
        except OSError:
            continue
        before = found.get(name, (0, 0, 0))
        found[name] = (before[0] + ran, before[1] + waited, before[2] + times)
    return found


def _threads_ms(before: dict[str, Any], after: dict[str, Any], ticks: int) -> list[dict[str, Any]]:
    """A tick's share of every kind of thread: the main server's, and the mean over nodes."""
    rows: dict[tuple[str, str], list[list[float]]] = {}
    for process, threads in after.items():
        for name, numbers in threads.items():
            own = before[process].get(name, (0, 0, 0))
            ran, waited, times = (now - then for now, then in zip(numbers, own, strict=True))
            kind = "main" if process == "main" else "a node"
            rows.setdefault((kind, name), []).append([1e-6 * ran / ticks, 1e-6 * waited / ticks, times / ticks])
    nodes = max(len(after) - 1, 1)
    return [
        {
            "process": kind,
            "thread": name,
            **dict(
                zip(
                    ("ran_ms", "waited_ms", "wake_ups"),
                    (sum(spent[k] for spent in values) / (1 if kind == "main" else nodes) for k in range(3)),
                    strict=True,
                )
            ),
        }
        for (kind, name), values in rows.items()
    ]


def _median(values: Any) -> float:  # noqa: ANN401 - any numbers
    return 1e3 * statistics.median(list(values) or [0.0])


def _words(steps: dict[str, float]) -> str:
    return ", ".join(f"{name} {ms:.2f}" for name, ms in steps.items())


def _print(measured: dict[str, Any]) -> None:
    title = (
        f"{measured['nodes']} nodes on {measured['cores']} cores, {measured['cameras']} cameras of {measured['size']}: "
        f"a tick of {measured['tick_ms']:.2f} ms (medians of {measured['ticks']} ticks)"
    )
    show(
        title,
        ["who", "what takes how long, ms"],
        [
            ["main", _words(measured["main_ms"])],
            [
                "main, of that",
                f"answers taken in {measured['reading_ms']:.2f}, of that frames handed on {measured['delivering_ms']:.2f}",
            ],
            ["the last node", _words(measured["slowest_node_ms"])],
            ["any node", _words(measured["node_ms"])],
            [
                "bytes a tick",
                f"written by nodes {measured['bytes_through_memory_per_tick'] / 1e6:.2f} MB, "
                f"read by other nodes where they lie {measured['bytes_from_node_to_node_per_tick'] / 1e6:.2f} MB",
            ],
        ],
    )
    rows = [
        [row["process"], row["thread"], f"{row['ran_ms']:.3f}", f"{row['waited_ms']:.3f}", f"{row['wake_ups']:.1f}"]
        for row in sorted(measured["threads_ms_per_tick"], key=lambda row: (row["process"] != "main", -row["ran_ms"]))
        if row["ran_ms"] > 0.002
    ]
    show("threads, of a tick", ["process", "thread", "ran, ms", "waited for a core, ms", "put on a core"], rows)
