"""Lighting faces: once per tick for all cameras, face by face; and the weather as numbers for compiled code."""

from typing import Final

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, F64, LEVELS, U8, Meshes, Number, Placed, Rows, Shade
from samepath.sim.sensors.raster.compiled import compiled, compiled_entry
from samepath.sim.sensors.raster.sky import SKY_SIZE, build_sky
from samepath.sim.sensors.raster.texture import noise_tile
from samepath.sim.sensors.raster.tones import tone, tone_of
from samepath.sim.sensors.scene import Lamp, Material, Scene
from samepath.sim.sensors.weather import Light, light_of

# Where things stand in Shade.numbers.
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


def shade_of(scene: Scene) -> Shade:
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
    numbers[DARK] = max(0.3 * light.above[0] + 0.5 * light.above[1] + 0.2 * light.above[2], 0.01)
    sky = np.zeros((SKY_SIZE + 1) ** 2, np.uint32)
    build_sky(sky, noise_tile(), _sky_numbers(light))
    none = np.zeros((1, 8), np.float32)
    return Shade(numbers, _flat_factors(light), sky, noise_tile(), street_lamps(scene), none[:0], none, none[:, :2])


def _sky_numbers(light: Light) -> F64:
    strength = min(light.fog_per_m * 400.0, 1.0)
    parts = (*light.to_sun, *light.glow, *light.sky_high, *light.sky_low, *light.fog, *light.cloud_colour)
    return np.array([*parts, light.clouds, strength, light.night, light.rain])


def _flat_factors(light: Light) -> F32:
    """What shadow does to a flat surface, f32[2, 3] out of it and in it, as factors of the numbers on the screen: b, g, r."""
    factors = np.ones((2, 3), np.float32)
    lit = [max(light.to_sun[2], 0.0) * one for one in light.sun]
    for k in range(3):
        base = tone_of(_GREY * (light.above[k] + lit[k]))
        factors[1, 2 - k] = tone_of(_GREY * (SHADOW_SKY * light.above[k] + SHADOW_SUN * lit[k])) / max(base, 0.5)
    return factors


def street_lamps(scene: Scene) -> F32:
    """The street lamps that burn, f32[k, 8]: place, direction (0: all around), reach, strength; none by day."""
    if not scene.street_lamps_on or light_of(scene.weather).night <= 0.0:
        return np.zeros((0, 8), np.float32)
    found = [
        (x, y, z + _STREET_HEIGHT_M, 0.0, 0.0, 0.0, 1.3 * radius, _STREET_STRENGTH) for x, y, z, radius in scene.street_lamps
    ]
    return np.array(found, np.float32).reshape(-1, 8)


def head_lamps(scene: Scene) -> F32:
    """The head lamps that burn, likewise; each pair is one lamp."""
    if light_of(scene.weather).night <= 0.0:
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


@compiled
def _lamp_light(lamps: F32, x: Number, y: Number, z: Number, nx: Number, ny: Number, nz: Number) -> Number:
    """The light of all lamps on a face at a place."""
    total = 0.0
    for k in range(lamps.shape[0]):
        dx, dy, dz = x - lamps[k, 0], y - lamps[k, 1], z - lamps[k, 2]
        square, reach = dx * dx + dy * dy + dz * dz, np.float64(lamps[k, 6])
        if square >= reach * reach:
            continue
        far = np.sqrt(square) + 1e-6
        facing = -(dx * nx + dy * ny + dz * nz) / far
        if facing <= 0.0:
            continue
        cone = 1.0
        if lamps[k, 3] != 0.0 or lamps[k, 4] != 0.0:
            along = (dx * lamps[k, 3] + dy * lamps[k, 4] + dz * lamps[k, 5]) / far
            cone = min(max((along - 0.75) * 6.0, 0.0), 1.0)
        fade = 1.0 - square / (reach * reach)
        total += lamps[k, 7] * facing * cone * fade * fade / (1.0 + 0.02 * square)
    return total


@compiled
def _light_face(meshes: Meshes, placed: Placed, rows: Rows, shade: Shade, i: Number, face: Number, row: Number) -> None:
    """Work out what a pixel needs to know of one face."""
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
        mx = (np.float64(meshes.x[a]) + meshes.x[b] + meshes.x[c]) / 3.0
        my = (np.float64(meshes.y[a]) + meshes.y[b] + meshes.y[c]) / 3.0
        mz = (np.float64(meshes.z[a]) + meshes.z[b] + meshes.z[c]) / 3.0
        if material < ROAD:
            x = mx * turn[0, 0] + my * turn[1, 0] + mz * turn[2, 0] + placed.position[i, 0]
            y = mx * turn[0, 1] + my * turn[1, 1] + mz * turn[2, 1] + placed.position[i, 1]
            z = mx * turn[0, 2] + my * turn[1, 2] + mz * turn[2, 2] + placed.position[i, 2]
            lamp = _lamp_light(shade.lamps, x, y, z, nx, ny, nz) + _lamp_light(shade.beams, x, y, z, nx, ny, nz)
    glows, is_signal = (meshes.lamps[face] & placed.lamps[i]) != 0, (meshes.lamps[face] & SIGNAL) != 0
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
    rows.instance[row] = np.uint16(placed.id[i] & 65535)
    rows.material[row] = material if material != FACADE or wall >= 0 else PLAIN
    rows.normal[row, 0] = np.int8(np.rint(127.0 * nx))
    rows.normal[row, 1] = np.int8(np.rint(127.0 * ny))
    rows.normal[row, 2] = np.int8(np.rint(127.0 * nz))
    rows.placed[row] = i


@compiled_entry
def light_rows(
    meshes: Meshes, placed: Placed, rows: Rows, shade: Shade, used: U8, lit: U8, first: Number, last: Number
) -> Number:
    """Light the instances ``first`` up to ``last`` in every level that is used and not lit yet; returns how many faces."""
    count = 0
    for i in range(first, last):
        mesh = placed.mesh[i]
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


@compiled_entry
def near_lamps(placed: Placed, meshes: Meshes, lamps: F32, last: Number, near: U8) -> None:
    """Mark the first ``last`` instances that one of the lamps can reach."""
    for i in range(last):
        mesh, turn = placed.mesh[i], placed.axes[i]
        middle = meshes.centre[mesh]
        x = middle[0] * turn[0, 0] + middle[1] * turn[1, 0] + middle[2] * turn[2, 0] + placed.position[i, 0]
        y = middle[0] * turn[0, 1] + middle[1] * turn[1, 1] + middle[2] * turn[2, 1] + placed.position[i, 1]
        near[i] = 0
        for k in range(lamps.shape[0]):
            dx, dy, reach = x - lamps[k, 0], y - lamps[k, 1], 0.01 + lamps[k, 6] + meshes.radius[mesh]
            if dx * dx + dy * dy < reach * reach:
                near[i] = 1
                break
