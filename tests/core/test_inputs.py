"""Inputs of a run: named by their bits, in order, nothing from the future."""

import math

import pytest

from samepath.core.errors import InputError
from samepath.core.inputs import Input, InputKind, InputLog


def log_of(*entries: Input) -> InputLog:
    log = InputLog()
    for entry in entries:
        log.add(entry)
    return log


def test_equal_inputs_have_equal_names_and_any_bit_counts() -> None:
    plain = Input(3, InputKind.COMMAND, "throttle steer", 1, (0.5, 0.0), decided_step=2)
    assert log_of(plain).digest == log_of(Input(3, InputKind.COMMAND, "throttle steer", 1, (0.5, 0.0), decided_step=2)).digest
    others = [
        Input(4, InputKind.COMMAND, "throttle steer", 1, (0.5, 0.0), decided_step=2),
        Input(3, InputKind.PUSH, "throttle steer", 1, (0.5, 0.0), decided_step=2),
        Input(3, InputKind.COMMAND, "throttle brake", 1, (0.5, 0.0), decided_step=2),
        Input(3, InputKind.COMMAND, "throttle steer", 2, (0.5, 0.0), decided_step=2),
        Input(3, InputKind.COMMAND, "throttle steer", 1, (math.nextafter(0.5, 1), 0.0), decided_step=2),
        Input(3, InputKind.COMMAND, "throttle steer", 1, (0.5, -0.0), decided_step=2),
        Input(3, InputKind.COMMAND, "throttle steer", 1, (0.5, 0.0), decided_step=3),
        Input(3, InputKind.COMMAND, "throttle steer", 1, (0.5, 0.0), "x", decided_step=2),
    ]
    assert len({log_of(entry).digest for entry in (plain, *others)}) == 1 + len(others)


def test_steps_never_go_back_and_nobody_sees_ahead() -> None:
    with pytest.raises(InputError, match="came after"):
        log_of(Input(2, InputKind.STEP), Input(1, InputKind.STEP))
    with pytest.raises(InputError, match="nobody sees ahead"):
        Input(2, InputKind.COMMAND, decided_step=3)
    with pytest.raises(InputError, match="finite"):
        Input(2, InputKind.PUSH, values=(math.inf,))
