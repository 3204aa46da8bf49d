r"""Sample variance that can be trusted to the last bit.

``numpy.var`` rounds its mean, so a thousand *identical* positions of 100 m get a "deviation" of 1e-13 m or so; the noise
floors published for driving simulators are this rounding. Here the result is within one unit in the last place (ulp) of
what exact rational arithmetic gives, and identical values give exactly 0.0.

How, at about twice the time of ``numpy.var`` and in one streaming pass:

1. Shift by the first value seen, :math:`d_i = x_i - x_0`. Because :math:`x_0` is itself in the sample,
   :math:`\sum (d_i - \bar d)^2 \ge \tfrac12 \max d_i^2`: no catastrophic cancellation can follow, whatever the offset.
   Where the subtraction is not exact (Sterbenz's lemma does not apply) its rounding error is carried along.
2. Scale each column by a power of two so that :math:`\max |d| < 1`, and split :math:`d = s + r` with :math:`s` a whole
   multiple of :math:`2^{-22}`. Then :math:`\sum s` and :math:`\sum s^2` over 256 rows are exact in float64 (44 + 8 bits),
   and :math:`d^2 - s^2 = (d + s) r` is so small that plain float64 sums of it are good enough - which is not hoped but
   proved per column by an error bound (see ``_SQUARE_ERROR``).
3. Add the sums of each 256 rows to double-double totals (106 bits), from which variance, deviation and mean are rounded.

Why so exact: «sigma is 0» is a claim that no rounding may make or break, and a noise floor of our own would be reported as the
simulator's. Why not simply fractions: they are far slower, and a study has up to a billion numbers.

Why it is right: steps 1 and 2 lose nothing that the bound does not cover. Sums of :math:`s` and :math:`s^2` are exact, because
they are whole multiples of a power of two with fewer than 53 bits; only sums over :math:`r`, 2**-23 of the whole, are rounded.
By step 1 the sum of squares is at least half of the largest square, so that an absolute error far below it is a relative error
far below an ulp. :meth:`SpreadAccumulator._is_certain` checks that inequality for every column with the numbers at hand.

When it falls back: a column whose bound does not prove the last bit (never seen outside tests: it needs overflow or millions of
adversarial repeats) is named in ``Spread.uncertified``; :func:`exact_columns` works it out by rational arithmetic.

References: Dekker 1971; Sterbenz 1974; Rump, Ogita, Oishi 2008 (accurate summation by splitting); Chan, Golub, LeVeque 1983.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_LARGEST: Final = 2.0**1020
# Rows at a time: squares of 22-bit numbers have 44 bits, sums of 2**8 of them 52, and float64 holds 53.
_ROWS: Final = 256
# Shorter rows of additions lose less: this is the 64 in the bounds below.
_SUMMED_ROWS: Final = 64
# With 256 rows of float64 each of the three working arrays has 2 MiB, however wide a study is.
_COLUMNS: Final = 1024
# Adding and subtracting this leaves the multiple of 2**-22 nearest to a number of size at most 1.
_SPLITTER: Final = 1.5 * 2.0**30
# Bound of the error of the sum of (d + s) r over one chunk of 256 rows, |d|, |s| <= 1, |r| <= 2**-23, u = 2**-53: rows are
# summed 64 at a time and then these four, which loses at most 66 u * 256 * 2**-22 < 2**-60.9; the terms themselves are
# off by at most 2**-76 + 2**-75 each, together below 2**-66.
_SQUARE_ERROR: Final = 2.0**-60.5
# The same for the sum of r over one chunk: 66 u * 256 * 2**-23.
_LINEAR_ERROR: Final = 2.0**-61.5
# A double-double operation is good to 2**-102 or better; totals see a few of them per chunk.
_TOTAL_ERROR: Final = 2.0**-98


@dataclass(frozen=True)
class Spread:
    """What a sample of repeats says of each column; every array has one entry per column.

    ``count`` is the number of values present. Where it is 0 everything else is NaN; where it is 1 variance and sigma are
    NaN (a single value has no sample variance), the rest is defined. Variance and sigma are within one ulp; mean and
    max_deviation within one ulp of their own or 2**-58 of the range, whichever is larger.
    """

    count: Ints
    mean: Floats
    variance: Floats
    sigma: Floats
    min: Floats
    max: Floats
    max_deviation: Floats
    range: Floats
    uncertified: Ints


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    # Knuth's: right whichever of the two is larger, so that no column needs a branch.
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Floats, b: Floats | float) -> tuple[Floats, Floats]:
    # Dekker's, with Veltkamp's split by 2**27 + 1 into halves whose products are exact: numpy has no fused multiply-add.
    product = a * b
    a_big = a * 134217729.0
    a_high = a_big - (a_big - a)
    a_low = a - a_high
    b_big = b * 134217729.0
    b_high = b_big - (b_big - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _add(high: Floats, low: Floats, value: Floats) -> tuple[Floats, Floats]:
    total, error = _two_sum(high, value)
    return _two_sum(total, error + low)


def _divide(high: Floats, low: Floats, divisor: Floats) -> tuple[Floats, Floats]:
    quotient = high / divisor
    product, error = _two_product(quotient, divisor)
    return _two_sum(quotient, ((high - product) - error + low) / divisor)


def _sum_rows(values: Floats) -> Floats:
    """Sum rows 64 at a time, then these sums: the order that ``_SQUARE_ERROR`` speaks of."""
    total: Floats = np.add.reduce(values[:_SUMMED_ROWS], axis=0)
    for row in range(_SUMMED_ROWS, values.shape[0], _SUMMED_ROWS):
        total += np.add.reduce(values[row : row + _SUMMED_ROWS], axis=0)
    return total


class SpreadAccumulator:
    """Streams blocks of repeats, rows = repeats, and keeps what :class:`Spread` needs: memory does not grow with repeats."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._count = np.zeros(columns, np.int64)
        self._first = np.zeros(columns)
        self._min = np.full(columns, np.inf)
        self._max = np.full(columns, -np.inf)
        self._exponent = np.full(columns, -5000, np.int64)  # of the scale; below any real one until a difference is seen
        self._sum = np.zeros((2, columns))
        self._squares = np.zeros((2, columns))
        self._chunks = np.zeros(columns)
        self._overflowed = np.zeros(columns, np.bool_)
        self._difference = np.empty((_ROWS, _COLUMNS))
        self._coarse = np.empty((_ROWS, _COLUMNS))
        self._product = np.empty((_ROWS, _COLUMNS))

    def add(self, values: Floats, present: Bools | None = None) -> None:
        """Take a block of ``values[repeat, column]``; where ``present`` is False the value does not exist."""
        if values.ndim != 2 or values.shape[1] != self._columns:
            raise ValueError(f"a block of shape (repeats, {self._columns}) was wanted, but {values.shape} came")
        for start in range(0, self._columns, _COLUMNS):
            part = slice(start, min(start + _COLUMNS, self._columns))
            for row in range(0, values.shape[0], _ROWS):
                rows = slice(row, row + _ROWS)
                self._add_chunk(part, values[rows, part], None if present is None else present[rows, part])

    def _add_chunk(self, part: slice, values: Floats, present: Bools | None) -> None:
        count = self._count[part]
        new = count == 0
        if present is None:
            if new.any():
                self._first[part] = np.where(new, values[0], self._first[part])
            count += values.shape[0]
        else:
            if new.any():
                # The first value that is there: any would do for the proof, but the same one must be taken for all blocks to
                # come.
                candidate = values[present.argmax(axis=0), np.arange(values.shape[1])]
                self._first[part] = np.where(new & present.any(axis=0), candidate, self._first[part])
            count += present.sum(axis=0)
            # An absent value adds nothing: it stands for the first one, whose difference is zero.
            values = np.where(present, values, self._first[part])
        first = self._first[part]
        low = np.minimum.reduce(values, axis=0)
        high = np.maximum.reduce(values, axis=0)
        some = count > 0
        np.minimum(self._min[part], low, out=self._min[part], where=some)
        np.maximum(self._max[part], high, out=self._max[part], where=some)
        with np.errstate(over="ignore", invalid="ignore"):
            largest = np.maximum(high - first, first - low)
        # Nothing but the first value: all sums stay as they are, and identical repeats cost next to nothing.
        if not largest.any():
            return
        # Near the end of float64's range sums of a few values overflow: such columns are left to fractions.
        finite = np.maximum(np.abs(low), np.abs(high)) < _LARGEST
        if not finite.all():
            self._overflowed[part] |= ~finite
            values = np.where(finite, values, first)
            largest = np.where(finite, largest, 0.0)
            low, high = np.where(finite, low, first), np.where(finite, high, first)
        self._add_sums(part, values, first, largest, exact=self._differences_are_exact(first, low, high))

    @staticmethod
    def _differences_are_exact(first: Floats, low: Floats, high: Floats) -> bool:
        """Sterbenz: x - first is exact when both have one sign and neither is more than twice the other."""
        smallest = np.minimum(np.abs(low), np.abs(high))
        largest = np.maximum(np.abs(low), np.abs(high))
        one_sign = (low >= 0) == (high >= 0)
        with np.errstate(over="ignore"):
            near = (np.abs(first) <= 2 * smallest) & (largest <= 2 * np.abs(first))
        return bool(np.all((one_sign & near) | ((low == first) & (high == first))))

    def _add_sums(self, part: slice, values: Floats, first: Floats, largest: Floats, *, exact: bool) -> None:
        rows, columns = values.shape
        difference = self._difference[:rows, :columns]
        coarse = self._coarse[:rows, :columns]
        product = self._product[:rows, :columns]
        exponent = np.frexp(largest)[1].astype(np.int64)
        np.subtract(values, first, out=difference)
        error = None
        # The rounding error of the subtraction, itself exact (Knuth's two-sum); scaled like the difference it belongs to.
        if not exact:
            other = difference - values
            error = (values - (difference - other)) - (first + other)
            error = np.ldexp(error, -exponent)
        # 2**-exponent is a normal number here: a product with it gives what ``ldexp`` gives, some 20 times quicker.
        if int(exponent.min()) > -1000 and int(exponent.max()) < 1000:
            np.multiply(difference, np.ldexp(1.0, -exponent), out=difference)
        else:
            np.ldexp(difference, -exponent, out=difference)
        # Three arrays are used over and over, so the order is what it is: d + s must be taken before d gives way to r.
        np.add(difference, _SPLITTER, out=coarse)
        np.subtract(coarse, _SPLITTER, out=coarse)
        np.add(difference, coarse, out=product)
        fine = np.subtract(difference, coarse, out=difference)
        if error is not None:
            np.add(fine, error, out=fine)
        # Exact, in whatever order numpy adds; only the fine sums need the order that their bound speaks of.
        sum_coarse = np.add.reduce(coarse, axis=0)
        sum_fine = _sum_rows(fine)
        squares_fine = _sum_rows(np.multiply(product, fine, out=product))
        squares_coarse = np.add.reduce(np.multiply(coarse, coarse, out=coarse), axis=0)
        self._add_to_totals(part, exponent, largest, (sum_coarse, sum_fine), (squares_coarse, squares_fine))

    def _add_to_totals(
        self, part: slice, exponent: Ints, largest: Floats, sums: tuple[Floats, Floats], squares: tuple[Floats, Floats]
    ) -> None:
        """Bring totals and new sums to the larger of both scales (a power of two: exact), then add in double-double."""
        old = self._exponent[part]
        common = np.where(largest > 0, np.maximum(old, exponent), old)
        lower_old = old - common
        lower_new = np.where(largest > 0, exponent - common, 0)
        total = self._sum[:, part]
        total_squares = self._squares[:, part]
        if lower_old.any():
            total[:] = np.ldexp(total, lower_old)
            total_squares[:] = np.ldexp(total_squares, 2 * lower_old)
        for value in sums:
            total[:] = _add(total[0], total[1], np.ldexp(value, lower_new))
        for value in squares:
            total_squares[:] = _add(total_squares[0], total_squares[1], np.ldexp(value, 2 * lower_new))
        self._exponent[part] = common
        # The bound grows with the chunks that were rounded, and one without a difference was not.
        self._chunks[part] += largest > 0

    def result(self) -> Spread:
        """Round what has been seen so far; more blocks may follow."""
        count = self._count.astype(np.float64)
        several = self._count > 1
        safe = np.where(several, count, 2.0)
        exponent = np.where(self._exponent > -5000, self._exponent, 0)
        mean_high, mean_low = _divide(self._sum[0], self._sum[1], np.maximum(count, 1.0))
        # N = sum d^2 - sum d * mean(d), all in double-double
        product, error = _two_product(self._sum[0], mean_high)
        error = error + self._sum[0] * mean_low + self._sum[1] * mean_high
        high, low = _add(self._squares[0], self._squares[1], -product)
        high, low = _two_sum(high, low - error)
        certain = self._is_certain(high, mean_high)
        variance_high, variance_low = _divide(high, low, safe - 1)
        variance_high = variance_high + variance_low
        nothing = self._count == 0
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # overflowed columns are uncertified
            # The root before the scale: sigma may be a float64 where the variance overflows or underflows.
            sigma = np.ldexp(np.sqrt(np.maximum(variance_high, 0.0)), exponent)
            variance = np.ldexp(variance_high, 2 * exponent)
            mean, rest = _two_sum(self._first, np.ldexp(mean_high, exponent))
            mean = mean + (rest + np.ldexp(mean_low, exponent))
            deviation = self._largest_deviation(exponent, mean_high, mean_low)
            width = self._max - self._min
        return Spread(
            count=self._count.copy(),
            mean=np.where(nothing, np.nan, mean),
            variance=np.where(several, variance, np.nan),
            sigma=np.where(several, sigma, np.nan),
            min=np.where(nothing, np.nan, self._min),
            max=np.where(nothing, np.nan, self._max),
            max_deviation=np.where(nothing, np.nan, deviation),
            range=np.where(nothing, np.nan, width),
            uncertified=np.flatnonzero(several & (self._overflowed | ~certain)),
        )

    def _is_certain(self, numerator: Floats, mean: Floats) -> Bools:
        """Is the bound of the absolute error of the numerator below an eighth of an ulp of it?"""
        error = self._chunks * (_SQUARE_ERROR + 2 * np.abs(mean) * _LINEAR_ERROR)
        error = error + _TOTAL_ERROR * (1 + self._chunks) * (self._squares[0] + 1e-300)
        # The first half: all values identical, zero is exact, and no bound is below an eighth of nothing.
        proved: Bools = ((numerator == 0) & (self._squares[0] == 0)) | (error < numerator * 2.0**-56)
        return proved

    def _largest_deviation(self, exponent: Ints, mean_high: Floats, mean_low: Floats) -> Floats:
        """max(max - mean, mean - min), with the mean in double-double relative to the first value."""
        result = np.zeros(self._columns)
        some = self._count > 0
        for extreme, sign in ((self._max, 1.0), (self._min, -1.0)):
            distance, rest = _two_sum(np.where(some, extreme, 0.0), -np.where(some, self._first, 0.0))
            high, low = _two_sum(distance, -np.ldexp(mean_high, exponent))
            np.maximum(result, sign * (high + (low + rest - np.ldexp(mean_low, exponent))), out=result)
        return result + 0.0  # never -0.0


def spread_of(values: Floats, present: Bools | None = None) -> Spread:
    """Return the spread of ``values[repeat, column]``, every column proved or computed exactly."""
    accumulator = SpreadAccumulator(values.shape[1])
    accumulator.add(values, present)
    spread = accumulator.result()
    if spread.uncertified.size == 0:
        return spread
    columns = spread.uncertified
    return with_exact_columns(spread, exact_columns(values[:, columns], None if present is None else present[:, columns]))


@dataclass(frozen=True)
class ExactColumn:
    """Mean, sample variance and largest distance from the mean of one column, as exact fractions."""

    mean: Fraction
    variance: Fraction
    max_deviation: Fraction


def exact_columns(values: Floats, present: Bools | None = None) -> list[ExactColumn]:
    """Work out each column by rational arithmetic: slow, and right whatever the numbers are."""
    result = []
    for column in range(values.shape[1]):
        chosen = values[:, column] if present is None else values[present[:, column], column]
        fractions = [Fraction(float(value)) for value in chosen]
        mean = sum(fractions, Fraction(0)) / len(fractions)
        squares = sum(((value - mean) ** 2 for value in fractions), Fraction(0))
        deviation = max(max(fractions) - mean, mean - min(fractions))
        result.append(ExactColumn(mean, squares / (len(fractions) - 1), deviation))
    return result


def with_exact_columns(spread: Spread, columns: list[ExactColumn]) -> Spread:
    """Put exactly known columns in the place of the uncertified ones."""
    mean, variance, sigma = spread.mean.copy(), spread.variance.copy(), spread.sigma.copy()
    deviation = spread.max_deviation.copy()
    for index, column in zip(spread.uncertified, columns, strict=True):
        mean[index] = round_fraction(column.mean)
        variance[index] = round_fraction(column.variance)
        sigma[index] = sqrt_fraction(column.variance)
        deviation[index] = round_fraction(column.max_deviation)
    return replace(
        spread, mean=mean, variance=variance, sigma=sigma, max_deviation=deviation, uncertified=np.empty(0, np.int64)
    )


def round_fraction(value: Fraction) -> float:
    """Round to the nearest float64; beyond its range to infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def sqrt_fraction(value: Fraction) -> float:
    """Square root of a fraction, within one ulp, without overflow or underflow on the way."""
    if value == 0:
        return 0.0
    # Brought near 1 first: of a huge or tiny fraction the float itself would be infinite or 0, though its root is neither.
    shift = (value.numerator.bit_length() - value.denominator.bit_length()) // 2
    try:
        return math.ldexp(math.sqrt(float(value / Fraction(4) ** shift)), shift)
    except OverflowError:
        return math.inf
