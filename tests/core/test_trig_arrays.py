"""Functions of arrays: the bits of those for numbers, or the right value to a few units in the last place."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core import trig, trig_arrays
from samepath.core.errors import InputError


@given(st.lists(st.floats(-1e9, 1e9) | st.integers(-720, 720).map(lambda quarter: quarter * 45.0), min_size=1))
def test_sines_and_cosines_have_the_bits_of_single_numbers(angles_deg):
    sine, cosine = trig_arrays.sincos_deg(np.array(angles_deg))
    expected = np.array([trig.sincos_deg(angle_deg) for angle_deg in angles_deg])
    assert sine.tobytes() == expected[:, 0].tobytes()
    assert cosine.tobytes() == expected[:, 1].tobytes()


SPECIAL = st.sampled_from([0.0, -0.0, 5e-324, -1e-300])
PARTS = st.floats(-1e308, 1e308) | st.floats(-2, 2) | st.integers(-8, 8).map(float) | SPECIAL


@given(st.lists(st.tuples(PARTS, PARTS), min_size=1))
def test_arc_tangents_have_the_bits_of_single_numbers(vectors):
    x, y = np.array(vectors).T
    expected = np.array([trig.atan2(b, a) for a, b in vectors])
    assert trig_arrays.atan2(y, x).tobytes() == expected.tobytes()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_arc_tangents_of_what_is_no_vector_are_refused(bad):
    with pytest.raises(InputError, match="finite vectors"):
        trig_arrays.atan2(np.array([1.0, bad]), np.array([1.0, 1.0]))


def errors_ulp(found, exact, xs):
    with localcontext() as context:
        context.prec = 60
        wanted = [exact(Decimal(float(x))) for x in xs]
        spacings = [Decimal(float(np.spacing(abs(float(value))))) for value in wanted]
        return max(abs(Decimal(float(a)) - b) / s for a, b, s in zip(found, wanted, spacings, strict=True))


def test_exponentials_are_right_to_two_units_in_the_last_place():
    xs = np.concatenate([np.linspace(-700, 700, 301), np.linspace(-1, 1, 301), [0.0, -0.0, 1e-300]])
    assert errors_ulp(trig_arrays.exp(xs), Decimal.exp, xs) < 2
    assert trig_arrays.exp(np.zeros(1))[0] == 1.0


def test_logarithms_are_right_to_three_units_in_the_last_place():
    xs = np.concatenate([np.linspace(1e-6, 1.0, 501)[:-1], np.geomspace(1e-300, 1e300, 301), [math.nextafter(1.0, 0), 1.5]])
    assert errors_ulp(trig_arrays.log(xs), Decimal.ln, xs) < 3
    assert trig_arrays.log(np.ones(1))[0] == 0.0


@pytest.mark.parametrize(
    ("function", "value"),
    [(trig_arrays.exp, 701.0), (trig_arrays.exp, math.nan), (trig_arrays.log, 0.0), (trig_arrays.log, math.inf),
     (trig_arrays.sincos_deg, math.nan), (trig_arrays.sincos_deg, 2e9)],
)  # fmt: skip
def test_what_has_no_answer_is_refused(function, value):
    with pytest.raises(InputError):
        function(np.array([value]))
