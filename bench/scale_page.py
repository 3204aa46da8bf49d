"""The part of ``docs/scale.md`` that is made from the kept result, and its pictures."""

from collections.abc import Sequence
from typing import Any

from bench.pages import DOCS, kept, measured_on, picture_path, table, with_made_part, write_pictures
from bench.scale import LIMIT_MS, NODES, SENSORS_MOST, SENSORS_PER_NODE
from bench.scale_model import SHAPES, Parameters, Step, last_within, main_parts_ms
from bench.thesis.report import Curve, Figure, Reference

NAME = "scale"
PAGE = DOCS / "scale.md"
_LINE = Reference("10 steps a second", LIMIT_MS)


def steps(rows: Sequence[Sequence[Any]], shape: str) -> list[Step]:
    """The steps of a shape, of a curve as it is kept."""
    return [step for step in (Step(*row) for row in rows) if step.shape == shape]


def figures(content: dict[str, Any]) -> list[Figure]:
    """All pictures of the page."""
    curves, p = content["curves"], Parameters.of(content["parameters"])
    ideal = steps(curves["weak"], SHAPES[0])
    drawing = Curve("drawing alone", tuple(_point(step.nodes, step.ideal_ms) for step in ideal), None, 4, dashed=True)

    def by_shape(name: str) -> tuple[Curve, ...]:
        return tuple(
            Curve(shape, tuple(_point(step.nodes, step.step_ms) for step in steps(curves[name], shape)), None, colour)
            for colour, shape in enumerate(SHAPES)
        )

    strong_ideal = steps(curves["strong"], SHAPES[0])
    strong_drawing = Curve(
        "drawing alone", tuple(_point(step.nodes, step.ideal_ms) for step in strong_ideal), None, 4, dashed=True
    )
    coordinator = [cost for cost in p.coordinator if cost.sensors == SENSORS_PER_NODE * cost.nodes and cost.nodes in NODES]
    parts = (
        Curve(
            "results of nodes", tuple(_point(costs.nodes, 1e3 * costs.nodes * costs.result_s) for costs in coordinator), None, 0
        ),
        Curve("the tick's begin", tuple(_point(costs.nodes, 1e3 * costs.due_s) for costs in coordinator), None, 1),
        Curve("sharing out anew, per tick", tuple(_point(costs.nodes, 1e3 * costs.plan_s) for costs in coordinator), None, 2),
    )
    racks = tuple(
        Curve(shape, tuple(_point(row[0], row[4]) for row in curves["racks"] if row[1] == shape), None, colour)
        for colour, shape in enumerate(("relays", "racks"))
    )
    slowest = (Curve("mean of the slowest", tuple(_point(*row) for row in curves["slowest"]), None, 0),)
    return [
        _figure("step", f"A step with {SENSORS_PER_NODE} cameras a node, by shape of the cluster.", by_shape("weak"), drawing),
        _figure("fixed", f"A step of {SENSORS_MOST:,} cameras, by nodes and shape.", by_shape("strong"), strong_drawing),
        _figure(
            "lean", f"The same {SENSORS_MOST:,} cameras in one round, if the coordinator computed for nothing.",
            by_shape("without_coordinator"), strong_drawing,
        ),
        Figure(
            "", f"What the coordinator computes in a tick, measured, {SENSORS_PER_NODE} cameras a node.", "a tick (ms)", parts,
            _LINE, logarithmic=True, x_label="nodes", logarithmic_x=True, slug="coordinator",
        ),
        Figure(
            "", f"{NODES[-1]} nodes and {SENSORS_MOST:,} cameras: a step by the size of a rack.", "step (ms)", racks, _LINE,
            logarithmic=True, x_label="nodes in a rack", logarithmic_x=True, slug="racks",
        ),
        Figure(
            "", "The barrier: how much longer than the median the slowest of so many nodes draws.", "times median", slowest,
            x_label="nodes", logarithmic_x=True, slug="slowest",
        ),
    ]  # fmt: skip


def _figure(slug: str, caption: str, curves: tuple[Curve, ...], ideal: Curve) -> Figure:
    words = f"{caption} Virtual time."
    return Figure(
        "", words, "step (ms)", (*curves, ideal), _LINE, logarithmic=True, x_label="nodes", logarithmic_x=True, slug=slug
    )


def _point(x: float, y: float) -> tuple[float, float, float, float]:
    return (float(x), float(y), float(y), float(y))


def made(kept_result: dict[str, Any]) -> str:
    """The made part of the page."""
    content = kept_result["figures"]
    curves, p = content["curves"], Parameters.of(content["parameters"])
    pictures = {figure.slug: f"![{figure.caption}]({picture_path(NAME, figure).name})\n" for figure in figures(content)}
    parts = [
        f"{measured_on(kept_result)}\n",
        "## What was measured\n",
        _parameters(p, content["beside"]),
        "## Where the main server's fan-out ends\n",
        _ends(curves),
        _steps_table(curves["weak"]),
        pictures["step"],
        _parts(p),
        pictures["coordinator"],
        f"## {SENSORS_MOST:,} sensors\n",
        _steps_table(curves["strong"]),
        pictures["fixed"],
        pictures["lean"],
        "## How large a rack should be\n",
        _racks(curves["racks"]),
        pictures["racks"],
        "## What the barrier costs\n",
        _barrier(curves["slowest"], content["beside"]["draw_samples"]),
        pictures["slowest"],
    ]
    return "\n".join(["", *parts, ""])


def _ends(curves: dict[str, Any]) -> str:
    words = []
    for shape in SHAPES:
        found = last_within(steps(curves["weak"], shape), LIMIT_MS)
        words.append(f"*{shape}* up to {found.nodes} nodes" if found else f"*{shape}* at none of these sizes")
    lean = [last_within(steps(curves["without_coordinator"], shape), LIMIT_MS) for shape in SHAPES]
    free = [f"*{shape}* with {step.nodes} nodes" for shape, step in zip(SHAPES, lean, strict=True) if step is not None]
    return (
        f"With {SENSORS_PER_NODE} cameras a node there are ten steps a second: {', '.join(words)}. "
        f"Were coordinating free and a tick one round, {SENSORS_MOST:,} cameras would run at ten steps a second: "
        f"{', '.join(free) or 'in no shape, for the world and its requests take the main server longer'}.\n"
    )


def _parts(p: Parameters) -> str:
    """What the main server's thread is busy with, in a sentence that follows from the numbers."""
    nodes, sensors = NODES[-1], SENSORS_PER_NODE * NODES[-1]
    world_ms, coordinating_ms, messages_ms = main_parts_ms(nodes, sensors, p)
    words = (
        f"With {nodes} nodes and {sensors:,} cameras the main server's one thread needs {_ms(world_ms)} ms for the world and "
        f"its requests, {_ms(coordinating_ms)} ms to coordinate and {_ms(messages_ms)} ms for messages, in "
        f"{p.coordinator_of(nodes, sensors).rounds} rounds of at most 1000 frames, each of which waits for its slowest node."
    )
    if coordinating_ms > world_ms + messages_ms:
        words += (
            " So coordinating ends it: each result replaces dictionaries that are as long as there are nodes and sensors, and "
            "a tick costs the square of both. The decisions themselves would not."
        )
    return f"{words}\n"


def _parameters(p: Parameters, beside: dict[str, Any]) -> str:
    late, latest = p.draw_ratios[round(0.99 * (len(p.draw_ratios) - 1))], p.draw_ratios[-1]
    world = (
        f"{1e3 * p.world_s:.2f} ms, {1e6 * p.world_vehicle_s:.0f} us a vehicle, {1e6 * p.world_sensor_s:.1f} us a sensor due"
    )
    state = f"{p.state_bytes:.0f} bytes, {p.state_vehicle_bytes:.0f} a vehicle, {p.state_sensor_bytes:.0f} a sensor"
    rows = [
        ("the world, a tick", world),
        ("what every node is sent of a tick", state),
        ("to send a node its tick", f"{1e6 * p.send_s:.0f} us, {1e6 * p.send_request_s:.1f} us a request"),
        (
            "to take in its result",
            f"{1e6 * p.receive_s:.0f} us, {1e6 * p.receive_sensor_s:.2f} us a sensor; and the coordinator",
        ),
        ("a camera of 180x120", f"{1e3 * p.draw_s:.2f} ms in the median, {p.frame_bytes:.0f} bytes"),
        (
            "shares of a tick against their median",
            f"slowest hundredth {late:.2f}, slowest {latest:.2f}, of {beside['draw_samples']}",
        ),
        (
            "network (assumed, not measured)",
            f"{2e6 * p.half_round_trip_s:.0f} us there and back, {8e-9 * p.bytes_per_s:.0f} Gbit/s at every card",
        ),
        ("load", f"every camera every tick, {p.cameras_per_vehicle} cameras a vehicle; racks of {p.rack} nodes"),
    ]
    return table(("", ""), rows)


def _steps_table(rows: Sequence[Sequence[Any]]) -> str:
    words = []
    for step in (Step(*row) for row in rows):
        values = (step.step_ms, step.main_ms, step.network_ms, step.drawing_ms)
        words.append(
            (step.shape, f"{step.nodes}", f"{step.sensors:,}", *(_ms(value) for value in values), f"{step.efficiency:.2f}")
        )
    columns = (
        "shape",
        "nodes",
        "sensors",
        "step, ms",
        "main server busy",
        "its network card busy",
        "slowest node draws",
        "efficiency",
    )
    return table(columns, words)


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _racks(rows: Sequence[Sequence[Any]]) -> str:
    best = {
        shape: min((row for row in rows if row[1] == shape), key=lambda row: float(row[4])) for shape in ("relays", "racks")
    }
    words = [f"*{shape}*: {row[0]} nodes a rack, {_ms(row[4])} ms a step" for shape, row in best.items()]
    return f"With {NODES[-1]} nodes and {SENSORS_MOST:,} cameras the best were {'; '.join(words)}.\n"


def _barrier(rows: Sequence[Sequence[float]], samples: int) -> str:
    words = [(f"{count:.0f}", f"{ratio:.2f}") for count, ratio in rows]
    columns = ("nodes", "the slowest draws so many times as long as the median, in the mean")
    return table(columns, words) + (
        f"\nFrom {samples} shares of a tick, drawn one after the other on one core. A lockstep tick waits for the slowest, so "
        "this factor is lost by every shape alike; relays add hops to it, and racks change nothing about it. What helps is "
        "smaller shares, nodes held ready, or giving late work to a second node sooner (`reissue_factor` in "
        "`cluster/settings.py`).\n"
    )


def write() -> None:
    """Write the page and its pictures."""
    content = kept(NAME)
    PAGE.write_text(with_made_part(PAGE.read_text("utf-8"), NAME, made(content)), encoding="utf-8")
    write_pictures(NAME, figures(content["figures"]))
