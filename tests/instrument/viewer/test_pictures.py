"""Pictures of a camera in the viewer: of the repeat and tick that were asked for; kept in a file, within bounds."""

import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from samepath.core.errors import InputError
from samepath.core.states import Pose
from samepath.engines.samepath.looking import mounted
from samepath.instrument.progress import Display
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.viewing import View, _Drawn
from tests.conftest import cell_of

CHANNELS = ("x_m", "y_m", "z_m", "yaw_deg")


def run(repeat, apart_m=0.0):
    """A car along the t-junction's street; in another repeat it is beside it from tick 10 on."""
    recorder = Recorder(repeat, CHANNELS, 0.05)
    recorder.actor(7, "vehicle.somebody.elses")
    for tick in range(20):
        shift = apart_m if tick >= 10 else 0.0
        recorder.state(tick, 7, {"x_m": -4.5 - 0.5 * tick, "y_m": -4.7 + shift, "z_m": 0.0, "yaw_deg": -158.0})
    recorder.end(19, "done")
    return recorder.finish()


@pytest.fixture(scope="module")
def view():
    cell = cell_of([run(0), run(1, 2.0)], channels=CHANNELS, step_s=0.05)
    return View("two", [_Drawn(cell, "t-junction"), _Drawn(cell, None)], None, Display())


def picture(view, **fields):
    data = view.picture({"cell": "0", "repeat": "0", "tick": "12", "from": "above", "actor": "7", **fields})
    assert data.startswith(b"\xff\xd8")
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def differs(one, other):
    return float(np.abs(one - other).mean())


def test_a_picture_is_that_of_its_repeat_tick_and_camera(view):
    free = {"x": "-10", "y": "-6", "z": "30", "pitch": "-90"}
    first = view.picture({"cell": "0", "repeat": "0", "tick": "12", **free})
    same = view.picture({"cell": "0", "repeat": "0", "tick": "12", **free})
    assert same == first
    other = view.picture({"cell": "0", "repeat": "1", "tick": "12", **free})
    before = view.picture({"cell": "0", "repeat": "1", "tick": "5", **free})
    assert len({same, other, before}) == 3
    # Before they part both repeats are one picture, byte by byte.
    assert before == view.picture({"cell": "0", "repeat": "0", "tick": "5", **free})
    with_car, without = picture(view, **{"from": "behind"}), picture(view, **{"from": "ahead"})
    assert with_car.shape == (360, 640, 3)
    assert differs(with_car, without) > 1.0


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"cell": "9"}, "cell: a number from 0 to 1 was wanted"),
        ({"cell": "1"}, "a map of samepath's was wanted"),
        ({"repeat": "5"}, "has no repeat 5"),
        ({"tick": "x"}, "tick: a number"),
        ({"tick": "-3"}, "begins at tick 0"),
        ({"actor": "8"}, "actor 8 is not there"),
        ({"from": "<b>"}, "a camera behind or ahead or above of an actor was wanted"),
        ({"from": None, "x": "nan", "y": "0", "z": "0"}, "x: a number"),
        ({"from": None, "x": "1e9", "y": "0", "z": "0"}, "x: a number"),
    ],
)
def test_nonsense_is_one_line(view, fields, told):
    asked = {"cell": "0", "repeat": "0", "tick": "12", "from": "above", "actor": "7", **fields}
    with pytest.raises(InputError, match=re.escape(told)):
        view.picture({name: value for name, value in asked.items() if value is not None})


def test_a_file_keeps_so_many_pictures_of_each_cell_and_not_too_many(view, tmp_path):
    page = view.write(tmp_path / "view.html", pictures=3)
    index = json.loads(re.search(r'id="index">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)[1])
    kept, none = index["pictures"]
    assert none == []  # no map, no picture
    assert len(kept) == 3
    assert {(listed["tick"], listed["repeat"]) for listed in kept} >= {(10, 0), (10, 1)}  # where they part, both of them
    with pytest.raises(InputError, match="at most 200 in one file were wanted"):
        view.write(tmp_path / "view.html", pictures=101)


def test_a_camera_goes_with_its_actor():
    behind = mounted(Pose(10.0, 20.0, 1.0, yaw_deg=90.0), "behind")
    assert (behind.x_m, behind.y_m, behind.z_m, behind.yaw_deg) == pytest.approx((10.0, 12.0, 4.6, 90.0))
    assert mounted(Pose(), "above").pitch_deg == -90.0
