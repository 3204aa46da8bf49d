"""The back end ``opengl``: what it draws agrees with the software one, shadows fall where geometry says, edges are smooth."""

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

from samepath.core.errors import InputError, SimulatorError, UnknownNameError
from samepath.core.states import Pose
from samepath.simulator.sensors.meshes.builder import MeshBank, MeshModel
from samepath.simulator.sensors.opengl import context
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.renderer import Camera, Channel, Material, MeshInstances, RenderScene, create_renderer
from samepath.simulator.sensors.weather import SceneWeather
from tests.support.camera_scenes import EVERYTHING, cameras, instances, shape_of, street_scene

DEPTH_WITHIN = 1e-3
AGREE_AT_LEAST = 0.99
LEVELS_WITHIN = 4.0
# The sun stands in the direction of x, as high as far: a thing two metres up throws its shadow two metres back.
SUN = SceneWeather(sun_altitude_angle=45.0, sun_azimuth_angle=0.0)


def opened(**options):
    try:
        return create_renderer("opengl", **options)
    except SimulatorError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def renderer():
    made = opened()
    yield made
    made.close()


@pytest.fixture(scope="module")
def plain():
    """Neither shadows nor smooth edges."""
    made = opened(msaa=1, shadows=False)
    yield made
    made.close()


def plate(x, y, z, half_x, half_y, label):
    """A plate that faces up."""
    a, b, c, d = (
        (x - half_x, y - half_y, z),
        (x + half_x, y - half_y, z),
        (x + half_x, y + half_y, z),
        (x - half_x, y + half_y, z),
    )
    return shape_of([(a, b, c), (a, c, d)], [label, label])


def scene_of(*things):
    """Things at the origin, each a shape, whether it throws a shadow, and an id."""
    bank = MeshBank()
    rows = [
        (bank.add(MeshModel((shape,), shadow=shape if throws else None)), Pose(), number) for shape, throws, number in things
    ]
    moving = instances(rows)
    none = MeshInstances(*(getattr(moving, name)[:0] for name in MeshInstances.__slots__))
    return RenderScene(bank.shapes(), none, moving, SUN, np.zeros((0, 4), np.float32), False)


def from_above(height_m=20.0, size=96, channels=Channel.COLOUR | Channel.LABEL, **changes):
    """A camera that looks down, and where on the ground its pixels lie."""
    camera = Camera(Pose(0.0, 0.0, height_m, pitch_deg=-90.0), size, size, 60.0, channels, **changes)
    across = (np.arange(size) + 0.5 - size / 2) / camera.focal_px * height_m
    return camera, -across[:, None] + 0.0 * across[None], across[None] + 0.0 * across[:, None]


def test_all_channels_agree_with_the_software_back_end(renderer):
    software = SoftwareRenderer(1)
    for weather in ("noon", "dusk", "night", "rain"):
        scene, eyes = street_scene(weather), cameras(width=150, height=100, vignette=0.5)
        for ours, other in zip(renderer.render(scene, eyes), software.render(scene, eyes), strict=True):
            assert (np.abs(ours.depth_m - other.depth_m) <= DEPTH_WITHIN * other.depth_m).mean() >= AGREE_AT_LEAST
            assert (ours.label == other.label).mean() >= AGREE_AT_LEAST
            assert (ours.instance == other.instance).mean() >= AGREE_AT_LEAST
            assert (np.abs(ours.normal.astype(int) - other.normal) <= 1).all(axis=-1).mean() >= AGREE_AT_LEAST
            assert (np.abs(ours.flow - other.flow) <= DEPTH_WITHIN).all(axis=-1).mean() >= AGREE_AT_LEAST
            assert np.abs(ours.bgra.mean(axis=(0, 1)) - other.bgra.mean(axis=(0, 1))).max() <= LEVELS_WITHIN
            assert (ours.bgra[..., 3] == 255).all()
            # Not only on average: most pixels have nearly the same colour.
            apart = np.abs(ours.bgra.astype(int) - other.bgra).max(axis=-1)
            assert np.median(apart) <= LEVELS_WITHIN


def test_shadows_fall_where_the_sun_cannot_reach_also_on_things(renderer, plain):
    ground = plate(0.0, 0.0, 0.0, 40.0, 40.0, 1)
    ground = replace(ground, materials=np.full(2, int(Material.ROAD), np.uint8))
    roof, table = plate(0.0, 0.0, 2.0, 2.0, 2.0, 2), plate(-3.0, 1.0, 0.5, 0.6, 0.6, 3)
    scene = scene_of((ground, False, 1), (roof, True, 2), (table, False, 3))
    camera, x, y = from_above()
    with_shadows, without = (back_end.render(scene, [camera])[0] for back_end in (renderer, plain))
    ratio = with_shadows.bgra[..., 1].astype(float) / without.bgra[..., 1]
    ground_seen = with_shadows.label == 1
    inside = np.maximum(np.abs(x + 2.0), np.abs(y)) - 2.0  # how far outside the shadow on the ground, metres
    dark, lit = ground_seen & (inside < -0.4), ground_seen & (inside > 0.4)
    assert dark.sum() > 50
    assert (ratio[dark] < 0.8).all()
    assert (ratio[lit] > 0.95).all()
    # The table stands half a metre up, within the shadow there: from 3.5 m to 0.5 m before the middle.
    on_table = (with_shadows.label == 3) & (np.abs(x / 0.975 + 3.0) < 0.4) & (np.abs(y / 0.975 - 1.0) < 0.4)
    assert on_table.sum() > 4
    assert (ratio[on_table] < 0.8).all()
    assert (ratio[with_shadows.label == 2] > 0.95).all()  # nothing shades itself


def test_edges_of_colours_are_smooth_and_labels_are_not(renderer, plain):
    bright = shape_of([((-5.0, -6.0, 1.0), (6.0, -4.0, 1.0), (3.0, 5.0, 1.0))], [2])
    bright = replace(bright, colours=np.full((1, 3), 0.9, np.float32))
    dark = replace(plate(0.0, 0.0, 0.0, 40.0, 40.0, 1), colours=np.full((2, 3), 0.02, np.float32))
    scene = scene_of((dark, False, 1), (bright, False, 2))

    def between(renderer, **changes):
        frame = renderer.render(scene, [from_above(**changes)[0]])[0]
        assert set(np.unique(frame.label)) == {1, 2}
        level = frame.bgra[..., 1].astype(int)
        low, high = level[frame.label == 1].min(), level[frame.label == 2].max()
        assert high - low > 100
        return int(((level > low + 12) & (level < high - 12)).sum()), len(np.unique(level))

    assert between(plain)[0] == 0
    some, levels = between(renderer)
    assert some > 40
    assert between(plain, samples=3)[0] > 40
    assert between(renderer, samples=3)[1] > levels


def test_many_cameras_of_all_sizes_in_one_call_see_what_each_sees_alone(renderer):
    scene = street_scene("rain")
    eyes = [
        *cameras(EVERYTHING, 40, 30),
        *cameras(Channel.LABEL, 33, 21),
        *cameras(Channel.COLOUR | Channel.NORMAL, 50, 20, samples=2),
        *cameras(Channel.DEPTH | Channel.INSTANCE, 31, 17),
    ]
    together = renderer.render(scene, eyes)
    again = renderer.render(scene, eyes, together)
    assert again is together
    for frame, eye in zip(together, eyes, strict=True):
        alone = renderer.render(scene, [eye])[0]
        for name in ("bgra", "depth_m", "label", "instance", "normal", "flow"):
            here, there = getattr(frame, name), getattr(alone, name)
            assert (here is None) == (there is None)
            assert here is None or np.allclose(here, there, rtol=1e-5, atol=2)
        if frame.label is not None:
            assert (frame.label == alone.label).all()


def test_it_may_be_used_from_any_thread_and_beside_another(renderer, plain):
    scene, eyes, found = street_scene(), cameras(Channel.LABEL, 40, 30), []
    workers = [
        threading.Thread(target=lambda back_end=back_end: found.append(back_end.render(scene, eyes)))
        for back_end in (renderer, plain)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    here = renderer.render(scene, eyes)
    assert all((a.label == b.label).all() for batch in found for a, b in zip(batch, here, strict=True))
    assert len(found) == 2
    assert renderer.render(scene, []) is not None


def test_who_draws_is_told(renderer, plain):
    assert renderer.name == "opengl"
    assert renderer.facts["gl_renderer"] and renderer.facts["gl_version"]
    assert (renderer.facts["msaa"], plain.facts["msaa"], plain.facts["shadows"]) == ("4", "1", "false")
    assert SoftwareRenderer(1).facts == {}


def test_what_is_missing_is_said_in_one_line(monkeypatch):
    with pytest.raises(UnknownNameError, match="did you mean 'opengl'"):
        create_renderer("opengll")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "moderngl", None)
        with pytest.raises(SimulatorError, match=r"^renderer 'opengl' needs moderngl: pip install 'samepath\[opengl\]'$"):
            create_renderer("opengl")
    pytest.importorskip("moderngl")
    with monkeypatch.context() as patch:
        patch.setattr(context, "find_library", lambda name: None)
        with pytest.raises(SimulatorError, match=r"needs libEGL and libGL, .* apt-get install libegl1 libgl1 libgl1-mesa-dri"):
            create_renderer("opengl")
    with monkeypatch.context() as patch:
        patch.setenv("SAMEPATH_GL_DEVICE", "first")
        with pytest.raises(
            InputError, match="SAMEPATH_GL_DEVICE: the number of an EGL device was wanted, such as 0, but 'first' came"
        ):
            create_renderer("opengl")


def test_options_out_of_range_are_refused(renderer):
    with pytest.raises(SimulatorError, match="EGL device 4000") as caught:
        create_renderer("opengl", device=4000)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="samples were wanted for the edges"):
        create_renderer("opengl", msaa=0)
    with pytest.raises(InputError, match="pixels a side were wanted here"):
        renderer.render(street_scene(), [Camera(Pose(), 1 << 20, 1, 90.0)])
    with pytest.raises(InputError, match="finite coordinates"):
        renderer.render(street_scene(), [Camera(Pose(float("nan")), 8, 8, 90.0)])
