"""Light: the weather as numbers for compiled code, the sky, the noise of surfaces, lamps, and the colour of every face.

Faces are lit once per tick for all cameras, in float64, and rounded to float32. Nothing here knows about cameras.
From light to the screen only square roots are used: IEEE 754 rounds them in one way, while powers come from a library and
differ in their last bit.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numba.core import config

from samepath.simulator.sensors.raster.arrays import (
    F32,
    F64,
    LEVELS,
    U8,
    U32,
    FaceRows,
    InstanceArrays,
    LightArrays,
    MeshArrays,
    Number,
)
from samepath.simulator.sensors.raster.compiled import compiled, compiled_entry
from samepath.simulator.sensors.renderer import Lamp, Material, MeshInstances, RenderScene, Shapes
from samepath.simulator.sensors.weather import SceneLight, SceneWeather, light_of

# Where things stand in LightArrays.numbers.
TO_SUN, SUN, ABOVE, BELOW, HIGH, LOW, FOG = 0, 3, 6, 9, 12, 15, 18
FOG_PER_M, FOG_FROM_M, FALLOFF, SHADOWS, NIGHT, WET, PUDDLES, RAIN, TICK = 21, 22, 23, 24, 25, 26, 27, 28, 29
GLOW_X, GLOW_Y, GLOW_PER_M, DARK = 30, 31, 32, 33
NUMBERS: Final = 34

PLAIN = int(Material.PLAIN)
BODY, GLASS, FACADE, FOLIAGE = int(Material.BODY), int(Material.GLASS), int(Material.FACADE), int(Material.FOLIAGE)
ROAD, PAVING, GRASS, PAINT = int(Material.ROAD), int(Material.PAVING), int(Material.GRASS), int(Material.PAINT)
_BEAMS: Final = Lamp.LOW_BEAM | Lamp.HIGH_BEAM
SIGNAL = int(Lamp.RED | Lamp.YELLOW | Lamp.GREEN)
_BEAM_REACH_M, _BEAM_HEIGHT_M, _BEAM_STRENGTH = 40.0, 0.7, 1.3
_STREET_HEIGHT_M, _STREET_STRENGTH = 5.6, 0.85
_FOG_DECAY_PER_M: Final = 0.1

# What a shadow leaves of the light of the sky and of the sun's.
SHADOW_SKY, SHADOW_SUN = 0.85, 0.05

# A mid-grey: what factors on the ground are worked out for.
_GREY: Final = 0.18
KNEE = 0.72
"""Where the shoulder begins."""

CURVE = (0.662002687, 0.684122060, -0.323583601, -0.0225411470)
"""sRGB's curve: parts of the square root, the fourth root, the eighth root and the light itself."""

# The sky is a picture of the dome, made once per weather and looked up by direction.
SKY_SIZE: Final = 16 if config.DISABLE_JIT else 512
"""Texels across the dome; without a compiler a small one has to do."""

_ROW: Final = SKY_SIZE + 1
_OUTER = np.uint32(0x00FF00FF)
REACH: Final = 1.25
"""The dome reaches a little below the horizon: 1 would end there."""

_SUN, _GLOW, _HIGH, _LOW, _FOG, _CLOUD, _CLOUDS, _STRENGTH, _NIGHT, _RAIN = 0, 3, 6, 9, 12, 15, 18, 19, 20, 21

# One tile of noise is what everything mottled is made from. Whole numbers decide; nothing is left to chance.
TILE: Final = 256

# The light of lamps on the ground is a grid over the map that pixels look into. Street lamps stay, head lamps move.
_CELL_M: Final = 0.5
_CELLS_MAX: Final = 2048
_MARGIN_M: Final = 60.0
_EDGE_M: Final = 1000.0


def light_arrays_of(scene: RenderScene, *, paints: bool = True) -> LightArrays:
    """The light of a scene."""
    light = light_of(scene.weather)
    numbers = np.zeros(NUMBERS)
    for at, colour in (
        (TO_SUN, light.to_sun), (SUN, light.sun), (ABOVE, light.above), (BELOW, light.below),
        (HIGH, light.sky_high), (LOW, light.sky_low), (FOG, light.fog),
    ):  # fmt: skip
        numbers[at : at + 3] = colour
    numbers[FOG_PER_M], numbers[FOG_FROM_M] = light.fog_per_m, light.fog_from_m
    numbers[FALLOFF] = _FOG_DECAY_PER_M * max(scene.weather.fog_falloff, 0.0) if scene.weather.fog_density > 0.0 else 0.0
    numbers[SHADOWS], numbers[NIGHT], numbers[WET] = light.shadows, light.night, light.wet
    numbers[PUDDLES], numbers[RAIN], numbers[TICK] = light.puddles, light.rain, scene.tick % 65536
    # Divided by in ``light_flat``: never 0, however dark the night.
    numbers[DARK] = max(0.3 * light.above[0] + 0.5 * light.above[1] + 0.2 * light.above[2], 0.01)
    sky = np.zeros((SKY_SIZE + 1) ** 2 if paints else 0, np.uint32)
    if paints:
        build_sky(sky, noise_tile(), sky_numbers_of(scene.weather))
    none = np.zeros((1, 8), np.float32)
    return LightArrays(numbers, _flat_factors(light), sky, noise_tile(), street_lamps(scene), none[:0], none, none[:, :2])


def sky_numbers_of(weather: SceneWeather) -> F64:
    """What the sky of a weather is painted of; see :func:`build_sky`."""
    light = light_of(weather)
    strength = min(light.fog_per_m * 400.0, 1.0)
    parts = (*light.to_sun, *light.glow, *light.sky_high, *light.sky_low, *light.fog, *light.cloud_colour)
    return np.array([*parts, light.clouds, strength, light.night, light.rain])


def _flat_factors(light: SceneLight) -> F32:
    """What shadow does to a flat surface, f32[2, 3] out of it and in it, as factors of the numbers on the screen: b, g, r."""
    factors = np.ones((2, 3), np.float32)
    lit = [max(light.to_sun[2], 0.0) * part for part in light.sun]
    for k in range(3):
        base = tone_of(_GREY * (light.above[k] + lit[k]))
        # At least half a step of 255: a night without light would divide nothing by nothing.
        factors[1, 2 - k] = tone_of(_GREY * (SHADOW_SKY * light.above[k] + SHADOW_SUN * lit[k])) / max(base, 0.5)
    return factors


def tone_of(light: Number) -> Number:
    """A linear amount of light as 0..255 on the screen: sRGB's curve, and a soft shoulder so that nothing burns out at once."""
    y = max(light, 0.0)
    # Above the knee light is pressed into what is left below 1, so that lamps and the sun keep some colour.
    if y > KNEE:
        over = y - KNEE
        y = KNEE + over / (1.0 + over / (1.0 - KNEE))
    s1 = np.sqrt(y)
    s2 = np.sqrt(s1)
    s3 = np.sqrt(s2)
    level = CURVE[0] * s1 + CURVE[1] * s2 + CURVE[2] * s3 + CURVE[3] * y
    return 255.0 * min(max(level, 0.0), 1.0)


tone = compiled(tone_of)


@compiled_entry
def light_rows(
    meshes: MeshArrays,
    placed: InstanceArrays,
    rows: FaceRows,
    shade: LightArrays,
    used: U8,
    lit: U8,
    first: Number,
    last: Number,
) -> Number:
    """Light the instances ``first`` up to ``last`` in every level that is used and not lit yet; return how many faces.

    ``used`` and ``lit`` save time only: a face's row is always the same function of the scene.
    """
    count = 0
    for i in range(first, last):
        mesh = placed.mesh[i]
        # Rows of a coarser level are rows of their own: two cameras may see one instance in different detail within a tick.
        for level in range(LEVELS):
            if mesh < 0:
                break
            if used[i, level] != 0 and lit[i, level] == 0:
                lit[i, level] = 1
                for face in range(meshes.first_face[mesh], meshes.first_face[mesh + 1]):
                    row = placed.rows[i, level] + face - meshes.first_face[mesh]
                    _light_face(meshes, placed, rows, shade, i, face, row)
                    count += 1
            mesh = meshes.coarser[mesh]
    return count


@compiled
def _light_face(
    meshes: MeshArrays, placed: InstanceArrays, rows: FaceRows, shade: LightArrays, i: Number, face: Number, row: Number
) -> None:
    """Work out what a pixel needs to know of one face.

    Flat surfaces get the light of lamps pixel by pixel (:func:`.pixels.light_flat`), as their faces are far too large for it.
    """
    n, turn = shade.numbers, placed.axes[i]
    p0, p1, p2 = np.float64(meshes.planes[face, 0]), np.float64(meshes.planes[face, 1]), np.float64(meshes.planes[face, 2])
    nx = p0 * turn[0, 0] + p1 * turn[1, 0] + p2 * turn[2, 0]
    ny = p0 * turn[0, 1] + p1 * turn[1, 1] + p2 * turn[2, 1]
    nz = p0 * turn[0, 2] + p1 * turn[1, 2] + p2 * turn[2, 2]
    material = meshes.materials[face]
    facing = max(nx * n[TO_SUN] + ny * n[TO_SUN + 1] + nz * n[TO_SUN + 2], 0.0)
    up = 0.5 + 0.5 * nz
    lamp = 0.0
    if shade.lamps.shape[0] + shade.beams.shape[0] > 0:
        a, b, c = meshes.faces[face, 0], meshes.faces[face, 1], meshes.faces[face, 2]
        # The first is widened, and with it the whole sum.
        mx = (np.float64(meshes.x[a]) + meshes.x[b] + meshes.x[c]) / 3.0
        my = (np.float64(meshes.y[a]) + meshes.y[b] + meshes.y[c]) / 3.0
        mz = (np.float64(meshes.z[a]) + meshes.z[b] + meshes.z[c]) / 3.0
        if material < ROAD:
            x = mx * turn[0, 0] + my * turn[1, 0] + mz * turn[2, 0] + placed.position[i, 0]
            y = mx * turn[0, 1] + my * turn[1, 1] + mz * turn[2, 1] + placed.position[i, 1]
            z = mx * turn[0, 2] + my * turn[1, 2] + mz * turn[2, 2] + placed.position[i, 2]
            lamp = _lamp_light(shade.lamps, x, y, z, nx, ny, nz) + _lamp_light(shade.beams, x, y, z, nx, ny, nz)
    glows, is_signal = (meshes.lamps[face] & placed.lamps[i]) != 0, (meshes.lamps[face] & SIGNAL) != 0
    # Only what lies flat gets wet: it alone mirrors the sky later, and is darker under the water.
    wet = n[WET] * (0.42 if material == ROAD else 0.3) if material >= ROAD else 0.0
    for k in range(3):
        own = np.float64(meshes.colours[face, k])
        if material == BODY:
            own *= placed.paint[i, k]
        tint = 1.0 if k == 0 else (0.86 if k == 1 else 0.66)
        light = n[BELOW + k] + (n[ABOVE + k] - n[BELOW + k]) * up + n[SUN + k] * facing + lamp * tint
        value = own * light * (1.0 - wet)
        if material == BODY:
            value += 0.05 * (n[LOW + k] + (n[HIGH + k] - n[LOW + k]) * max(nz, 0.0)) * up
        elif material == GLASS:
            value = 0.35 * value + 0.42 * (n[LOW + k] + (n[HIGH + k] - n[LOW + k]) * max(nz, 0.0)) * up
        elif material == FOLIAGE:
            value += 0.22 * own * n[SUN + k]
        if glows:
            value = 0.35 * value + 1.15 * own
        elif is_signal:
            value *= 0.10
        rows.colour[row, 2 - k] = np.float32(tone(value))
    wall: Number = meshes.mappings[face]
    wall = wall + placed.walls[i] if wall >= 0 else -1
    rows.colour[row, 3] = np.float32(wall)
    label = placed.label[i]
    rows.label[row] = label if label != 0 else meshes.labels[face]
    # Two bytes, as in CARLA's pictures; ids of fixed things count down from the top of them.
    rows.instance[row] = np.uint16(placed.id[i] & 65535)
    # Without a mapping there is no row of ``walls`` to look into: such a facade is painted plain.
    rows.material[row] = material if material != FACADE or wall >= 0 else PLAIN
    rows.normal[row, 0] = np.int8(np.rint(127.0 * nx))
    rows.normal[row, 1] = np.int8(np.rint(127.0 * ny))
    rows.normal[row, 2] = np.int8(np.rint(127.0 * nz))
    rows.placed[row] = i


@compiled
def _lamp_light(lamps: F32, x: Number, y: Number, z: Number, nx: Number, ny: Number, nz: Number) -> Number:
    """The light of all lamps on a face at a place."""
    total = 0.0
    for k in range(lamps.shape[0]):
        dx, dy, dz = x - lamps[k, 0], y - lamps[k, 1], z - lamps[k, 2]
        square, reach = dx * dx + dy * dy + dz * dz, np.float64(lamps[k, 6])
        # The most frequent way out comes before the square root: nearly all lamps are far from nearly all faces.
        if square >= reach * reach:
            continue
        # The small number keeps a face in the very middle of a lamp from dividing by zero.
        far = np.sqrt(square) + 1e-6
        facing = -(dx * nx + dy * ny + dz * nz) / far
        if facing <= 0.0:
            continue
        cone = 1.0
        if lamps[k, 3] != 0.0 or lamps[k, 4] != 0.0:
            along = (dx * lamps[k, 3] + dy * lamps[k, 4] + dz * lamps[k, 5]) / far
            cone = min(max((along - 0.75) * 6.0, 0.0), 1.0)
        # Falls to 0 at the reach, with its slope: a light that ended in a step would draw a circle.
        fade = 1.0 - square / (reach * reach)
        total += lamps[k, 7] * facing * cone * fade * fade / (1.0 + 0.02 * square)
    return total


@compiled_entry
def near_lamps(placed: InstanceArrays, meshes: MeshArrays, lamps: F32, last: Number, near: U8) -> None:
    """Mark the first ``last`` instances that one of the lamps can reach."""
    for i in range(last):
        mesh, turn = placed.mesh[i], placed.axes[i]
        middle = meshes.centre[mesh]
        x = middle[0] * turn[0, 0] + middle[1] * turn[1, 0] + middle[2] * turn[2, 0] + placed.position[i, 0]
        y = middle[0] * turn[0, 1] + middle[1] * turn[1, 1] + middle[2] * turn[2, 1] + placed.position[i, 1]
        near[i] = 0
        for k in range(lamps.shape[0]):
            # On the ground alone, which is never more than the true distance, and a centimetre for rounding: marking too many
            # costs time, leaving one out would leave old light on it.
            dx, dy, reach = x - lamps[k, 0], y - lamps[k, 1], 0.01 + lamps[k, 6] + meshes.radius[mesh]
            if dx * dx + dy * dy < reach * reach:
                near[i] = 1
                break


def street_lamps(scene: RenderScene) -> F32:
    """The street lamps that burn, f32[k, 8]: place, direction (0: all around), reach, strength; none by day."""
    if not scene.street_lamps_on or light_of(scene.weather).night <= 0.0:
        return np.zeros((0, 8), np.float32)
    found = [
        (x, y, z + _STREET_HEIGHT_M, 0.0, 0.0, 0.0, 1.3 * radius, _STREET_STRENGTH) for x, y, z, radius in scene.street_lamps
    ]
    return np.array(found, np.float32).reshape(-1, 8)


def head_lamps(scene: RenderScene, *, dark: bool) -> F32:
    """The head lamps that burn where it is dark, likewise; each pair is one lamp."""
    if not dark:
        return np.zeros((0, 8), np.float32)
    found = []
    moving, shapes = scene.moving, scene.shapes
    for i in np.flatnonzero(moving.lamps & int(_BEAMS)):
        ahead = moving.axes[i, 0]
        high = 1.6 if moving.lamps[i] & int(Lamp.HIGH_BEAM) else 1.0
        place = moving.position[i] + 0.8 * float(shapes.radius[moving.mesh[i]]) * ahead
        height = float(moving.ground_z[i]) + _BEAM_HEIGHT_M
        found.append((place[0], place[1], height, ahead[0], ahead[1], ahead[2], high * _BEAM_REACH_M, _BEAM_STRENGTH))
    return np.array(found, np.float32).reshape(-1, 8)


@dataclass(frozen=True, slots=True)
class GlowGrid:
    """Where the cells are: the corner of the first one, how many per metre, rows along y, columns along x."""

    x_m: float
    y_m: float
    cells_per_m: float
    rows: int
    columns: int

    @classmethod
    def over(cls, shapes: Shapes, fixed: MeshInstances) -> "GlowGrid":
        """A grid over everything fixed of ordinary size; coarser where the map is larger than 1 km."""
        # The ground reaches far beyond the map: a grid over all of it would have its cells where nobody drives.
        inside = shapes.radius[fixed.mesh] < _EDGE_M
        places = fixed.position[inside, :2] if inside.any() else np.zeros((1, 2))
        low, high = places.min(axis=0) - _MARGIN_M, places.max(axis=0) + _MARGIN_M
        size = high - low
        # At most 2048 cells a side, 16 MiB, whatever the size of the map.
        cell_m = max(_CELL_M, float(size.max()) / (_CELLS_MAX - 2))
        # Two to spare: pixels are read between a cell and its neighbours.
        columns, rows = (math.ceil(float(side_m) / cell_m) + 2 for side_m in size)
        return cls(float(low[0]), float(low[1]), 1.0 / cell_m, rows, columns)


@compiled_entry
def add_lamps(glow: F32, x_m: Number, y_m: Number, cells_per_m: Number, lamps: F32) -> None:
    """Add the light of lamps (see :func:`street_lamps`) to the cells around them.

    Float32 sums depend on their order: a cell takes its lamps in the order of the array.
    """
    rows, columns = glow.shape
    for k in range(lamps.shape[0]):
        x, y, reach, strength = np.float64(lamps[k, 0]), np.float64(lamps[k, 1]), np.float64(lamps[k, 6]), lamps[k, 7]
        dx, dy = np.float64(lamps[k, 3]), np.float64(lamps[k, 4])
        beam = dx != 0.0 or dy != 0.0
        # Cut off towards zero below 0, which does not matter: those are outside of the grid.
        first_row: Number = max(np.int64((y - reach - y_m) * cells_per_m), 0)
        last_row: Number = min(np.int64((y + reach - y_m) * cells_per_m) + 2, rows)
        first_column: Number = max(np.int64((x - reach - x_m) * cells_per_m), 0)
        last_column: Number = min(np.int64((x + reach - x_m) * cells_per_m) + 2, columns)
        for row in range(first_row, last_row):
            off_y = row / cells_per_m + y_m - y
            for column in range(first_column, last_column):
                off_x = column / cells_per_m + x_m - x
                square = (off_x * off_x + off_y * off_y) / (reach * reach)
                if square >= 1.0:
                    continue
                fade = 1.0 - square
                light = fade * fade
                if beam:
                    ahead, aside = off_x * dx + off_y * dy, off_y * dx - off_x * dy
                    if ahead <= 0.0:
                        continue
                    part = aside / (0.9 + 0.27 * ahead)
                    if part * part >= 1.0:
                        continue
                    across = 1.0 - part * part
                    light *= across * across * min(0.25 * ahead, 1.0) * (1.0 - 0.6 * square)
                glow[row, column] += np.float32(strength * light)


@compiled_entry
def build_sky(sky: U32, tile: U8, n: F64) -> None:
    """Paint the dome, blue in the lowest byte: x/(1+z) of a direction rises along the columns, y/(1+z) along the rows."""
    for j in range(_ROW):
        for i in range(_ROW):
            u, v = (2.0 * i / SKY_SIZE - 1.0) * REACH, (2.0 * j / SKY_SIZE - 1.0) * REACH
            square = u * u + v * v
            z = (1.0 - square) / (1.0 + square)
            x, y = u * (1.0 + z), v * (1.0 + z)
            up = max(z, 0.0)
            # The horizon's colour fades upwards, quickly at first.
            blend = 1.0 - up
            blend = blend * blend * blend * (0.6 + 0.4 * blend)
            toward = max(x * n[_SUN] + y * n[_SUN + 1] + z * n[_SUN + 2], 0.0)
            # Powers are products (see the top): the 8th for the glow, the 512th for the disc.
            halo = toward * toward
            halo = halo * halo
            halo = halo * halo
            wide, disc = 0.20 * halo, halo * halo
            disc = disc * disc * disc * disc
            disc = disc * disc * disc * disc
            disc = disc * disc
            # Clouds lie on a level high above: they crowd together towards the horizon, and stay finite at it.
            flat = 1.0 / (up + 0.22)
            cover = 0.0
            if n[_CLOUDS] > 0.0:
                lump = 0.62 * soft(tile, 2, 28.0 * x * flat + 40.0, 28.0 * y * flat + 90.0)
                lump += 0.38 * soft(tile, 2, 90.0 * x * flat + 7.0, 90.0 * y * flat + 31.0)
                edge = 0.78 - 0.72 * n[_CLOUDS]
                cover = min(max((lump - edge) / 0.22, 0.0), 1.0) * min(up * 9.0, 1.0)
                cover *= 0.4 + 0.6 * n[_CLOUDS]
            star = 0.0
            if n[_NIGHT] > 0.5 and up > 0.05 and tile[((j * 7) & 255) * 256 + ((i * 5) & 255)] > 254 and ((i * j) & 15) == 0:
                star = 0.25 * n[_NIGHT] * (1.0 - n[_CLOUDS])
            haze = n[_STRENGTH] * min(max(1.0 - 3.2 * up, 0.0), 1.0)
            haze = max(haze, n[_STRENGTH] * n[_STRENGTH] * (1.0 - 0.5 * up))
            packed = np.uint32(0)
            for k in range(3):
                value = n[_HIGH + k] + (n[_LOW + k] - n[_HIGH + k]) * blend
                value += n[_GLOW + k] * (wide + 6.0 * disc) + star
                lit = n[_CLOUD + k] * (0.82 + 0.18 * up) + 0.3 * n[_GLOW + k] * halo
                value += (lit - value) * cover
                value += (n[_FOG + k] - value) * haze
                packed |= np.uint32(tone(value) + 0.5) << np.uint32(16 - 8 * k)
            sky[j * _ROW + i] = packed


@compiled
def soft(tile: U8, layer: Number, x: Number, y: Number) -> Number:
    """Noise of a layer at a place in cells, between its four neighbours; 0..1."""
    # Rounded down, not cut off: directions have both signs.
    x0, y0 = np.floor(x), np.floor(y)
    i, j = np.int64(x0) & 255, np.int64(y0) & 255
    i1, j1 = (i + 1) & 255, (j + 1) & 255
    u, v = x - x0, y - y0
    first, second = layer * 65536 + j * 256, layer * 65536 + j1 * 256
    upper = tile[first + i] * (1.0 - u) + tile[first + i1] * u
    lower = tile[second + i] * (1.0 - u) + tile[second + i1] * u
    return (upper * (1.0 - v) + lower * v) / 255.0


@compiled
def sky_at(sky: U32, x: Number, y: Number, z: Number) -> Number:
    """Blue, green, red (0..255) of the sky in a direction, between four texels; below the horizon that of the horizon.

    Mixed in whole numbers, in 16ths of a texel: sums of whole numbers are exact in any order.
    """
    half, scale, limit = np.float32(0.5 * SKY_SIZE), np.float32(0.5 * SKY_SIZE / REACH), np.float32(SKY_SIZE - 0.01)
    size = np.sqrt(x * x + y * y + z * z)
    # Straight down the scale would divide by 0; below the horizon there is nothing to tell apart anyway.
    lowest = np.float32(-0.1) * size
    gain = scale / (size + (z if z > lowest else lowest))
    u, v = x * gain + half, y * gain + half
    u, v = (u if u > np.float32(0.0) else np.float32(0.0)), (v if v > np.float32(0.0) else np.float32(0.0))
    # A hundredth of a texel inside: the neighbour to the right and below is still in the table, which has one more a side.
    u, v = (u if u < limit else limit), (v if v < limit else limit)
    # Red and blue lie 16 bits apart, so that one product mixes both: weights add up to 256, and 255 * 256 stays below 2**16.
    p, q = np.uint32(np.int32(u * np.float32(16.0))), np.uint32(np.int32(v * np.float32(16.0)))
    du, dv = p & np.uint32(15), q & np.uint32(15)
    at = (q >> np.uint32(4)) * np.uint32(_ROW) + (p >> np.uint32(4))
    a, b = sky[at], sky[at + np.uint32(1)]
    c, d = sky[at + np.uint32(_ROW)], sky[at + np.uint32(_ROW + 1)]
    w00, w01 = (np.uint32(16) - du) * (np.uint32(16) - dv), du * (np.uint32(16) - dv)
    w10, w11 = (np.uint32(16) - du) * dv, du * dv
    outer = (a & _OUTER) * w00 + (b & _OUTER) * w01 + (c & _OUTER) * w10 + (d & _OUTER) * w11
    green = _green(a) * w00 + _green(b) * w01 + _green(c) * w10 + _green(d) * w11
    unit = np.float32(1.0 / 256.0)
    return (
        np.float32(np.int32(outer & np.uint32(0xFFFF))) * unit,
        np.float32(np.int32(green)) * unit,
        np.float32(np.int32(outer >> np.uint32(16))) * unit,
    )


@compiled
def _green(texel: Number) -> Number:
    return (texel >> np.uint32(8)) & np.uint32(255)


@cache
def noise_tile() -> U8:
    """u8[3 * 256 * 256], three tiles that repeat without a seam: plain noise, soft noise (some cells wide), clouds."""
    grid_y, grid_x = np.mgrid[0:TILE, 0:TILE]
    plain = _hash(grid_x, grid_y, 1) >> np.uint64(24)
    tiles = [plain.astype(np.uint8)]
    # Each octave has a whole number of cells in the tile: that is why it repeats without a seam.
    for salt, octaves in ((2, ((16, 128), (8, 96), (4, 32))), (3, ((64, 96), (32, 64), (16, 48), (8, 32), (4, 16)))):
        total = np.zeros((TILE, TILE), np.int64)
        for cell, weight in octaves:
            total += weight * _smooth(grid_x, grid_y, cell, salt + cell)
        total //= sum(weight for _, weight in octaves)
        low, high = int(total.min()), int(total.max())
        tiles.append(((total - low) * 255 // max(high - low, 1)).astype(np.uint8))
    made = np.concatenate([tile.ravel() for tile in tiles])
    # Shared by all renderers of the process.
    made.flags.writeable = False
    return made


def _smooth(x: np.ndarray, y: np.ndarray, cell: int, salt: int) -> np.ndarray:
    """Noise between the corners of cells, in whole numbers 0..255."""
    cells = TILE // cell
    x0, y0, dx, dy = x // cell, y // cell, x % cell, y % cell
    # 3t^2 - 2t^3, in units of cell^3.
    wx, wy = 3 * dx * dx * cell - 2 * dx**3, 3 * dy * dy * cell - 2 * dy**3
    unit = cell**3
    corner = [
        [(_hash((x0 + i) % cells, (y0 + j) % cells, salt) >> np.uint64(24)).astype(np.int64) for i in (0, 1)] for j in (0, 1)
    ]
    upper = corner[0][0] * (unit - wx) + corner[0][1] * wx
    lower = corner[1][0] * (unit - wx) + corner[1][1] * wx
    mixed: np.ndarray = (upper * (unit - wy) + lower * wy) // (unit * unit)
    return mixed


def _hash(x: np.ndarray, y: np.ndarray, salt: int) -> np.ndarray:
    """Well mixed 32 bits of two integers."""
    h = (x.astype(np.uint64) * 0x9E3779B1 + y.astype(np.uint64) * 0x85EBCA77 + np.uint64(salt) * 0xC2B2AE3D) & 0xFFFFFFFF
    # Masked to 32 bits after every product, so that the next fits into 64: numpy's overflow is never relied on.
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)):
        h = ((h ^ (h >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return h
