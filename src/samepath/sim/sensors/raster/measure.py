"""Everything but colour: depth, label, instance, normal and flow."""

import numpy as np

from samepath.sim.sensors.raster.arrays import F32, ROW_MASK, Number, Outputs, Placed, Rows, Scratch, Views
from samepath.sim.sensors.raster.compiled import compiled

ONE, ZERO = np.float32(1.0), np.float32(0.0)


@compiled
def _flow(views: Views, c: Number, placed: Placed, rows: Rows, scratch: Scratch, to: F32, start: Number) -> None:
    """Where each pixel has come from, back along its instance's motion and the camera's; the sky only turns."""
    width, height, focal = views.size[c, 0], views.size[c, 1], views.focal[c]
    axes, place, was_axes, was_place = views.axes[c], views.place[c], views.was_axes[c], views.was_place[c]
    for row in range(height):
        for column in range(width):
            at = row * width + column
            right, down = (column + 0.5 - 0.5 * width) / focal, (row + 0.5 - 0.5 * height) / focal
            x = axes[0, 0] + right * axes[1, 0] - down * axes[2, 0]
            y = axes[0, 1] + right * axes[1, 1] - down * axes[2, 1]
            z = axes[0, 2] + right * axes[1, 2] - down * axes[2, 2]
            w = scratch.depth[at]
            if w > 0.0:
                far = 1.0 / np.float64(w)
                i = rows.placed[scratch.ids[at] & ROW_MASK]
                turn, was = placed.axes[i], placed.was_axes[i]
                x += (place[0] - placed.position[i, 0]) / far
                y += (place[1] - placed.position[i, 1]) / far
                z += (place[2] - placed.position[i, 2]) / far
                lx = turn[0, 0] * x + turn[0, 1] * y + turn[0, 2] * z
                ly = turn[1, 0] * x + turn[1, 1] * y + turn[1, 2] * z
                lz = turn[2, 0] * x + turn[2, 1] * y + turn[2, 2] * z
                x = was[0, 0] * lx + was[1, 0] * ly + was[2, 0] * lz + (placed.was_position[i, 0] - was_place[0]) / far
                y = was[0, 1] * lx + was[1, 1] * ly + was[2, 1] * lz + (placed.was_position[i, 1] - was_place[1]) / far
                z = was[0, 2] * lx + was[1, 2] * ly + was[2, 2] * lz + (placed.was_position[i, 2] - was_place[2]) / far
            ahead = max(was_axes[0, 0] * x + was_axes[0, 1] * y + was_axes[0, 2] * z, 1e-3)
            was_right = (was_axes[1, 0] * x + was_axes[1, 1] * y + was_axes[1, 2] * z) / ahead
            was_down = -(was_axes[2, 0] * x + was_axes[2, 1] * y + was_axes[2, 2] * z) / ahead
            flow_x, flow_y = (right - was_right) * focal / (0.5 * width), -(down - was_down) * focal / (0.5 * height)
            to[2 * (start + at)] = np.float32(min(max(flow_x, -2.0), 2.0))
            to[2 * (start + at) + 1] = np.float32(min(max(flow_y, -2.0), 2.0))


@compiled
def measure(
    views: Views, c: Number, placed: Placed, rows: Rows, scratch: Scratch, out: Outputs, far_m: Number, sky_label: Number
) -> None:
    """Everything but colour: depth, label, instance, normal and flow, as far as they are asked for."""
    count = np.uint64(views.size[c, 0] * views.size[c, 1])
    depth, ids, offset = scratch.depth, scratch.ids, views.offset[c]
    if offset[1] >= 0:
        first, limit = np.uint64(offset[1]), np.float32(far_m)
        for at in range(count):
            far = ONE / depth[at]
            out.depth[first + at] = far if far < limit else limit
    if offset[2] >= 0:
        first, none = np.uint64(offset[2]), np.uint8(sky_label)
        for at in range(count):
            out.label[first + at] = rows.label[np.uint64(ids[at] & ROW_MASK)] if depth[at] > ZERO else none
    if offset[3] >= 0:
        first = np.uint64(offset[3])
        for at in range(count):
            out.instance[first + at] = rows.instance[np.uint64(ids[at] & ROW_MASK)] if depth[at] > ZERO else np.uint16(0)
    if offset[4] >= 0:
        first = np.uint64(offset[4])
        for at in range(count):
            face, seen = np.uint64(ids[at] & ROW_MASK), depth[at] > ZERO
            for k in range(3):
                out.normal[np.uint64(3) * (first + at) + np.uint64(k)] = rows.normal[face, k] if seen else np.int8(0)
    if offset[5] >= 0:
        _flow(views, c, placed, rows, scratch, out.flow, offset[5])
