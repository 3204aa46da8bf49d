"""What sums do not prove to the last bit is worked out exactly, angles and speeds too: engines with 64 bits have such."""

from fractions import Fraction

import numpy as np
import pytest

from samepath.instrument.analysis.exact import SpreadAccumulator
from samepath.instrument.analysis.spread import SPEED, measure
from samepath.instrument.traces.recorder import Recorder
from tests.conftest import STEP_S, cell_of

# Values as pymunk gave them: nearly all the same, apart in their last bits, and one far off.
APART = (0.8542708985161742, 0.8542708985161713, 0.8448526896553845, 0.8401158279215464, 0.8177710959592904, 0.8401158279215473)
SPEEDS = (3.1922785145639345, 3.192278514563939, 3.1922785145639385, 3.1922785145639367, 3.1922785145639367, 3.1922785145639367)


def cell():
    runs = []
    for repeat, (angle, speed) in enumerate(zip(APART, SPEEDS, strict=True)):
        recorder = Recorder(repeat, ("x_m", "y_m", "z_m", "yaw_deg", "vx_mps", "vy_mps", "vz_mps"), STEP_S)
        recorder.actor(1, "car")
        place = dict.fromkeys(("x_m", "y_m", "z_m", "vy_mps", "vz_mps"), 0.0)
        recorder.state(1, 1, {**place, "yaw_deg": angle, "vx_mps": speed})
        # On both sides of the half turn: unwrapped, these lie as close together as the first.
        recorder.state(2, 1, {**place, "yaw_deg": 180.0 - speed / 1e3 if repeat % 2 else -180.0 + speed / 1e3, "vx_mps": speed})
        recorder.end(2, "done")
        runs.append(recorder.finish())
    return cell_of(runs, channels=runs[0].channels)


def variance(values):
    numbers = [Fraction(value) for value in values]
    mean = sum(numbers) / len(numbers)
    return float(sum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1))


def test_sums_do_not_prove_these_columns():
    sums = SpreadAccumulator(2)
    rows = np.array([APART, SPEEDS]).T
    for part in (rows[:2], *rows[2:, None]):
        sums.add(part, None)
    assert sums.result().uncertified.tolist() == [0, 1]


def test_angles_and_speeds_are_worked_out_exactly():
    spread = measure(cell(), sizes=range(2, 6))
    assert spread.channels["yaw_deg"].variance[0] == variance(APART)
    assert spread.channels[SPEED].variance[0] == variance(SPEEDS)
    assert spread.channels["yaw_deg"].sigma[1] == pytest.approx(0.0035, rel=0.01)
    assert all(channel.uncertified.size == 0 for channel in spread.channels.values())
