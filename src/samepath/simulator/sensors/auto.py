"""The best that promises the software renderer's bytes: a graphics card where there is one, the processor otherwise.

Because the bytes are the same, it may change its mind: a card that is full or gone is let go, the pictures are drawn again in
software, and whoever reads the log is told. It never goes back by itself. ``opengl`` is never chosen: it promises no bytes.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from samepath.core.errors import SimulatorError
from samepath.simulator.sensors.rays.caster import RayCaster
from samepath.simulator.sensors.renderer import (
    Camera,
    CameraFrame,
    Renderer,
    RenderScene,
    WorldCameras,
    WorldsRenderer,
    create_renderer,
)

LOG: Final = logging.getLogger("samepath.sensors")


def ray_caster_of(renderer: str, threads: int, say: Callable[[str], None] | None = None) -> RayCaster:
    """Who casts rays for the sensors of a renderer: the card if that one draws there, the processor otherwise."""
    if renderer not in {"cuda", "auto"}:
        return RayCaster(threads)
    from samepath.simulator.sensors.cuda.rays import AutoRayCaster, CardRayCaster

    return CardRayCaster() if renderer == "cuda" else AutoRayCaster(threads, say)


class AutoRenderer:
    """Draws with ``cuda`` as long as that works, and with ``software`` and its ``threads`` from then on.

    ``name`` is who draws now; ``told`` says why in a line. ``say`` gets that line at the beginning and when it changes;
    without it the log does.
    """

    facts: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        threads: int | None = None,
        say: Callable[[str], None] | None = None,
        card: Callable[[], Renderer] = lambda: create_renderer("cuda"),
    ) -> None:
        self._threads, self._say = threads, say
        try:
            self._renderer = card()
            self.told = f"drawn by {self._renderer.name} ({getattr(self._renderer, 'told', 'no more is known')})"
        except SimulatorError as error:
            self._renderer = self._software()
            self.told = f"drawn in software: {error}"
        (say or LOG.info)(f"cameras are {self.told}")

    def _software(self) -> Renderer:
        return create_renderer("software", threads=self._threads)

    @property
    def name(self) -> str:
        """Who draws now."""
        return self._renderer.name

    def render(
        self, scene: RenderScene, cameras: Sequence[Camera], out: Sequence[CameraFrame] | None = None
    ) -> Sequence[CameraFrame]:
        """Draw all cameras."""
        if self.name == "software":
            return self._renderer.render(scene, cameras, out)
        try:
            return self._renderer.render(scene, cameras, out)
        except SimulatorError as error:
            self._fall_back(error)
        # Not into ``out``: a card that failed may still write there.
        return self._renderer.render(scene, cameras)

    def render_worlds(self, groups: Sequence[WorldCameras]) -> list[Sequence[CameraFrame]]:
        """Draw the cameras of several scenes, in one launch where a card draws."""
        if isinstance(self._renderer, WorldsRenderer):
            try:
                return self._renderer.render_worlds(groups)
            except SimulatorError as error:
                self._fall_back(error)
        return [self._renderer.render(scene, cameras) for scene, cameras in groups]

    def _fall_back(self, error: SimulatorError) -> None:
        lost, self._renderer = self._renderer, self._software()
        self.told = f"drawn in software from now on, with the same bytes: {error}"
        (self._say or LOG.warning)(f"cameras are {self.told}")
        try:
            lost.close()
        except SimulatorError as more:
            LOG.debug("the card was not closed: %s", more)

    def close(self) -> None:
        """Let go of whatever draws."""
        self._renderer.close()
