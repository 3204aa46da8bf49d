"""The language of assertions: its meaning against a naive reading of temporal logic, its errors by the word they point at."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import SamepathError
from samepath.instrument.monitors.expression import FUNCTIONS, TEMPORAL, over_window, parse
from samepath.instrument.monitors.monitor import Monitor, MonitorSet, watch_cell
from samepath.instrument.monitors.view import MonitoredScene
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header

STEP_S = 0.5
SCENE = MonitoredScene({"lorry": 2})


def cell_of(*columns, channel="level_ratio"):
    """A cell with one repeat per column of values of actor 1."""
    repeats = []
    for number, values in enumerate(columns):
        recorder = Recorder(number, ("x_m", "y_m", channel), STEP_S)
        recorder.actor(1, "car")
        for tick, value in enumerate(values):
            known = {} if math.isnan(value) else {channel: float(value)}
            recorder.state(tick, 1, {"x_m": float(tick), "y_m": 0.0, **known})
        recorder.end(len(values), "done")
        repeats.append(recorder.finish())
    return MemoryCell(Header("test", "cell", "s", ("x_m", "y_m", channel), STEP_S), repeats)


def verdict(text, *columns):
    monitor = Monitor("it", parse(text, SCENE))
    (trace,) = watch_cell(cell_of(*columns), MonitorSet((monitor,), SCENE, covers=False)).traces
    assert not trace.not_applicable, trace.not_applicable
    return [(judged.passes, judged.margin) for judged in trace.verdicts]


@pytest.mark.parametrize(
    ("text", "values", "passes", "margin"),
    [
        ("level_ratio(1) > 1", [3, 2, 4], True, 1),
        ("level_ratio(1) > 2", [3, 2, 4], False, 0),
        ("level_ratio(1) >= 2", [3, 2, 4], True, 0),
        ("1 < level_ratio(1) < 5", [3, 2, 4], True, 1),
        ("level_ratio(1) < 3 or level_ratio(1) > 3.5", [2, 5], True, 1),
        ("not level_ratio(1) > 6", [2, 5], True, 1),
        ("level_ratio(1) == 2", [2, 2], True, 0),
        ("level_ratio(1) != 2", [5, 3], True, 1),
        ("eventually(level_ratio(1) > 4)", [1, 5, 1], True, 1),
        ("eventually(level_ratio(1) > 4, 0, 0.4)", [1, 5, 1], False, -3),
        ("eventually(level_ratio(1) > 4, 0.5, 1)", [1, 5, 1], True, 1),
        ("always(eventually(level_ratio(1) > 4, 0, 0.5))", [1, 5, 1, 5], True, 1),
        ("until(level_ratio(1) < 3, level_ratio(1) > 4)", [1, 2, 5, 0], True, 1),
        ("until(level_ratio(1) < 3, level_ratio(1) > 4)", [1, 3.5, 5, 0], False, -0.5),
        ("until(level_ratio(1) < 3, level_ratio(1) > 4, 0.5)", [1, 2, 5, 0], False, -2),
        ("implies(level_ratio(1) > 4, once(level_ratio(1) < 0.5, 1))", [0, 1, 5, 1], True, 0.5),
        ("historically(level_ratio(1) < 6)", [1, 5], True, 1),
        ("abs(level_ratio(1) - 3) <= 2", [1, 4], True, 0),
        ("max(level_ratio(1), 2) < 3*2", [1, 5], True, 1),
        ("rate(x_m(1)) < 3", [0, 0, 0], True, 1),
        ("time() <= 1", [0, 0, 0], True, 0),
        ("events('bang') < 1", [0, 0], True, 1),
        ("always(level_ratio(1) < 5) and eventually(level_ratio(1) > 1)", [1, 4], True, 1),
    ],
)
def test_an_expression_means_what_it_says(text, values, passes, margin):
    ((found, found_margin),) = verdict(text, values)
    assert found is passes
    assert found_margin == pytest.approx(margin, abs=1e-12)


def naive(values, times, first, last, best):
    """A window, read as it is defined."""
    found = []
    for t in times:
        inside = [
            v for v, u in zip(values, times, strict=True) if t + first - 1e-9 <= u <= t + last + 1e-9 and not math.isnan(v)
        ]
        found.append(best(inside) if inside else math.nan)
    return found


@given(
    values=st.lists(st.floats(-9, 9) | st.just(math.nan), min_size=1, max_size=40),
    first=st.integers(-8, 8),
    length=st.integers(0, 12),
    smallest=st.booleans(),
)
def test_windows_are_those_of_the_definition(values, first, length, smallest):
    times = [0.5 * index for index in range(len(values))]
    found = over_window(np.array([values]), np.array(times), 0.5 * first, 0.5 * (first + length), smallest=smallest)
    np.testing.assert_array_equal(found[0], naive(values, times, 0.5 * first, 0.5 * (first + length), min if smallest else max))


def until_by_definition(p, q):
    return max(min(q[later], *(p[k] for k in range(later)), math.inf) for later in range(len(q)))


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=15))
def test_until_is_that_of_the_definition(pairs):
    p, q = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    recorder = Recorder(0, ("x_m", "y_m", "p_ratio", "q_ratio"), STEP_S)
    recorder.actor(1, "car")
    for tick, (a, b) in enumerate(pairs):
        recorder.state(tick, 1, {"x_m": 0.0, "y_m": 0.0, "p_ratio": a, "q_ratio": b})
    recorder.end(len(pairs), "done")
    cell = MemoryCell(Header("test", "cell", "s", ("x_m", "y_m", "p_ratio", "q_ratio"), STEP_S), [recorder.finish()])
    monitor = Monitor("it", parse("until(p_ratio(1) > 0, q_ratio(1) > 0)", SCENE))
    (trace,) = watch_cell(cell, MonitorSet((monitor,), SCENE, covers=False)).traces
    assert trace.verdicts[0].margin == until_by_definition(p, q)


def test_moments_without_a_number_are_passed_over():
    ((passes, margin),) = verdict("level_ratio(1) > 1", [3, math.nan, 2])
    assert (passes, margin) == (True, 1)


def test_a_repeat_without_any_number_has_no_verdict():
    ((passes, _),) = verdict("level_ratio(1) > 1", [math.nan, math.nan])
    assert passes is None


@pytest.mark.parametrize(
    ("text", "column", "word", "says"),
    [
        ("spede(1) < 3", 1, "spede", "did you mean 'speed'"),
        ("speed(egoo) < 3", 7, "egoo", "did you mean 'ego'"),
        ("speed(1) < 3 and tcc(1, 2) > 1", 18, "tcc", "did you mean 'ttc'"),
        ("speed(1)", 1, "speed(1)", "a comparison was wanted"),
        ("speed(1) < ttc(1, 2)", 1, "speed(1) < ttc(1, 2)", "m/s and s"),
        ("speed(1, 2) < 3", 1, "speed(1, 2)", "2 arguments came"),
        ("speed(1.5) < 3", 7, "1.5", "takes an actor"),
        ("distance_to(1, x, 2) < 3", 16, "x", "unknown name"),
        ("speed(1) < 3 <", 15, "the end", "an expression was wanted"),
        ("__import__('os') < 3", 1, "__import__", "unknown function"),
        ("speed(1).real < 3", 1, "speed(1).real", "cannot be part"),
        ("[x for x in y] < 3", 1, "[x for x in y]", "cannot be part"),
        ("(lambda: 1)() < 3", 1, "(lambda: 1)()", "cannot be part"),
        ("speed(actor=1) < 3", 7, "actor=1", "without names"),
        ("always(speed(1) < 3, 5, 2)", 1, "always(speed(1) < 3, 5, 2)", "a time span"),
        ("always(speed(1) < 3) and speed(1) > 1", 26, "speed(1) > 1", "say of this too"),
        ("speed(1) < 1/0", 12, "1/0", "no finite number"),
        ("speed < 3", 1, "speed", "write speed(...)"),
        ("speed(1) < 3 m", 14, "m", "an expression was wanted"),
        ("speed(1) in 3", 1, "speed(1) in 3", "was wanted between two numbers"),
        ("ttc(1, 2) > True", 13, "True", "a number or a comparison"),
        ("speed(1) < 3 ü", 14, "ü", "plain letters"),
    ],
)
def test_a_bad_expression_is_one_line_that_points_at_the_word(text, column, word, says):
    with pytest.raises(SamepathError) as error:
        parse(text, SCENE)
    message = str(error.value)
    assert message.startswith(f"column {column}, at "), message
    assert word[:37] in message
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "text", ["(" * 300 + "1" + ")" * 300, "-" * 300 + "1 < 2", "1 < 2 and " * 190 + "1 < 2", "x" * 3000, "", "1 <"]
)
def test_what_is_too_deep_too_long_or_empty_is_refused_in_a_line(text):
    with pytest.raises(SamepathError) as error:
        parse(text, SCENE)
    assert "\n" not in str(error.value)


@given(st.text(alphabet="speedtc(1,2)<>=+-*/. andor'not_m\n", max_size=40))
def test_any_text_is_a_formula_or_one_line(text):
    try:
        parse(text, SCENE)
    except SamepathError as error:
        assert "\n" not in str(error)


def test_every_word_of_the_language_is_documented():
    from tests.support import ROOT

    page = (ROOT / "docs" / "monitors.md").read_text("utf-8")
    for word in (*FUNCTIONS, *TEMPORAL):
        assert f"`{word}(" in page, word
