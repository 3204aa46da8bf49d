"""Which passes over which pictures a tick takes, and how they are cut into slices that are drawn in one go. Pure."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from samepath.simulator.sensors.raster.arrays import I64, NUMBERS_A_PIXEL, CameraArrays

SKY_STRIDE: Final = 0.02
"""Nodes of the sky, in radians; ``picture_of`` in paint.h."""

_MEASURES, _PAINTS = 1, 2
_SLICE_PX_LEAST: Final = 2_000_000
_SLICE_PX_MOST: Final = 64_000_000
_SLICES: Final = 4
_JOBS_MOST: Final = 32_768
"""A card starts at most 65,535 rows of blocks at once."""
_LISTED_MOST: Final = 4_000_000
"""Instances that the jobs of a slice may see, all together: about 1.2 GB of lists."""
_FACES_MOST: Final = 200_000_000
"""Faces, likewise: 0.8 GB."""


class Slice(NamedTuple):
    """Jobs that are drawn in one go, the cameras and worlds they belong to, and what working memory they take."""

    first_job: int
    jobs: int
    first_camera: int
    last_camera: int
    first_world: int
    worlds: int
    keys: int
    nodes: int
    fine: int
    listed: int
    faces: int
    largest_px: int
    most_nodes: int
    delivered_px: int
    tallest: int
    paints: bool


class JobList(NamedTuple):
    """The passes over pictures, as ``Job`` in kernels.h, cut into slices.

    ``parts`` says for each slice of which channel it brings pictures, from which number up to which.
    """

    content: I64
    slices: tuple[Slice, ...]
    parts: tuple[tuple[tuple[int, int, int], ...], ...]

    @property
    def most(self) -> int:
        """How many the largest slice has."""
        return max((part.jobs for part in self.slices), default=1)


def jobs_of(views: CameraArrays, world: I64, instances: I64, rows: I64) -> JobList:
    """Which passes the cameras need: what is measured, and colours with one sample, in one; colours of more in another.

    ``world`` is the number of each camera's world, never falling; each world has so many ``instances``, and ``rows`` for all
    their faces.
    """
    size, paints = views.size, views.offset[:, 0] >= 0
    several = size[:, 2] > 1
    measures = np.any(views.offset[:, 1:] >= 0, axis=1)
    first, second = np.flatnonzero(measures | (paints & ~several)), np.flatnonzero(paints & several)
    camera = np.concatenate([first, second])
    samples = np.concatenate([np.ones(len(first), np.int64), size[second, 2]])
    flags = np.concatenate([
        np.where(measures[first], _MEASURES, 0) + np.where(~several[first] & paints[first], _PAINTS, 0),
        np.full(len(second), _PAINTS),
    ])  # fmt: skip
    # Passes of one camera stay together. Where a slice ends between them its pictures travel twice, the second time complete.
    order = np.argsort(camera, kind="stable")
    camera, samples, flags = camera[order], samples[order], flags[order]
    width, height = size[camera, 0] * samples, size[camera, 1] * samples
    pixels, listed, faces = width * height, instances[world[camera]], rows[world[camera]]
    stride = np.maximum((views.focal[camera] * samples * SKY_STRIDE).astype(np.int64), 2)
    nodes = np.where(flags & _PAINTS, ((height - 1) // stride + 2) * (width // stride + 2), 0)
    fine = np.where(samples > 1, pixels, 0)
    # Small enough for copies to overlap, large enough to fill a card, bounded in memory.
    share = int(min(max(int(pixels.sum()) // _SLICES, _SLICE_PX_LEAST), _SLICE_PX_MOST))
    limits = ((pixels, share), (np.ones_like(pixels), _JOBS_MOST), (listed, _LISTED_MOST), (faces, _FACES_MOST))
    parts = np.stack([(np.cumsum(amount) - amount) // most for amount, most in limits])
    starts = [0, *(np.flatnonzero((parts[:, 1:] != parts[:, :-1]).any(axis=0)) + 1).tolist(), len(camera)]
    content = np.zeros((len(camera), 9), np.int64)
    content[:, 0], content[:, 1], content[:, 5], content[:, 6] = camera, samples, flags, world[camera]
    slices: list[Slice] = []
    for start, end in pairwise(starts if len(camera) else []):
        part = slice(start, end)
        for column, amount in ((2, pixels), (3, nodes), (4, fine), (7, listed), (8, faces)):
            content[part, column] = np.cumsum(amount[part]) - amount[part]
        delivered = size[camera[part], 0] * size[camera[part], 1]
        first_world, last_world = int(world[camera[start]]), int(world[camera[end - 1]])
        slices.append(Slice(
            start, end - start, int(camera[start]), int(camera[end - 1]), first_world, last_world - first_world + 1,
            int(pixels[part].sum()), int(nodes[part].sum()), int(fine[part].sum()), int(listed[part].sum()),
            int(faces[part].sum()), int(pixels[part].max()), int(nodes[part].max()), int(delivered.max()),
            int(size[camera[part], 1].max()), bool((flags[part] & _PAINTS).any()),
        ))  # fmt: skip
    return JobList(content, tuple(slices), tuple(tuple(_parts(views, part)) for part in slices))


def _parts(views: CameraArrays, part: Slice) -> Iterator[tuple[int, int, int]]:
    """Which numbers of which channels the pictures of a slice are; those of neighbouring cameras lie side by side."""
    cameras = slice(part.first_camera, part.last_camera + 1)
    pixels = views.size[cameras, 0] * views.size[cameras, 1]
    for channel, each in enumerate(NUMBERS_A_PIXEL):
        offset = views.offset[cameras, channel]
        has = np.flatnonzero(offset >= 0)
        if len(has):
            yield channel, each * int(offset[has[0]]), each * int(offset[has[-1]] + pixels[has[-1]])
