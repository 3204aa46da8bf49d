"""What projects inside engines tell: every line is understood or refused, and no number changes on the way."""

import base64
import struct

import numpy as np
import pytest

from samepath.core.errors import SimulatorError
from samepath.engines.subprocess.project import (
    FrameStats,
    ProjectEnd,
    ReceivedStates,
    SubprocessContact,
    TraceReader,
    first_contacts,
)

CAR = np.dtype([("real", "<f4", 2), ("command", "<f8", 1)])


def reader():
    return TraceReader("Engine", CAR, [1, 2], 5, {"over": "time is over"})


def states(step, *cars):
    return b"S " + base64.b64encode(struct.pack("<I", step) + b"".join(struct.pack("<2fd", *car) for car in cars))


def contact(*values):
    return b"C " + base64.b64encode(struct.pack("<3i3f", *values))


def test_states_come_back_as_they_were_told():
    lines = reader()
    tenth = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    assert lines.read(states(5, (tenth, 2.0, 0.1), (3.0, 4.0, -0.1))) == ReceivedStates((1,))
    assert lines.read(states(10, (5.0, 6.0, 0.0), (7.0, 8.0, 0.0))) == ReceivedStates((2,))
    cars = lines.cars()
    assert cars["real"].tolist() == [[[tenth, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]
    assert cars["command"][0].tolist() == [[0.1], [-0.1]]


def test_contacts_frames_and_ends_are_understood():
    lines = reader()
    assert lines.read(contact(6, 1, 2, 1.0, 2.0, 3.0)) == SubprocessContact(2, 1, 2, (1.0, 2.0, 3.0))
    assert lines.read(contact(5, 2, -1, 0.0, 0.0, 1.0)) == SubprocessContact(1, 2, None, (0.0, 0.0, 1.0))
    assert lines.read(b"F 70 8") == FrameStats(70, 8)
    assert lines.read(b"E over") == ProjectEnd("time is over")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello",
        b"S !!!!",
        b"S AAAA",
        states(7, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
        states(5, (0.0, 0.0, 0.0)),
        contact(5, 3, 1, 0, 0, 0),
        contact(5, -1, 1, 0, 0, 0),
        b"F 1",
        b"E else",
    ],
)
def test_any_other_line_is_refused(line):
    with pytest.raises(SimulatorError, match=r"^Engine wrote b'.*' where a state, a contact or the end was wanted$"):
        reader().read(line)


@pytest.mark.parametrize("car", [(float("nan"), 0.0, 0.0), (0.0, 0.0, float("inf"))])
def test_a_state_that_is_no_number_is_told_of(car):
    lines = reader()
    lines.read(states(5, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)))
    lines.read(states(10, (0.0, 0.0, 0.0), car))
    with pytest.raises(SimulatorError, match="at tick 2 that is not a number"):
        lines.cars()


def test_a_pair_collides_once_and_the_lower_number_felt_it():
    told = [
        SubprocessContact(0, 1, None, (1.0, 0.0, 0.0)),  # touched when the run began: no collision of this run
        SubprocessContact(7, 1, None, (1.0, 0.0, 0.0)),
        SubprocessContact(9, 2, 1, (3.0, -1.0, 0.0)),
        SubprocessContact(9, 1, 2, (-3.0, 1.0, 0.0)),
        SubprocessContact(13, 2, None, (0.0, 5.0, 0.0)),
    ]
    assert first_contacts(told) == [
        SubprocessContact(9, 1, 2, (-3.0, 1.0, -0.0)),
        SubprocessContact(13, 2, None, (0.0, 5.0, 0.0)),
    ]
