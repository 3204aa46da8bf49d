"""Small scenes made by hand for rays: boxes, floors and balls, so that distances can be checked on paper."""

import numpy as np

from samepath.core.states import Pose
from samepath.simulator.physics.frames import axes_of, quaternion_of
from samepath.simulator.sensors.renderer import MeshInstances, RenderScene, Shapes
from samepath.simulator.sensors.weather import SceneWeather

_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
_QUADS = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))


def outwards(vertices, faces, *, inside=False):
    """Wind faces so that they point away from the middle, or towards it."""
    turned = []
    middle = vertices.mean(axis=0)
    for a, b, c in faces:
        normal = np.cross(vertices[b] - vertices[a], vertices[c] - vertices[a])
        away = normal @ (vertices[[a, b, c]].mean(axis=0) - middle) > 0
        turned.append((a, b, c) if away != inside else (a, c, b))
    return vertices, np.array(turned)


def box(length=4.6, width=1.8, height=1.4):
    faces = [triangle for a, b, c, d in _QUADS for triangle in ((a, b, c), (a, c, d))]
    return outwards(_CORNERS * (length / 2, width / 2, height / 2), faces)


def floor(size=200.0):
    points = np.array([(-size, -size, 0), (size, -size, 0), (size, size, 0), (-size, size, 0)], float)
    return points, np.array([(0, 1, 2), (0, 2, 3)])


def ball(radius=10.0, rounds=3, *, inside=True):
    """An octahedron whose faces are cut in four again and again, seen from inside."""
    vertices = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    faces = [(x, y, z) for x in (0, 1) for y in (2, 3) for z in (4, 5)]
    for _ in range(rounds):
        found, cut = {}, []

        def between(a, b, found=found):
            key = (min(a, b), max(a, b))
            if key not in found:
                point = np.add(vertices[a], vertices[b])
                vertices.append(tuple(point / np.linalg.norm(point)))
                found[key] = len(vertices) - 1
            return found[key]

        for a, b, c in faces:
            ab, bc, ca = between(a, b), between(b, c), between(c, a)
            cut += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = cut
    return outwards(np.array(vertices) * radius, faces, inside=inside)


def scene_of(meshes, fixed, moving=(), labels=None):
    """Put meshes into a world; ``fixed`` and ``moving`` are (mesh, pose) and count as things and actors 1, 2, ..."""
    vertices = [np.asarray(v, np.float32) for v, _ in meshes]
    first_vertex = np.cumsum([0, *map(len, vertices)]).astype(np.int32)
    first_face = np.cumsum([0, *(len(f) for _, f in meshes)]).astype(np.int32)
    all_vertices = np.concatenate(vertices)
    faces = np.concatenate([f + start for (_, f), start in zip(meshes, first_vertex, strict=False)]).astype(np.int32)
    a, b, c = (all_vertices[faces[:, k]].astype(float) for k in range(3))
    normals = np.cross(b - a, c - a)
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    centre = np.array([(v.min(axis=0) + v.max(axis=0)) / 2 for v in vertices], np.float32)
    radius = np.array([np.linalg.norm(v - m, axis=1).max() for v, m in zip(vertices, centre, strict=True)], np.float32)
    count, each = len(faces), len(meshes)
    given = labels or [20] * each
    arrays = {
        "vertices": all_vertices,
        "faces": faces,
        "normals": normals.astype(np.float32),
        "colours": np.ones((count, 3), np.float32),
        "labels": np.repeat(np.array(given, np.uint8), np.diff(first_face)),
        "materials": np.zeros(count, np.uint8),
        "lamps": np.zeros(count, np.uint16),
        "mappings": np.full(count, -1, np.int32),
        "mapping": np.zeros((0, 8), np.float32),
        "first_vertex": first_vertex,
        "first_face": first_face,
        "centre": centre,
        "radius": radius,
        "coarser": np.full(each, -1, np.int32),
        "coarser_px": np.zeros(each, np.float32),
        "shadow": np.full(each, -1, np.int32),
        "beam": np.full(each, -1, np.int32),
    }
    # How things look is of no concern to rays.
    shapes = Shapes(**{name: value for name, value in arrays.items() if name in Shapes.__slots__})
    return RenderScene(
        shapes, instances(fixed), instances(moving), SceneWeather(), np.zeros((0, 4), np.float32), street_lamps_on=False
    )


def instances(placed):
    count = len(placed)
    position = np.array([pose[:3] for _, pose in placed], float).reshape(-1, 3)
    axes = np.array([axes_of(quaternion_of(pose)) for _, pose in placed], float).reshape(-1, 3, 3)
    return MeshInstances(
        mesh=np.array([mesh for mesh, _ in placed], np.int32),
        position=position,
        axes=axes,
        id=np.arange(1, count + 1, dtype=np.int32),
        label=np.zeros(count, np.uint8),
        paint=np.ones((count, 3), np.float32),
        lamps=np.zeros(count, np.uint16),
        ground_z=np.zeros(count),
        was_position=position,
        was_axes=axes,
    )


def crowd(number=60, seed=3):
    """Boxes of all sizes, tilted, on a floor that lies askew."""
    generator = np.random.default_rng(seed)
    meshes = [floor(), box(), box(0.4, 0.3, 6.0), box(12.0, 7.0, 9.0), ball(2.0, 2, inside=False)]

    def somewhere():
        x, y = generator.uniform(-60, 60, 2)
        return Pose(x, y, generator.uniform(0, 3), *generator.uniform(-30, 30, 2), generator.uniform(-180, 180))

    fixed = [(0, Pose(0, 0, -1, 2.0, -3.0, 10.0)), *((int(generator.integers(1, 5)), somewhere()) for _ in range(number))]
    return scene_of(meshes, fixed, [(int(generator.integers(1, 5)), somewhere()) for _ in range(number)])


def street():
    """A floor, a wall 20 m ahead and a car 10 m to the right: for sensors 2 m above the origin."""
    meshes = [floor(), box(1.0, 40.0, 10.0), box()]
    fixed = [(0, Pose()), (1, Pose(20.5, 0.0, 5.0))]
    return scene_of(meshes, fixed, [(2, Pose(0.0, 10.0, 0.7))], labels=[1, 4, 14])
