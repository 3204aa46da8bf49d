"""Depth, labels and instances against Embree, which casts a ray through every pixel's middle and knows nothing of spans."""

import numpy as np
import pytest

from samepath.simulator.physics.frames import places_and_axes
from samepath.simulator.sensors.labels import Label
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.renderer import FAR_M, NEAR_M, Channel
from tests.support.camera_scenes import cameras, street_scene

rtcore_scene = pytest.importorskip("embreex.rtcore_scene", reason="embreex has no wheel here")
mesh_construction = pytest.importorskip("embreex.mesh_construction")

SEEN = Channel.DEPTH | Channel.LABEL | Channel.INSTANCE
AGREE_AT_LEAST = 0.999
PASSES_MAX = 60


def triangles_of(scene):
    """All triangles of a scene in the world, with label and instance."""
    corners, labels, ids = [], [], []
    first = scene.shapes.first_face
    for group in (scene.fixed, scene.moving):
        for row in range(len(group)):
            mesh = group.mesh[row]
            corners.append(scene.world_triangles(group, row))
            labels.append(scene.shapes.labels[first[mesh] : first[mesh + 1]])
            ids.append(np.full(len(corners[-1]), group.id[row]))
    return np.concatenate(corners), np.concatenate(labels), np.concatenate(ids)


def cast(triangles, labels, ids, camera):
    """What rays meet; faces that look away are passed through, as the rasteriser does not draw them."""
    world = rtcore_scene.EmbreeScene(robust=True)
    mesh_construction.TriangleMesh(world, triangles)
    (place,), (axes,) = places_and_axes([camera.pose])
    columns, rows = np.meshgrid(
        np.arange(camera.width) + 0.5 - camera.width / 2, np.arange(camera.height) + 0.5 - camera.height / 2
    )
    towards = axes[0] + columns[..., None] / camera.focal_px * axes[1] - rows[..., None] / camera.focal_px * axes[2]
    towards = towards.reshape(-1, 3)
    exact = triangles.astype(np.float64)
    normals = np.cross(exact[:, 1] - exact[:, 0], exact[:, 2] - exact[:, 0])
    depth, label, instance = (np.full(len(towards), value) for value in (FAR_M, int(Label.SKY), 0))
    start, left = np.full(len(towards), NEAR_M), np.arange(len(towards))
    for _ in range(PASSES_MAX):
        origin = (place + towards[left] * start[left, None]).astype(np.float32)
        found = world.run(origin, towards[left].astype(np.float32), output=1)
        hit = found["primID"] >= 0
        face, at = found["primID"][hit], left[hit]
        facing = np.einsum("ij,ij->i", normals[face], towards[at])
        front = facing < 0
        far = np.einsum("ij,ij->i", normals[face], exact[face, 0] - place)[front] / facing[front]
        depth[at[front]], label[at[front]] = np.minimum(far, FAR_M), labels[face[front]]
        instance[at[front]] = ids[face[front]]
        start[at[~front]] += found["tfar"][hit][~front] + 1e-3
        left = at[~front]
        if not len(left):
            break
    return tuple(array.reshape(camera.height, camera.width) for array in (depth, label, instance))


def near_edges(*pictures):
    """Pixels beside which one of the pictures changes."""
    edge = np.zeros(pictures[0].shape, bool)
    for picture in pictures:
        step = picture[1:] != picture[:-1]
        edge[1:] |= step
        edge[:-1] |= step
        step = picture[:, 1:] != picture[:, :-1]
        edge[:, 1:] |= step
        edge[:, :-1] |= step
    return edge


def test_depth_labels_and_instances_agree_with_embree():
    scene = street_scene()
    every = triangles_of(scene)
    renderer = SoftwareRenderer(1, detail=0.0)
    for camera in cameras(SEEN, 180, 120):
        frame = renderer.render(scene, [camera])[0]
        depth, label, instance = cast(*every, camera)
        same = (frame.label == label) & (frame.instance == instance) & (np.abs(frame.depth_m - depth) <= 1e-3 * depth)
        assert same.mean() >= AGREE_AT_LEAST
        assert near_edges(label, instance, np.round(depth, 1))[~same].all()
        assert np.median(np.abs(frame.depth_m - depth) / depth) < 1e-6
        assert len(np.unique(label)) >= 5
