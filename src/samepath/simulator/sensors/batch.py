"""Pictures of many worlds in one call: scenes of any maps, weathers and ticks, any cameras in each.

On a card all scenes are drawn in one launch, and pictures may stay there. Elsewhere views of the same scene are drawn together,
and scenes of the same map and weather one after the other, so that what belongs to a map is worked out once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from samepath.core.errors import InputError
from samepath.simulator.sensors.cuda.memory import CardArray
from samepath.simulator.sensors.renderer import Camera, CameraFrame, Renderer, RenderScene, WorldsRenderer, create_renderer

SceneCamera = tuple[RenderScene, Camera]


@dataclass(frozen=True, eq=False, slots=True)
class CardFrame:
    """What a camera saw, in the card's memory; fields as those of :class:`~samepath.simulator.sensors.renderer.CameraFrame`.

    Every array speaks DLPack: ``torch.from_dlpack(frame.bgra)``.
    """

    camera: Camera
    bgra: CardArray | None = None
    depth_m: CardArray | None = None
    label: CardArray | None = None
    instance: CardArray | None = None
    normal: CardArray | None = None
    flow: CardArray | None = None
    depth_image: CardArray | None = None
    label_image: CardArray | None = None
    instance_image: CardArray | None = None
    normal_image: CardArray | None = None


def render(views: Sequence[SceneCamera], renderer: str | Renderer = "auto") -> list[CameraFrame]:
    """Draw cameras in their scenes; a frame for each, in the order given.

    ``renderer`` is a name, or a renderer that is kept from call to call, with what it knows of maps.
    """
    made = create_renderer(renderer) if isinstance(renderer, str) else renderer
    try:
        groups = _groups(views)
        asked = [(scene, [views[k][1] for k in numbers]) for scene, numbers in groups]
        drawn = made.render_worlds(asked) if isinstance(made, WorldsRenderer) else [made.render(*request) for request in asked]
        found: list[CameraFrame | None] = [None] * len(views)
        for (_, numbers), frames in zip(groups, drawn, strict=True):
            for number, frame in zip(numbers, frames, strict=True):
                found[number] = frame
        return [frame for frame in found if frame is not None]
    finally:
        if isinstance(renderer, str):
            made.close()


def render_on_card(views: Sequence[SceneCamera], renderer: Renderer) -> list[CardFrame]:
    """The same, with pictures that stay in the card's memory; ``renderer`` is one of ``create_renderer("cuda")``."""
    from samepath.simulator.sensors.cuda.renderer import CudaRenderer

    if not isinstance(renderer, CudaRenderer):
        raise InputError(f"the renderer cuda was wanted to leave pictures on a card, but {renderer.name} came")
    groups = _groups(views)
    found: list[CardFrame | None] = [None] * len(views)
    drawn = renderer.render_on_card([(scene, [views[k][1] for k in numbers]) for scene, numbers in groups])
    for (_, numbers), arrays in zip(groups, drawn, strict=True):
        for number, channels in zip(numbers, arrays, strict=True):
            found[number] = CardFrame(views[number][1], *channels)
    return [frame for frame in found if frame is not None]


def _groups(views: Sequence[SceneCamera]) -> list[tuple[RenderScene, list[int]]]:
    """Scenes with the numbers of their views: those of a map together, and of those the ones of a weather."""
    scenes: dict[int, tuple[RenderScene, list[int]]] = {}
    for number, (scene, _) in enumerate(views):
        scenes.setdefault(id(scene), (scene, []))[1].append(number)
    # By first appearance, not by identity: the order must not depend on addresses. No byte does.
    maps: dict[tuple[int, int], int] = {}
    weathers: dict[object, int] = {}

    def rank(group: tuple[RenderScene, list[int]]) -> tuple[int, int, int]:
        scene, numbers = group
        place = maps.setdefault((id(scene.shapes), id(scene.fixed)), len(maps))
        weather = weathers.setdefault((scene.weather, scene.street_lamps_on), len(weathers))
        return place, weather, numbers[0]

    return sorted(scenes.values(), key=rank)
