"""How smoothly the viewer draws: 1000 repeats of 10 actors over 2000 ticks, in Chromium.

Every repeat is an outcome of its own, which is the worst case: equal ones are drawn once. Each frame shows another tick and is
waited for. WebGL runs where the browser finds it: on a machine without a graphics card that is SwiftShader, on the processor,
and the table says so; there it is a lower bound for any card.
"""

from typing import Any, Final

import numpy as np

import samepath
from bench.tools import save, show
from samepath.instrument.viewer.page import ViewServer, ViewSource, cell_block, ground_block, index_of, index_row, served_page
from samepath.instrument.viewer.scene import DrawnCell, Ground, Surface, ViewActor, ViewOutcome, shape_of

SIZES: Final = ((10, 2, 400), (100, 10, 2000), (1000, 10, 2000))
FRAMES: Final = 30
TYPES: Final = ("vehicle.tesla.model3", "walker.pedestrian.0001")


def made_view(repeats: int, actors: int, ticks: int) -> DrawnCell:
    """Return a cell whose repeats drift apart on circles of different size: everybody moves at every tick."""
    t = np.arange(ticks)[:, None]
    radius, speed = 15.0 + 4.0 * np.arange(actors)[None, :], 0.01 / (1.0 + np.arange(actors)[None, :])
    heading = t * speed
    reference = np.stack(
        [radius * np.cos(heading), radius * np.sin(heading), np.zeros_like(heading), np.degrees(heading) + 90.0], axis=-1
    )
    offsets = np.zeros((repeats, actors, ticks, 4), np.float16)
    grow = (np.arange(ticks) / ticks) ** 3
    for repeat in range(repeats):
        turn = 2.4 * repeat
        offsets[repeat, :, :, 0] = (3.0 * np.cos(turn) * repeat / repeats * grow)[None, :]
        offsets[repeat, :, :, 1] = (3.0 * np.sin(turn) * repeat / repeats * grow)[None, :]
    return DrawnCell(
        name=f"{repeats} repeats",
        scenario="",
        simulator="",
        condition={},
        step_s=0.05,
        lossless=True,
        repeats=repeats,
        actors=tuple(ViewActor(n + 1, kind := TYPES[n % 2], shape_of(kind)) for n in range(actors)),
        outcomes=tuple(ViewOutcome((n,), 0, 1 if n else None, 1 if n else None) for n in range(repeats)),
        endings=("no collision",),
        marks=(),
        marks_left_out=0,
        ticks=np.arange(ticks),
        every=1,
        origin_m=(0.0, 0.0, 0.0),
        reference=reference.astype(np.float32),
        offsets=offsets,
        spread_m=(3.0 * grow).astype(np.float32),
    )


def junction() -> Ground:
    from samepath.engines.samepath.looking import surfaces_of

    return Ground(
        "t-junction",
        tuple(Surface(surface.label, surface.vertices, surface.triangles) for surface in surfaces_of("t-junction")),
    )


def measure(view: DrawnCell, ground: Ground, open_page: Any) -> dict[str, Any]:  # noqa: ANN401 - playwright's
    index = index_of("bench", samepath.__version__, [index_row(view, 0)], [ground.name])
    block, below = cell_block(view), ground_block(ground)
    server = ViewServer(ViewSource(lambda: served_page(index), lambda number: [block][number], lambda number: [below][number]))
    server.start()
    try:
        page = open_page(server.url)
        drawn = page.evaluate(
            """() => { const gl = document.createElement('canvas').getContext('webgl2');
                const told = gl.getExtension('WEBGL_debug_renderer_info');
                return gl.getParameter(told ? told.UNMASKED_RENDERER_WEBGL : gl.RENDERER); }"""
        )
        found: dict[str, Any] = {"mib": round(len(block) / 2**20, 1), "renderer": drawn}
        for name, key in (("2d", "2"), ("3d", "3")):
            page.keyboard.press(key)
            page.evaluate("samepathMeasure(3)")
            taken = sorted(page.evaluate(f"samepathMeasure({FRAMES})"))
            found[f"frame_ms_median_{name}"] = round(taken[len(taken) // 2], 2)
            found[f"frame_ms_p95_{name}"] = round(taken[int(0.95 * len(taken))], 2)
            found[f"frames_per_s_{name}"] = round(1000.0 / taken[len(taken) // 2], 1)
        page.close()
        return found
    finally:
        server.stop()


def main() -> bool:
    """Print the table and write the result; the aim of 30 frames a second is one for graphics cards."""
    from tests.support.chromium import chromium

    ground, rows = junction(), []
    with chromium() as open_page:
        for repeats, actors, ticks in SIZES:
            made = made_view(repeats, actors, ticks)
            rows.append({"repeats": repeats, "actors": actors, "ticks": ticks, **measure(made, ground, open_page)})
    names = ("repeats", "actors", "ticks", "mib", "frames_per_s_2d", "frame_ms_p95_2d", "frames_per_s_3d", "frame_ms_p95_3d")
    heads = ["repeats", "actors", "ticks", "MiB", "2-D frames/s", "95 % within ms", "3-D frames/s", "95 % within ms"]
    show(f"the viewer, drawn by {rows[0]['renderer']}", heads, [[str(row[name]) for name in names] for row in rows])
    save("view", {"sizes": rows})
    return all(row["frames_per_s_2d"] > 0 for row in rows)
