"""Sine, cosine and arc tangent against exact decimal series, and their symmetries to the bit."""

import math
import os
import subprocess
import sys
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core import trig
from samepath.core.errors import InputError

DIGITS = 60
angles = st.floats(-1e4, 1e4)
sides = st.floats(-1e6, 1e6)


def decimal_atan(x):
    halvings = 0
    while abs(x) > Decimal("0.05"):
        x = x / (1 + (1 + x * x).sqrt())
        halvings += 1
    total, power, n = Decimal(0), x, 1
    while power and abs(power) > abs(x) * Decimal(10) ** -DIGITS:
        total += power / n if n % 4 == 1 else -power / n
        power *= x * x
        n += 2
    return total * 2**halvings


def decimal_sincos(x):
    x = Decimal(x)
    turn = 8 * decimal_atan(Decimal(1))
    x -= turn * (x / turn).to_integral_value()
    sine, cosine, term, n = Decimal(0), Decimal(0), Decimal(1), 0
    while n < 80:
        cosine, sine = (cosine + term, sine) if n % 2 == 0 else (cosine, sine + term)
        n += 1
        term *= x / n * (1 if n % 2 else -1)
    return sine, cosine


def decimal_atan2(y, x):
    pi = 4 * decimal_atan(Decimal(1))
    y, x = Decimal(y), Decimal(x)
    if abs(y) > abs(x):
        return (pi if y > 0 else -pi) / 2 - decimal_atan(x / y)
    return decimal_atan(y / x) + (0 if x > 0 else (pi if y >= 0 else -pi))


def ulps_off(value, exact):
    return abs(Decimal(value) - exact) / Decimal(math.ulp(float(exact)))


@settings(max_examples=300, deadline=None)
@given(angles)
def test_sine_and_cosine_are_within_two_units_of_the_last_place(x):
    with localcontext(prec=DIGITS):
        sine, cosine = decimal_sincos(x)
        assert ulps_off(trig.sin(x), sine) <= 2
        assert ulps_off(trig.cos(x), cosine) <= 2


@settings(max_examples=300, deadline=None)
@given(sides, sides)
def test_the_arc_tangent_is_within_two_units_of_the_last_place(y, x):
    if x == 0 or y == 0:
        return
    with localcontext(prec=DIGITS):
        assert ulps_off(trig.atan2(y, x), decimal_atan2(y, x)) <= 2


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 6000), st.integers(-3, 3))
def test_multiples_of_a_quarter_turn_lose_nothing(k, steps):
    x = k * (math.pi / 2)
    for _ in range(abs(steps)):
        x = math.nextafter(x, math.inf if steps > 0 else -math.inf)
    with localcontext(prec=DIGITS):
        sine, cosine = decimal_sincos(x)
        assert ulps_off(trig.sin(x), sine) <= 2
        assert ulps_off(trig.cos(x), cosine) <= 2


@given(angles)
def test_the_c_library_agrees_within_its_own_error(x):
    assert abs(trig.sin(x) - math.sin(x)) <= 4e-16
    assert abs(trig.cos(x) - math.cos(x)) <= 4e-16


@given(angles)
def test_sine_is_odd_and_cosine_even_to_the_bit(x):
    assert trig.sin(-x).hex() == (-trig.sin(x)).hex()
    assert trig.cos(-x).hex() == trig.cos(x).hex()
    assert trig.sincos(x) == (trig.sin(x), trig.cos(x))


@given(sides, sides)
def test_the_arc_tangent_is_odd_in_y_to_the_bit(y, x):
    assert trig.atan2(-y, x).hex() == (-trig.atan2(y, x)).hex()


@pytest.mark.parametrize("y", [0.0, -0.0, 1.0, -1.0, 3.5, -3.5])
@pytest.mark.parametrize("x", [0.0, -0.0, 1.0, -1.0, 3.5, -3.5])
def test_zeros_axes_and_diagonals_follow_the_c_standard(y, x):
    assert trig.atan2(y, x).hex() == math.atan2(y, x).hex()


@pytest.mark.parametrize(
    ("y", "x"), [(5e-324, 1e308), (1.7e308, 1.7e308), (5e-324, 5e-324), (1e-310, -3e-310), (1e308, -5e-324)]
)
def test_the_arc_tangent_holds_at_the_ends_of_the_number_range(y, x):
    assert trig.atan2(y, x) == pytest.approx(math.atan2(y, x), rel=1e-15, abs=5e-324)


def test_zero_keeps_its_sign():
    assert trig.sin(0.0).hex() == "0x0.0p+0"
    assert trig.sin(-0.0).hex() == "-0x0.0p+0"
    assert trig.cos(-0.0) == 1.0


@given(st.floats(-0.8, 0.8), st.floats(0, 1e-3))
def test_sine_rises_up_to_the_quarter_turn(x, step):
    assert trig.sin(x) <= trig.sin(x + step) + math.ulp(1.0) / 4


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.1e6, -1.1e6])
def test_angles_outside_the_range_are_refused(value):
    with pytest.raises(InputError, match="wanted"):
        trig.sin(value)
    with pytest.raises(InputError, match="wanted"):
        trig.cos(value)


@pytest.mark.parametrize(
    ("y", "x"), [(math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (0.0, -math.inf), (math.nan, math.nan)]
)
def test_vectors_that_are_not_finite_are_refused(y, x):
    with pytest.raises(InputError, match="finite"):
        trig.atan2(y, x)


def test_degrees_are_exact_on_the_axes():
    for turn in range(-3, 4):
        for quarter, expected in enumerate([(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)]):
            assert trig.sincos_deg(360.0 * turn + 90.0 * quarter) == expected


@settings(deadline=None)
@given(st.floats(-3600, 3600))
def test_degrees_and_radians_agree(angle_deg):
    sine, cosine = trig.sincos_deg(angle_deg)
    with localcontext(prec=DIGITS):
        exact = decimal_sincos(Decimal(angle_deg) * 4 * decimal_atan(Decimal(1)) / 180)
        assert abs(Decimal(sine) - exact[0]) <= Decimal("4e-16")
        assert abs(Decimal(cosine) - exact[1]) <= Decimal("4e-16")
    assert trig.to_degrees(trig.to_radians(angle_deg)) == pytest.approx(angle_deg, rel=1e-15, abs=1e-300)


@given(st.floats(-1e6, 1e6))
def test_wrapped_angles_lie_in_one_turn_and_stay_there(angle_deg):
    wrapped = trig.wrap_deg(angle_deg)
    assert -180.0 <= wrapped < 180.0
    assert trig.wrap_deg(wrapped) == wrapped
    turns = (angle_deg - wrapped) / 360.0
    assert abs(turns - round(turns)) < 1e-9


@pytest.mark.parametrize(
    ("angle_deg", "wrapped"),
    [(180.0, -180.0), (-180.0, -180.0), (540.0, -180.0), (190.0, -170.0), (-190.0, 170.0), (720.0, 0.0), (359.5, -0.5)],
)
def test_angles_wrap_to_the_half_open_turn(angle_deg, wrapped):
    assert trig.wrap_deg(angle_deg) == wrapped


def test_headings_are_measured_from_x_towards_y():
    assert trig.heading_deg(1.0, 0.0) == 0.0
    assert trig.heading_deg(0.0, 2.0) == 90.0
    assert trig.heading_deg(-1.0, 0.0) == -180.0
    assert trig.heading_deg(0.0, -1.0) == -90.0


DIGEST_SCRIPT = """
import hashlib, struct
from samepath.core import trig
digest = hashlib.blake2b()
for i in range(-20000, 20000):
    x = i * 0.37 + 0.001
    digest.update(struct.pack("<3d", trig.sin(x), trig.cos(x), trig.atan2(x, 1000.0 - 0.21 * i)))
print(digest.hexdigest())
"""


def test_the_bits_do_not_depend_on_the_c_library_s_fused_paths():
    outputs = set()
    for tunables in ("", "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-FMA4"):
        environment = {**os.environ, "GLIBC_TUNABLES": tunables, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST_SCRIPT], capture_output=True, text=True, check=True, env=environment
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1
