"""Places and axes as compiled code works them out: bit for bit those that physics works with."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.core.states import Pose
from samepath.simulator.physics import frames
from samepath.simulator.sensors.raster.turning import places_and_axes

ANGLES = (0.0, -0.0, 45.0, -45.0, 89.99999999999999, 90.0, -90.0, 135.0, 180.0, -180.0, 270.0, 360.0, 1e9, -1e9, 5e-324)


@given(
    st.lists(st.tuples(*[st.one_of(st.sampled_from(ANGLES), st.floats(-1e9, 1e9), st.floats(-720.0, 720.0))] * 3), max_size=9)
)
def test_every_bit_is_that_of_physics(angles):
    poses = [Pose(1.5 * k, -k, 1e5 / (k + 1), *each) for k, each in enumerate(angles)]
    for ours, theirs in zip(places_and_axes(poses), frames.places_and_axes(poses), strict=True):
        assert ours.shape == theirs.shape
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("angle", [math.nan, math.inf, 1.1e9])
def test_angles_out_of_range_are_refused_as_by_physics(angle):
    poses = [Pose(), Pose(pitch_deg=angle)]
    with pytest.raises(InputError, match="angles within ±1e\\+09 degrees were wanted"):
        places_and_axes(poses)
    with pytest.raises(InputError, match="angles within ±1e\\+09 degrees were wanted"):
        frames.places_and_axes(poses)


def test_no_poses_have_no_places():
    place, axes = places_and_axes([])
    assert (place.shape, axes.shape, axes.dtype) == ((0, 3), (0, 3, 3), np.float64)
