"""What a camera sees: instances whose bounding sphere meets its field of view, from near to far."""

import numpy as np

from samepath.sim.sensors.raster.arrays import LEVELS, U8, Meshes, Number, Placed, Seen, Views
from samepath.sim.sensors.raster.compiled import compiled, compiled_entry


@compiled
def _sort(depth: np.ndarray, index: np.ndarray, level: np.ndarray, count: Number) -> None:
    """Shell sort by depth; equal depths keep the order of the instances, which makes the order unique."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            far, one, detail = depth[i], index[i], level[i]
            j = i
            while j >= gap and (depth[j - gap] > far or (depth[j - gap] == far and index[j - gap] > one)):
                depth[j], index[j], level[j] = depth[j - gap], index[j - gap], level[j - gap]
                j -= gap
            depth[j], index[j], level[j] = far, one, detail
        gap //= 3


@compiled_entry
def cull(
    views: Views,
    meshes: Meshes,
    placed: Placed,
    seen: Seen,
    used: U8,
    near_m: Number,
    detail: Number,
    first: Number,
    last: Number,
) -> None:
    """Fill ``seen`` for the views ``first`` up to ``last`` and mark in ``used`` which levels of which instances are needed.

    ``detail`` 0 draws every mesh in full.
    """
    for c in range(first, last):
        width, height, focal = views.size[c, 0], views.size[c, 1], views.focal[c]
        half_x, half_y = 0.5 * width / focal, 0.5 * height / focal
        lean_x, lean_y = np.sqrt(1.0 + half_x * half_x), np.sqrt(1.0 + half_y * half_y)
        axes, place = views.axes[c], views.place[c]
        count = 0
        for i in range(placed.mesh.shape[0]):
            mesh = placed.mesh[i]
            radius, middle, turn = meshes.radius[mesh], meshes.centre[mesh], placed.axes[i]
            x = middle[0] * turn[0, 0] + middle[1] * turn[1, 0] + middle[2] * turn[2, 0] + placed.position[i, 0] - place[0]
            y = middle[0] * turn[0, 1] + middle[1] * turn[1, 1] + middle[2] * turn[2, 1] + placed.position[i, 1] - place[1]
            z = middle[0] * turn[0, 2] + middle[1] * turn[1, 2] + middle[2] * turn[2, 2] + placed.position[i, 2] - place[2]
            ahead = axes[0, 0] * x + axes[0, 1] * y + axes[0, 2] * z
            if ahead + radius < near_m:
                continue
            aside = abs(axes[1, 0] * x + axes[1, 1] * y + axes[1, 2] * z)
            if aside - ahead * half_x > radius * lean_x:
                continue
            above = abs(axes[2, 0] * x + axes[2, 1] * y + axes[2, 2] * z)
            if above - ahead * half_y > radius * lean_y:
                continue
            level = 0
            if detail > 0.0 and ahead > radius:
                size_px = radius * focal / ahead * detail
                while level + 1 < LEVELS and meshes.coarser[mesh] >= 0 and size_px < meshes.coarser_px[mesh]:
                    mesh = meshes.coarser[mesh]
                    level += 1
            seen.ahead[c, count], seen.instance[c, count], seen.level[c, count] = ahead, i, level
            used[i, level] = 1
            count += 1
        _sort(seen.ahead[c], seen.instance[c], seen.level[c], count)
        seen.total[c] = count
