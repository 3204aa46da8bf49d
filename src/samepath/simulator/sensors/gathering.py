"""Many worlds that run side by side, each in a thread of its own, with one card: what they ask for is drawn in one launch.

Every world has a :class:`GatheredRenderer`. Its call waits until every other world that is still there has asked too; the last
one then draws for all of them, in the order of their numbers. Frames do not depend on who is drawn with whom, so neither do
they on how threads come along. A world that is done closes its renderer: the others no longer wait for it.
"""

import threading
from collections.abc import Mapping, Sequence

from samepath.core.errors import SimulatorError
from samepath.simulator.sensors.renderer import Camera, CameraFrame, RenderScene, WorldCameras, WorldsRenderer


class RenderGatherer:
    """Owns a renderer that draws worlds together, and hands out a renderer for each world."""

    def __init__(self, renderer: WorldsRenderer) -> None:
        self.renderer = renderer
        self._turn = threading.Condition()
        self._parties = 0
        self._there: set[int] = set()
        self._asked: dict[int, WorldCameras] = {}
        self._answers: dict[int, Sequence[CameraFrame] | BaseException] = {}

    def join(self) -> "GatheredRenderer":
        """A renderer for one more world. From now on the others wait for its calls, until it is closed."""
        with self._turn:
            self._parties += 1
            self._there.add(self._parties)
            return GatheredRenderer(self, self._parties)

    def draw(self, party: int, scene: RenderScene, cameras: Sequence[Camera]) -> Sequence[CameraFrame]:
        """Draw for one world, together with the others."""
        with self._turn:
            if party not in self._there:
                raise SimulatorError("a renderer that is open was wanted, but a closed one came")
            self._asked[party] = (scene, cameras)
            self._draw_if_all_have_asked()
            while party not in self._answers:
                self._turn.wait()
            answer = self._answers.pop(party)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self, party: int) -> None:
        """A world is done. If all others wait already, it draws for them before it goes."""
        with self._turn:
            self._there.discard(party)
            self._draw_if_all_have_asked()

    def close(self) -> None:
        """Let go of the renderer."""
        self.renderer.close()

    def _draw_if_all_have_asked(self) -> None:
        if not self._asked or len(self._asked) < len(self._there):
            return
        parties = sorted(self._asked)
        try:
            drawn = self.renderer.render_worlds([self._asked[party] for party in parties])
            self._answers.update(zip(parties, drawn, strict=True))
        except BaseException as error:
            self._answers.update(dict.fromkeys(parties, error))
        self._asked.clear()
        self._turn.notify_all()


class GatheredRenderer:
    """What one world draws with; see :class:`RenderGatherer`."""

    def __init__(self, gatherer: RenderGatherer, party: int) -> None:
        self._gatherer, self._party = gatherer, party

    @property
    def name(self) -> str:
        """Who draws now."""
        return self._gatherer.renderer.name

    @property
    def facts(self) -> Mapping[str, str]:
        """What pictures depend on beside scene and cameras."""
        return self._gatherer.renderer.facts

    def render(
        self,
        scene: RenderScene,
        cameras: Sequence[Camera],
        out: Sequence[CameraFrame] | None = None,
    ) -> Sequence[CameraFrame]:
        """Draw all cameras, with those of the other worlds; ``out`` is not used again."""
        return self._gatherer.draw(self._party, scene, cameras)

    def close(self) -> None:
        """Leave."""
        self._gatherer.leave(self._party)
