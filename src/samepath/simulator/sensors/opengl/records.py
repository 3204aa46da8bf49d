"""A scene and its cameras as the shaders read them: arrays of records, laid out as in ``shaders/common.glsl``. Pure.

Also the sun's view of what is around a camera: two maps of depth, a fine one near it and a coarse one farther out.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samepath.simulator.sensors.raster.arrays import F32, F64, I32, CameraArrays, InstanceArrays, MeshArrays, VisibleInstances
from samepath.simulator.sensors.raster.prepare import SHADOW_REACH_M
from samepath.simulator.sensors.renderer import NEAR_M, Shapes

REACHES_M: Final = (24.0, SHADOW_REACH_M)
_AHEAD: Final = 0.7
"""Maps lie ahead of the camera by this part of their reach: what is behind it need not be seen."""


@dataclass(frozen=True, eq=False)
class SunShadowMaps:
    """The sun's axes f64[3, 3] (right, up, towards the sun), half the width of each map, and where the maps lie.

    ``areas`` f64[2, 4]: the middle of each map to the right and up, and its lowest and highest place along the sun's rays,
    all from the camera. ``casters``: the instances that can throw a shadow into each map.
    """

    axes: F64
    reaches_m: tuple[float, float]
    areas: F64
    casters: tuple[NDArray[np.intp], NDArray[np.intp]]


def sun_axes(to_sun: F64) -> F64:
    """Axes as those of a camera that looks down the sun's rays: right, up, and back towards the sun."""
    aside = np.array([0.0, 1.0, 0.0]) if abs(to_sun[1]) < 0.9 else np.array([1.0, 0.0, 0.0])
    right = np.cross(aside, to_sun)
    right /= np.sqrt((right * right).sum())
    return np.stack([right, np.cross(-to_sun, right), to_sun])


def sun_shadow_maps(to_sun: F64, place: F64, ahead: F64, middles: F64, radii: F64, texels: int) -> SunShadowMaps:
    """The maps of a camera; ``middles`` and ``radii`` are the spheres around all that throws shadows."""
    axes = sun_axes(to_sun)
    off = (middles - place) @ axes.T
    areas = np.zeros((2, 4))
    casters = []
    for k, reach_m in enumerate(REACHES_M):
        # The middle sits on a grid of whole texels that stands still in the world: edges do not crawl as the camera moves.
        texel_m = 2.0 * reach_m / texels
        at = axes[:2] @ place
        middle = np.rint((at + axes[:2] @ ahead * (_AHEAD * reach_m)) / texel_m) * texel_m - at
        inside = (np.abs(off[:, :2] - middle) <= (reach_m + radii)[:, None]).all(axis=1)
        found = np.flatnonzero(inside)
        low, high = 0.0, 1.0
        if len(found):
            low, high = float((off[found, 2] - radii[found]).min()), float((off[found, 2] + radii[found]).max())
        areas[k] = middle[0], middle[1], low - 1.0, high + 1.0
        casters.append(found)
    return SunShadowMaps(axes, REACHES_M, areas, (casters[0], casters[1]))


Records = NDArray[Any]

VERTEX: Final = np.dtype([("place", "<f4", 3), ("face", "<u4")])
FACE: Final = np.dtype([("normal", "<f4", 3), ("bits", "<u4"), ("colour", "<f4", 3), ("mapping", "<i4")])
THING: Final = np.dtype([("axes", "<f4", (3, 4)), ("was_axes", "<f4", (3, 4)), ("what", "<i4", 4)])
DRAW: Final = np.dtype([("offset", "<f4", 3), ("thing", "<i4"), ("was_offset", "<f4", 3), ("unused", "<i4")])
COMMAND: Final = np.dtype([("vertices", "<u4"), ("things", "<u4"), ("first", "<u4"), ("draw", "<u4"), ("unused", "<u4")])
VIEW: Final = np.dtype(
    [("axes", "<f4", (3, 4)), ("place", "<f4", 4), ("was_axes", "<f4", (3, 4)), ("lamps", "<f4", 4),
     ("light", "<f4", (3, 4)), ("areas", "<f4", (2, 4)), ("unused", "<f4", (3, 4))]
)  # fmt: skip
"""256 bytes: a block of uniforms may begin at any multiple of that."""


def vertices_of(shapes: Shapes) -> Records:
    """Three vertices a face, each with its face's number: faces share nothing but places."""
    made = np.zeros((len(shapes.faces), 3), VERTEX)
    made["place"] = shapes.vertices[shapes.faces]
    made["face"] = np.arange(len(shapes.faces), dtype=np.uint32)[:, None]
    return made


def faces_of(shapes: Shapes) -> Records:
    """What a pixel needs to know of its face."""
    made = np.zeros(len(shapes.faces), FACE)
    made["normal"], made["colour"], made["mapping"] = shapes.normals, shapes.colours, shapes.mappings
    bits = shapes.labels.astype(np.uint32), shapes.materials.astype(np.uint32), shapes.lamps.astype(np.uint32)
    made["bits"] = bits[0] | (bits[1] << 8) | (bits[2] << 16)
    return made


def things_of(placed: InstanceArrays) -> Records:
    """What a pixel needs to know of its instance; the fourth column of the axes is the paint."""
    made = np.zeros(len(placed.mesh), THING)
    made["axes"][..., :3], made["axes"][..., 3], made["was_axes"][..., :3] = placed.axes, placed.paint, placed.was_axes
    made["what"] = np.stack([placed.id, placed.label, placed.lamps, placed.walls], axis=-1)
    return made


class DrawBatch(NamedTuple):
    """Draws and the commands that make them: those of part ``k`` are ``first[k]`` up to ``first[k + 1]``."""

    draws: Records
    commands: Records
    first: list[int]


class DrawList(NamedTuple):
    """Instances to be drawn for one camera, and the mesh of each."""

    camera: int
    things: I32
    meshes: I32


def seen_parts(seen: VisibleInstances, placed: InstanceArrays, levels: I32) -> list[DrawList]:
    """What each camera sees, from near to far."""
    found = []
    for c, total in enumerate(seen.total):
        things = seen.instance[c, :total]
        found.append(DrawList(c, things, levels[placed.mesh[things], seen.level[c, :total]]))
    return found


def batch_of(parts: list[DrawList], views: CameraArrays, placed: InstanceArrays, first_face: I32) -> DrawBatch:
    """Lay out the draws of all parts. Places are taken from the camera in float64, so that float32 suffices from there on."""
    sizes = [len(part.things) for part in parts]
    first = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
    draws, commands = np.zeros(first[-1], DRAW), np.zeros(first[-1], COMMAND)
    for start, part in zip(first, parts, strict=False):
        rows = slice(start, start + len(part.things))
        draws["offset"][rows] = placed.position[part.things] - views.place[part.camera]
        draws["was_offset"][rows] = placed.was_position[part.things] - views.was_place[part.camera]
        draws["thing"][rows] = part.things
        commands["vertices"][rows] = 3 * (first_face[part.meshes + 1] - first_face[part.meshes])
        commands["first"][rows] = 3 * first_face[part.meshes]
    commands["things"], commands["draw"] = 1, np.arange(first[-1], dtype=np.uint32)
    return DrawBatch(draws, commands, first)


def lamps_of(views: CameraArrays, lamps: F32) -> tuple[F32, NDArray[np.int64]]:
    """For each camera the lamps whose light reaches into its view, one behind the other, and how many each has."""
    if not len(lamps):
        return np.zeros((1, 8), np.float32), np.zeros(len(views.focal), np.int64)
    off = lamps[None, :, :3].astype(np.float64) - views.place[:, None]
    ahead, aside, above = (np.einsum("clk,ck->cl", off, views.axes[:, k]) for k in range(3))
    half = 0.5 * views.size[:, :2] / views.focal[:, None]
    reach = lamps[None, :, 6].astype(np.float64)
    lit = ahead + reach > 0.0
    for k, side in enumerate((aside, above)):
        slope = half[:, k, None]
        lit &= np.abs(side) - ahead * slope <= reach * np.sqrt(1.0 + slope * slope)
    which = np.nonzero(lit)[1]
    found = lamps[which] if len(which) else np.zeros((1, 8), np.float32)
    return np.ascontiguousarray(found), lit.sum(axis=1)


def views_of(views: CameraArrays, lamp_counts: NDArray[np.int64], sunlight: list[SunShadowMaps]) -> Records:
    """The cameras; fourth columns hold focal length, width, height and the nearest distance."""
    made = np.zeros(len(views.focal), VIEW)
    made["axes"][..., :3], made["was_axes"][..., :3] = views.axes, views.was_axes
    made["axes"][:, 0, 3], made["axes"][:, 1:, 3] = views.focal, views.size[:, :2]
    made["place"][:, :3], made["place"][:, 3] = views.place, NEAR_M
    made["lamps"][:, 0], made["lamps"][:, 1] = np.cumsum(lamp_counts) - lamp_counts, lamp_counts
    for record, light in zip(made, sunlight, strict=False):
        record["light"][:, :3], record["areas"] = light.axes, light.areas
        record["light"][:2, 3] = light.reaches_m
    return made


def world_spheres(meshes: MeshArrays, placed: InstanceArrays) -> tuple[F64, F64]:
    """The bounding spheres of all instances in the world: middles f64[n, 3] and radii."""
    middle = np.einsum("nj,njk->nk", meshes.centre[placed.mesh], placed.axes) + placed.position
    return middle, meshes.radius[placed.mesh]
