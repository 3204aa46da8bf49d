"""Pictures for a rig: views that several cameras share are drawn once, and actors once more alone, to tell what hides them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from samepath.sim.sensors.ground_truth import INSTANCES
from samepath.sim.sensors.renderer import Camera, Channel, Frame, Renderer, create_renderer
from samepath.sim.sensors.scene import Instances, Scene


@dataclass(frozen=True, eq=False)
class View:
    """What cameras that share a view have before them: the image of instances, and actors' pixels when drawn alone."""

    names: tuple[str, ...]
    camera: Camera
    instances: NDArray[np.uint16]
    alone_px: Mapping[int, int]


class Eyes:
    """Draws for a rig, with the back end that was chosen. ``threads`` of the software one change no bit."""

    def __init__(self, threads: int = 1, renderer: str = "software") -> None:
        self._options = {"threads": threads} if renderer == "software" else {}
        self._renderer = create_renderer(renderer, **self._options)
        self._alone: Renderer | None = None
        self._nothing: Instances | None = None

    @property
    def facts(self) -> dict[str, str]:
        """Who draws: the back end's name, and what its pictures depend on."""
        return {"name": self._renderer.name, **self._renderer.facts}

    def close(self) -> None:
        """Let go of threads and memory."""
        self._renderer.close()
        if self._alone is not None:
            self._alone.close()

    def draw(self, scene: Scene, cameras: Sequence[Camera]) -> list[Frame]:
        """Draw cameras; those that differ in nothing but their channels are drawn in one go."""
        channels: dict[Camera, Channel] = {}
        for one in cameras:
            key = replace(one, channels=Channel(0))
            channels[key] = channels.get(key, Channel(0)) | one.channels
        frames = self._renderer.render(scene, [replace(key, channels=wanted) for key, wanted in channels.items()])
        by_view = dict(zip(channels, frames, strict=True))
        return [by_view[replace(one, channels=Channel(0))] for one in cameras]

    def views(self, scene: Scene, drawn: Mapping[str, Frame], ids: Iterable[int]) -> tuple[View, ...]:
        """The truth behind frames, by name of the camera, that were drawn with their instances."""
        names: dict[int, list[str]] = {}
        for name, frame in drawn.items():
            names.setdefault(id(frame), []).append(name)
        frames = [drawn[one[0]] for one in names.values()]
        alone = self._alone_px(scene, [frame.camera for frame in frames], ids) if frames else []
        return tuple(
            View(tuple(shared), frame.camera, frame.instance, pixels)
            for shared, frame, pixels in zip(names.values(), frames, alone, strict=True)
            if frame.instance is not None
        )

    def _alone_px(self, scene: Scene, cameras: Sequence[Camera], ids: Iterable[int]) -> list[dict[int, int]]:
        """For each camera, the pixels of actors that it would see if each were alone; those it could not see are left out."""
        wanted = [replace(one, channels=Channel.INSTANCE, samples=1) for one in cameras]
        found: list[dict[int, int]] = [{} for _ in cameras]
        if self._alone is None:
            self._alone = create_renderer(self._renderer.name, **self._options)
        if self._nothing is None:
            self._nothing = _rows(scene.fixed, np.empty(0, np.intp))
        for number in ids:
            own = _rows(scene.moving, np.flatnonzero(scene.moving.id == number))
            frames = self._alone.render(replace(scene, fixed=self._nothing, moving=own), wanted)
            for k, frame in enumerate(frames):
                if frame.instance is not None and (pixels := int(np.count_nonzero(frame.instance == number % INSTANCES))):
                    found[k][number] = pixels
        return found


def _rows(instances: Instances, rows: NDArray[np.intp]) -> Instances:
    return Instances(*(getattr(instances, name)[rows] for name in Instances.__slots__))
