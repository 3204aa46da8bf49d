"""The event camera: brightness that grows fires, and says when."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.core.states import Pose
from samepath.simulator.carla.blueprints import find
from samepath.simulator.sensors.events import EVENT, KIND, EventCamera, nanoseconds, whole_nanoseconds
from samepath.simulator.sensors.renderer import Camera, CameraFrame


def picture(level, width=4, height=3):
    bgra = np.full((height, width, 4), level, np.uint8)
    return CameraFrame(Camera(Pose(), width, height, 90.0), bgra=bgra)


def camera(**changes):
    return EventCamera.from_attributes({"image_size_x": 4, "image_size_y": 3, **changes})


@given(st.floats(0.0, 1e7), st.floats(1e-4, 10.0))
def test_what_a_step_lasts_never_leads_beyond_the_rounded_time_of_its_end(start_s, step_s):
    """Times of an episode are sums of 32-bit steps, exact in 64 bits: start and step are rounded to them here."""
    start_s, step_s = round(start_s * 2**20) / 2**20, round(step_s * 2**25) / 2**25
    end_s = start_s + step_s
    lasts_ns = whole_nanoseconds(end_s - start_s)
    assert 0 <= nanoseconds(end_s) - nanoseconds(start_s) - lasts_ns <= 1
    assert nanoseconds(end_s) == math.floor(Fraction(end_s) * 10**9 + Fraction(1, 2))


def test_events_are_thirteen_bytes():
    assert EVENT.itemsize == 13


def test_the_first_picture_fires_nothing_and_neither_does_a_still_one():
    eye = camera()
    assert len(eye.events(picture(50), 0)) == 0
    assert len(eye.events(picture(50), 10)) == 0


def test_as_many_events_as_thresholds_were_passed_at_the_moments_in_between():
    eye = camera(use_log="false", positive_threshold=0.1)
    eye.events(picture(0), 0)
    events = eye.events(picture(128), 1_000)
    # 128/255 is 0.502: five steps of 0.1, at 1/5.02, 2/5.02, ... of the time, in all twelve pixels.
    assert len(events) == 5 * 12
    assert (events["pol"] == 1).all()
    assert sorted(set(events["t"].tolist())) == [round(1000 * step / (128 / 25.5)) for step in range(1, 6)]
    assert (np.diff(events["t"]) >= 0).all()
    first = events[:12]
    assert [(int(event["x"]), int(event["y"])) for event in first] == [(x, y) for y in range(3) for x in range(4)]


def test_what_is_left_of_a_step_counts_for_the_next_picture():
    eye = camera(use_log="false", positive_threshold=0.1, negative_threshold=0.1)
    eye.events(picture(0), 0)
    assert len(eye.events(picture(20), 10)) == 0
    assert len(eye.events(picture(30), 20)) == 12
    darker = eye.events(picture(0), 30)
    assert len(darker) == 12
    assert (darker["pol"] == 0).all()


def test_logarithms_make_the_dark_more_sensitive():
    eye = camera()
    eye.events(picture(5), 0)
    dark = len(eye.events(picture(15), 10))
    eye.events(picture(200), 20)
    assert dark > len(eye.events(picture(210), 30)) == 0


def test_a_pixel_rests_for_its_refractory_period():
    eye = camera(use_log="false", positive_threshold=0.1, refractory_period_ns=500)
    eye.events(picture(0), 0)
    assert len(eye.events(picture(128), 1_000)) == 2 * 12


def test_noise_of_thresholds_repeats_itself():
    def events():
        eye = camera(use_log="false", positive_threshold=0.1, sigma_positive_threshold=0.05)
        eye.events(picture(0), 0)
        return eye.events(picture(128), 1_000)

    assert events().tobytes() == events().tobytes()
    assert len(set(events()["t"].tolist())) > 12


def test_payload_and_attributes_are_carlas():
    given = {attribute.id: attribute.value for attribute in find(KIND).attributes}
    eye = EventCamera.from_attributes(given, strict=True)
    assert (eye.width, eye.height, eye.values["positive_threshold"]) == (800, 600, 0.3)
    small = camera(use_log="false")
    small.events(picture(0), 0)
    events = small.events(picture(255), 7)
    assert len(small.payload(events)) == 12 + 13 * len(events)
    with pytest.raises(InputError, match="positive_threshold: a number above 0"):
        camera(positive_threshold=0)


@pytest.mark.parametrize("rest_ns", [0, 400])
def test_who_recalls_what_another_remembered_goes_on_exactly_like_it(rest_ns):
    given = {"positive_threshold": 0.07, "negative_threshold": 0.11, "refractory_period_ns": rest_ns}
    levels = [10, 60, 61, 30, 200, 5]
    whole = camera(**given)
    wanted = [whole.events(picture(level), 1_000 * number).tobytes() for number, level in enumerate(levels)]
    memory, found = b"", []
    for number, level in enumerate(levels):
        fresh = camera(**given)
        fresh.recall(memory)
        found.append(fresh.events(picture(level), 1_000 * number).tobytes())
        memory = fresh.memory()
    assert found == wanted
    assert camera().memory() == b""
    with pytest.raises(InputError, match="a memory of 12 pixels was wanted, but 5 bytes came"):
        camera().recall(b"short")
    with pytest.raises(InputError, match="levels up to 1020 were wanted, but 65535 came"):
        camera(**given).recall(memory[:8] + b"\xff" * (len(memory) - 8))


def test_too_many_events_are_refused(monkeypatch):
    monkeypatch.setattr("samepath.simulator.sensors.events.EVENTS_MOST", 100)
    eye = camera(positive_threshold=0.001)
    eye.events(picture(0), 0)
    with pytest.raises(
        InputError, match="at most 100 events between two pictures were wanted, but more came: raise the thresholds"
    ):
        eye.events(picture(255), 10)
