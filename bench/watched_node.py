"""A rendering node with stop watches inside: what it did of each tick, and when, is written to a file as it ends.

``cluster_profile`` starts nodes as this module instead of the usual one. On one host all processes read the same clock.
"""

import json
import os
from pathlib import Path
from typing import Any

from samepath.cluster import node as nodes
from samepath.cluster.placement.child import become_node, main
from samepath.cluster.placement.records import NodeKeys, NodeSpec
from samepath.core.clock import SYSTEM_CLOCK

FOLDER = "SAMEPATH_BENCH_WATCH"
MOMENTS = ("received", "begun", "read", "drawn", "packed", "sent")
"""Of each tick: it is read off the link, the render thread has it, state and requests are read and checked, all is drawn, the
answer is put together, the answer has left."""


def watched(spec: NodeSpec, keys: NodeKeys) -> int:
    """Be a node, and write down what was seen."""
    ticks: dict[int, dict[str, float]] = {}
    now: list[dict[str, float]] = [{}]

    def stamp(frame: int, moment: str) -> None:
        # Of a tick of several rounds the last one counts.
        ticks.setdefault(frame, {})[moment] = SYSTEM_CLOCK.monotonic_s()

    tick, render, rendered = nodes.Node._tick, nodes.RenderThread._render, nodes.Node._rendered
    draw = nodes.LocalRenderer.render

    def on_tick(self: nodes.Node, message: Any, *rest: Any) -> None:  # noqa: ANN401 - passed on
        stamp(message.frame, "received")
        tick(self, message, *rest)

    def on_render(self: nodes.RenderThread, work: nodes.RenderTick) -> nodes.TickRendered:
        stamp(work.frame, "begun")
        now[0] = ticks[work.frame]
        found = render(self, work)
        stamp(work.frame, "packed")
        return found

    def on_draw(self: nodes.LocalRenderer, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
        now[0]["read"] = SYSTEM_CLOCK.monotonic_s()
        found = draw(self, *arguments, **options)
        now[0]["drawn"] = SYSTEM_CLOCK.monotonic_s()
        return found

    def on_rendered(self: nodes.Node, output: nodes.RenderOutput) -> None:
        rendered(self, output)
        if isinstance(output, nodes.TickRendered):
            stamp(output.result.frame, "sent")

    nodes.Node._tick = on_tick  # type: ignore[method-assign]
    nodes.RenderThread._render = on_render  # type: ignore[method-assign]
    nodes.LocalRenderer.render = on_draw  # type: ignore[method-assign]
    nodes.Node._rendered = on_rendered  # type: ignore[method-assign]
    code = become_node(spec, keys)
    Path(os.environ[FOLDER], f"{spec.name}.json").write_text(json.dumps(ticks), "utf-8")
    return code


if __name__ == "__main__":
    main(watched)
