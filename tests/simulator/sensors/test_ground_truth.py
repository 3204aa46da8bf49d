"""Boxes of actors: in the world, before a camera, and in its picture."""

import numpy as np
import pytest

from samepath.core.catalogue import actor_type
from samepath.core.states import Pose
from samepath.simulator.physics.frames import attached_pose, point_from, point_to
from samepath.simulator.sensors.ground_truth import before_camera, box_of, visible_boxes
from samepath.simulator.sensors.renderer import Camera

CAR = actor_type("vehicle.tesla.model3")


def test_the_box_of_a_car_stands_on_its_origin():
    box = box_of(CAR, Pose(10.0, 5.0, 1.0, yaw_deg=90.0))
    assert box.extent_m == (CAR.length_m / 2, CAR.width_m / 2, CAR.height_m / 2)
    corners = np.array(box.corners_m)
    np.testing.assert_allclose(corners.min(axis=0), [10 - CAR.width_m / 2, 5 - CAR.length_m / 2, 1.0], atol=1e-9)
    np.testing.assert_allclose(corners.max(axis=0), [10 + CAR.width_m / 2, 5 + CAR.length_m / 2, 1 + CAR.height_m], atol=1e-9)
    # The first is at the rear left, at the bottom: heading along +y, left is +x.
    np.testing.assert_allclose(corners[0], [10 + CAR.width_m / 2, 5 - CAR.length_m / 2, 1.0], atol=1e-9)


def test_the_box_of_a_walker_is_about_its_middle():
    walker = actor_type("walker.pedestrian.0001")
    corners = np.array(box_of(walker, Pose(0.0, 0.0, 1.0)).corners_m)
    assert corners[:, 2].min() == pytest.approx(1.0 - walker.height_m / 2)
    assert corners[:, 2].max() == pytest.approx(1.0 + walker.height_m / 2)


def test_a_box_straight_ahead_is_projected_by_its_near_face():
    camera = Camera(Pose(0.0, 0.0, CAR.height_m / 2), 200, 100, 90.0)
    found = before_camera(box_of(CAR, Pose(20.0)), camera)
    assert found.centre_m == pytest.approx((20.0, 0.0, 0.0))
    near_m = 20.0 - CAR.length_m / 2
    half_px = 100.0 * CAR.width_m / 2 / near_m
    high_px = 100.0 * CAR.height_m / 2 / near_m
    assert found.projected_px == pytest.approx((100 - half_px, 50 - high_px, 100 + half_px, 50 + high_px))


def test_a_box_beside_the_camera_has_no_projection():
    camera = Camera(Pose(0.0, 0.0, 1.0), 200, 100, 90.0)
    assert before_camera(box_of(CAR, Pose(0.5, 5.0)), camera).projected_px is None
    assert before_camera(box_of(CAR, Pose(-20.0)), camera).centre_m[0] == pytest.approx(-20.0)


def test_what_is_seen_is_counted_and_boxed():
    image = np.zeros((6, 8), np.uint16)
    image[2:4, 3:6] = 7
    image[5, 0] = 7
    image[0, 7] = 65535  # something static
    image[1, 1] = 70_000 % 65536
    found = visible_boxes(image, [7, 9, 70_000])
    assert list(found) == [7, 70_000]
    assert (found[7].box_px, found[7].visible_px) == ((0, 2, 6, 6), 7)
    assert (found[70_000].box_px, found[70_000].visible_px) == ((1, 1, 2, 2), 1)


def test_what_is_fixed_to_an_actor_moves_and_turns_with_it():
    parent = Pose(10.0, -3.0, 0.5, yaw_deg=90.0)
    found = attached_pose(parent, Pose(2.0, 0.0, 1.5))
    assert found[:3] == pytest.approx((10.0, -1.0, 2.0))
    assert found[3:] == parent[3:]
    turned = attached_pose(parent, Pose(0.0, 0.0, 0.0, yaw_deg=45.0, pitch_deg=-10.0))
    assert (turned.yaw_deg, turned.pitch_deg) == pytest.approx((135.0, -10.0))
    point = (1.0, 2.0, 3.0)
    assert point_to(found, point_from(found, point)) == pytest.approx(point)
