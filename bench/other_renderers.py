"""Other people's renderers on the triangles of a scene: moderngl on Mesa, panda3d's software renderer, MuJoCo's."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from samepath.core.states import Pose
from samepath.simulator.physics.frames import places_and_axes
from samepath.simulator.sensors.renderer import MeshInstances, RenderScene

FOV_DEG = 90.0
NEAR_M, FAR_M = 0.1, 1000.0


def best_cpu_s(work: Callable[[], object], rounds: int) -> float:
    """The least processor time of some rounds: on a shared machine that is what one core would take."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


@dataclass(frozen=True)
class Others:
    """What everybody draws: a scene, cameras, sizes."""

    scene: RenderScene
    poses: tuple[Pose, ...]
    sizes: tuple[tuple[int, int], ...]


def _soup(scene: RenderScene, group: MeshInstances, rows: range) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Triangles in the world with normals, colours and labels, corner by corner."""
    shapes = scene.shapes
    corners, normals, colours, labels = [], [], [], []
    for row in rows:
        mesh = group.mesh[row]
        faces = slice(shapes.first_face[mesh], shapes.first_face[mesh + 1])
        corners.append(scene.world_triangles(group, row))
        normals.append(shapes.normals[faces] @ group.axes[row].astype(np.float32))
        colours.append(np.clip(np.sqrt(shapes.colours[faces]), 0.0, 1.0))
        labels.append(shapes.labels[faces])
    return (
        np.concatenate(corners),
        np.concatenate(normals).astype(np.float32),
        np.concatenate(colours).astype(np.float32),
        np.concatenate(labels),
    )


def _whole(scene: RenderScene) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    parts = [_soup(scene, group, range(len(group))) for group in (scene.fixed, scene.moving)]
    corners, normals, colours, labels = (np.concatenate([part[k] for part in parts]) for k in range(4))
    return corners, normals, colours, labels


_VERTEX = """
#version 330
uniform mat4 view;
in vec3 place; in vec3 normal; in vec3 paint; in uint label;
out vec3 colour; flat out uint kind;
void main() {
    gl_Position = view * vec4(place, 1.0);
    colour = paint * (0.45 + 0.55 * max(dot(normal, vec3(0.35, -0.61, 0.71)), 0.0));
    kind = label;
}
"""
_FRAGMENT = """
#version 330
in vec3 colour; flat in uint kind;
layout(location = 0) out vec4 pixel; layout(location = 1) out uint what;
void main() { pixel = vec4(colour, 1.0); what = kind; }
"""


def opengl_speed(job: Others) -> list[float | None]:
    """Images per second of moderngl through EGL, all channels in one pass and read back; cars are instances of the buffer."""
    os.environ["LP_NUM_THREADS"] = "0"
    import moderngl

    context = moderngl.create_context(standalone=True, backend="egl")
    if "llvmpipe" not in context.info["GL_RENDERER"] and "softpipe" not in context.info["GL_RENDERER"]:
        raise RuntimeError(f"not a CPU: {context.info['GL_RENDERER']}")
    corners, normals, colours, labels = _whole(job.scene)
    count = len(corners)
    record = np.zeros(3 * count, [("place", "<f4", 3), ("normal", "<f4", 3), ("paint", "<f4", 3), ("label", "<u4")])
    record["place"] = corners.reshape(-1, 3)
    for name, values in (("normal", normals), ("paint", colours), ("label", labels)):
        record[name] = np.repeat(values, 3, axis=0)
    program = context.program(vertex_shader=_VERTEX, fragment_shader=_FRAGMENT)
    buffer = context.buffer(record.tobytes())
    array = context.vertex_array(program, [(buffer, "3f 3f 3f 1u", "place", "normal", "paint", "label")])
    context.enable(moderngl.DEPTH_TEST)
    speeds: list[float | None] = []
    for width, height in job.sizes:
        colour = context.texture((width, height), 4)
        kind = context.texture((width, height), 1, dtype="u1")
        depth = context.depth_texture((width, height))
        target = context.framebuffer([colour, kind], depth)
        views = [_view(pose, width, height).astype("f4").T.tobytes() for pose in job.poses]
        pixels = [bytearray(width * height * size) for size in (4, 1, 4)]

        def once(target=target, views=views, pixels=pixels) -> None:  # noqa: ANN001 - moderngl's own
            for view in views:
                program["view"].write(view)
                target.use()
                target.clear(0.6, 0.7, 0.8)
                array.render()
                target.read_into(pixels[0], components=4, attachment=0, alignment=1)
                target.read_into(pixels[1], components=1, attachment=1, dtype="u1", alignment=1)
                target.read_into(pixels[2], components=1, attachment=-1, dtype="f4", alignment=1)

        once()
        speeds.append(len(views) / best_cpu_s(once, 3))
    context.release()
    return speeds


def _view(pose: Pose, width: int, height: int) -> np.ndarray:
    """From the world to clip space."""
    (place,), (axes,) = places_and_axes([pose])
    across = 1.0 / np.tan(np.radians(FOV_DEG / 2))
    turn = np.eye(4)
    turn[0, :3], turn[1, :3], turn[2, :3] = axes[1], axes[2], -axes[0]
    move = np.eye(4)
    move[:3, 3] = -place
    lens = np.zeros((4, 4))
    lens[0, 0], lens[1, 1] = across, across * width / height
    lens[2, 2], lens[2, 3], lens[3, 2] = -(FAR_M + NEAR_M) / (FAR_M - NEAR_M), -2 * FAR_M * NEAR_M / (FAR_M - NEAR_M), -1.0
    return lens @ turn @ move


def panda_speed(job: Others) -> list[float | None]:
    """Images per second of panda3d's TinyDisplay, which needs no GL: a pass for colours, one for labels; no depth."""
    from panda3d import core

    core.loadPrcFileData("", "load-display p3tinydisplay\nnotify-level error\naux-display")
    nodes = [core.NodePath(_panda_node(core, job.scene, labels=labels)) for labels in (False, True)]
    selection = core.GraphicsPipeSelection.getGlobalPtr()
    pipe = next(
        (
            made
            for name in ("TinyOffscreenGraphicsPipe",)
            for made in [selection.makeModulePipe("p3tinydisplay") if not name else selection.makePipe(name, "p3tinydisplay")]
            if made is not None
        ),
        None,
    )
    if pipe is None:
        raise RuntimeError("panda3d has no software display here")
    engine = core.GraphicsEngine.getGlobalPtr()
    speeds: list[float | None] = []
    for width, height in job.sizes:
        picture = core.Texture()
        window = engine.makeOutput(
            pipe, "bench", 0, core.FrameBufferProperties.getDefault(), core.WindowProperties.size(width, height),
            core.GraphicsPipe.BFRefuseWindow,
        )  # fmt: skip
        if window is None:
            raise RuntimeError("panda3d cannot draw without a window here")
        window.addRenderTexture(picture, core.GraphicsOutput.RTMCopyRam)
        lens = core.PerspectiveLens()
        lens.setFov(FOV_DEG)
        lens.setAspectRatio(width / height)
        lens.setNearFar(NEAR_M, FAR_M)
        cameras = [node.attachNewNode(core.Camera("camera", lens)) for node in nodes]
        region = window.makeDisplayRegion()

        def once(cameras=cameras, region=region, picture=picture) -> None:  # noqa: ANN001 - panda3d's own
            for pose in job.poses[:8]:
                for camera in cameras:
                    # panda3d is right-handed, y forward: mirror y and turn by a quarter.
                    camera.setPosHpr(pose.x_m, -pose.y_m, pose.z_m, -90.0 - pose.yaw_deg, 0.0, 0.0)
                    region.setCamera(camera)
                    engine.renderFrame()
                    picture.getRamImage().getData()

        once()
        speeds.append(8 / best_cpu_s(once, 3))
        engine.removeWindow(window)
        for camera in cameras:
            camera.removeNode()
    return speeds


def _panda_node(core, scene: RenderScene, *, labels: bool):  # noqa: ANN001, ANN202 - panda3d's own
    corners, normals, colours, kinds = _whole(scene)
    light = 0.45 + 0.55 * np.maximum(normals @ np.array([0.35, -0.61, 0.71], np.float32), 0.0)
    shaded = (np.clip(colours * light[:, None], 0.0, 1.0) * 255).astype(np.uint8)
    if labels:
        shaded = np.repeat(kinds[:, None], 3, axis=1)
    data = core.GeomVertexData("scene", core.GeomVertexFormat.getV3c4(), core.Geom.UHStatic)
    data.uncleanSetNumRows(3 * len(corners))
    place, paint = core.GeomVertexWriter(data, "vertex"), core.GeomVertexWriter(data, "color")
    for triangle, colour in zip(corners, shaded, strict=True):
        for x, y, z in triangle[::-1]:
            place.setData3(float(x), -float(y), float(z))
            paint.setData4(*(float(value) / 255 for value in colour), 1.0)
    strip = core.GeomTriangles(core.Geom.UHStatic)
    strip.addNextVertices(3 * len(corners))
    geometry = core.Geom(data)
    geometry.addPrimitive(strip)
    node = core.GeomNode("scene")
    node.addGeom(geometry)
    return node


def mujoco_speed(job: Others) -> list[float | None]:
    """Images per second of MuJoCo's renderer on EGL: colour, depth and labels are a pass each."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    os.environ["LP_NUM_THREADS"] = "0"
    import mujoco

    corners, *_ = _whole(job.scene)
    spec = mujoco.MjSpec()
    spec.visual.map.znear, spec.visual.map.zfar = 0.0005, 5.0
    spec.visual.global_.offwidth, spec.visual.global_.offheight = (max(size[k] for size in job.sizes) for k in (0, 1))
    mirrored = (corners * np.array([1.0, -1.0, 1.0], np.float32))[:, ::-1]
    # MuJoCo wants meshes of a moderate size with some volume: pieces by place.
    order = np.argsort(mirrored[:, 0, 0] // 40.0, kind="stable")
    for number, part in enumerate(np.array_split(mirrored[order], 24)):
        points, faces = np.unique(part.reshape(-1, 3), axis=0, return_inverse=True)
        mesh = spec.add_mesh(name=f"piece{number}")
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        mesh.uservert, mesh.userface = points.ravel().tolist(), faces.ravel().tolist()
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname=f"piece{number}", contype=0, conaffinity=0)
    spec.worldbody.add_light(pos=[0, 0, 50])
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    speeds: list[float | None] = []
    for width, height in job.sizes:
        renderer = mujoco.Renderer(model, height, width)
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE

        def once(renderer=renderer, camera=camera) -> None:  # noqa: ANN001 - MuJoCo's own
            for pose in job.poses[:2]:
                camera.lookat[:] = pose.x_m, -pose.y_m, pose.z_m
                camera.distance, camera.azimuth, camera.elevation = 0.01, -pose.yaw_deg, 0.0
                renderer.update_scene(data, camera)
                renderer.render()
                renderer.enable_depth_rendering()
                renderer.render()
                renderer.disable_depth_rendering()
                renderer.enable_segmentation_rendering()
                renderer.render()
                renderer.disable_segmentation_rendering()

        once()
        speeds.append(2 / best_cpu_s(once, 2))
        renderer.close()
    return speeds
