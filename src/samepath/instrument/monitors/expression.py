"""The language of assertions: Python's own expression syntax, a fixed table of functions, and nothing else.

``ttc(ego, others) > 1.5``, ``always(implies(gap(1, 2) < 2, speed(1) < 3))``. The text is parsed by Python's parser, which knows
the column of every word, and is never executed: each node is looked up in the tables below or refused with a line that points
at it. A formula has two values at every moment. *Holds* is exact: ``>`` at equality is false, ``>=`` is true. The *margin* is
how far the numbers are from changing that (the robustness of signal temporal logic, Donzé & Maler 2010): the difference of a
comparison's sides, the smaller of two for «and», the larger for «or», the smallest over a window for «always».

Where a number is not there (an actor has not come yet, or has gone) a comparison has no value, and nor has whatever joins it;
«always», «eventually» and their likes pass over such moments. A formula that no temporal word leads is meant at every moment.

Written by us because what is kept elsewhere does not fit: RTAMT (signal temporal logic) wants an ANTLR runtime of one version,
goes through samples one by one, and knows neither actors nor numbers that are absent.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from samepath.core.channels import unit_of
from samepath.core.errors import InputError, nearest
from samepath.instrument.monitors.view import GROUPS, Floats, MonitoredScene, NotApplicableError, RunsView

LONGEST: Final = 2000
MOST_NODES: Final = 500
DEEPEST: Final = 40
# What numbers may be multiplied with, to be written in another unit than ours.
UNITS: Final[Mapping[str, float]] = {
    "km": 1e3, "cm": 1e-2, "mm": 1e-3, "ms": 1e-3, "minutes": 60.0, "kmh": 1 / 3.6, "mph": 0.44704,
    "g": 9.80665, "inf": math.inf,
}  # fmt: skip


class ExpressionError(InputError):
    """A word of an expression is wrong; ``column`` counts from 0."""

    def __init__(self, message: str, text: str, column: int, end: int) -> None:
        word = text[column : max(end, column + 1)] or "the end"
        short = word if len(word) <= 40 else f"{word[:37]}..."
        super().__init__(f"column {column + 1}, at {short!r}: {message}")
        self.column = column


@dataclass(frozen=True)
class Judged:
    """A formula's value at every moment: ``margin`` and ``holds`` (1 or 0), NaN where it has none."""

    margin: Floats
    holds: Floats

    def map(self, change: Callable[[Floats], Floats]) -> "Judged":
        """Apply the same to both."""
        return Judged(change(self.margin), change(self.holds))


Number = Callable[[RunsView, int], Floats]  # (view, the actor that «actor» stands for) -> [repeat, tick]
Truth = Callable[[RunsView, int], Judged]
Who = Callable[[RunsView, int], tuple[int, ...]]


@dataclass(frozen=True)
class Formula:
    """A checked expression. ``unit`` is that of its margin, empty where there is no single one."""

    text: str
    unit: str
    channels: frozenset[str]
    each: bool
    at_start: bool
    judge: Truth


@dataclass(frozen=True)
class _Value:
    """A node that was understood: a number with its unit, a truth, or who is meant."""

    kind: str  # "number", "truth", "actor", "text"
    number: Number | None = None
    truth: Truth | None = None
    who: Who | None = None
    unit: str | None = None  # None: any, such as a plain number's
    constant: float | None = None
    text: str = ""
    temporal: bool = False


@dataclass(frozen=True)
class _Function:
    """A word of the table: what goes in («one», «many» actors, «number», «constant», «text»), the unit, and what comes out."""

    takes: tuple[str, ...]
    unit: str
    make: Callable[..., Floats]
    meaning: str
    optional: int = 0


def _one(quantity: str) -> Callable[[RunsView, int], Floats]:
    return lambda view, actor: cast("Floats", getattr(view, quantity)(actor))


def _two(quantity: str) -> Callable[[RunsView, int, tuple[int, ...]], Floats]:
    return lambda view, actor, others: view.nearest(actor, others, getattr(view, quantity))


def _road(quantity: str) -> Callable[[RunsView, int], Floats]:
    return lambda view, actor: view.on_road(actor, lambda roads, x, y: cast("Floats", getattr(roads, quantity)(x, y)), quantity)


def _collisions(view: RunsView, actor: int, others: tuple[int, ...] | None = None) -> Floats:
    return view.contacts(actor, others)


def _distance_to(view: RunsView, actor: int, x_m: float, y_m: float) -> Floats:
    return np.hypot(view.channel("x_m", actor) - x_m, view.channel("y_m", actor) - y_m)


def _time(view: RunsView) -> Floats:
    return np.broadcast_to(view.time_s, view.shape).copy()


def _outside(view: RunsView, first_s: float, last_s: float) -> Floats:
    """Seconds to the nearer end of a span of time; negative within it."""
    time_s = _time(view)
    return np.maximum(first_s - time_s, time_s - last_s)


FUNCTIONS: Final[Mapping[str, _Function]] = {
    "speed": _Function(("one",), "m/s", _one("speed"), "speed on the ground"),
    "acceleration": _Function(("one",), "m/s²", _one("acceleration"), "change of speed; braking is negative"),
    "lateral_acceleration": _Function(("one",), "m/s²", _one("lateral_acceleration"), "across the direction of motion"),
    "jerk": _Function(("one",), "m/s³", _one("jerk"), "change of acceleration"),
    "distance": _Function(("one", "many"), "m", _two("distance"), "between the actors' points, to the nearest of the others"),
    "gap": _Function(("one", "many"), "m", _two("gap"), "between outlines; negative where they overlap"),
    "ttc": _Function(
        ("one", "many"), "s", _two("time_to_collision"), "until outlines touch at constant velocities; inf: never"
    ),
    "collisions": _Function(("one", "many"), "", _collisions, "how many so far; with one actor, with anything", 1),
    "events": _Function(("text",), "", lambda view, kind: view.events(kind), "how many events of this kind so far"),
    "lane_offset": _Function(("one",), "m", _road("lane_offset_m"), "to the right of the middle of the nearest driving lane"),
    "lane_margin": _Function(("one",), "m", _one("lane_margin"), "from the outline to the nearer border of the lane"),
    "road_margin": _Function(("one",), "m", _one("road_margin"), "from the outermost corner to the edge of the road"),
    "speed_limit": _Function(("one",), "m/s", _road("speed_limit_mps"), "the road's limit where the actor is"),
    "distance_to": _Function(("one", "constant", "constant"), "m", _distance_to, "to a place x, y"),
    "arrival": _Function(
        ("one", "constant", "constant", "constant"),
        "s",
        lambda view, actor, x, y, radius: view.arrival(actor, x, y, radius),
        "when it first is within a radius of x, y; inf: never",
    ),
    "crosses": _Function(
        ("one", "constant", "constant", "constant", "constant"),
        "truth",
        lambda view, actor, *line: view.crosses(actor, line),
        "is it the moment just after it went over the line from x1, y1 to x2, y2?",
    ),
    "slowest_near": _Function(
        ("one", "constant", "constant", "constant", "constant", "constant"),
        "m/s",
        lambda view, actor, near, *line: view.slowest_near(actor, near, line),
        "its lowest speed so far within so many metres of the line from x1, y1 to x2, y2",
    ),
    "line_distance": _Function(
        ("one", "constant", "constant", "constant", "constant"),
        "m",
        lambda view, actor, *line: view.line_distance(actor, line),
        "to the line from x1, y1 to x2, y2",
    ),
    "time": _Function((), "s", _time, "since the first tick"),
    "outside": _Function(("constant", "constant"), "s", _outside, "seconds to the span from t1 to t2; negative within it"),
    "abs": _Function(("number",), "same", lambda view, number: np.abs(number), "size without sign"),
    "rate": _Function(("number",), "per s", lambda view, number: view.rate(number), "change per second"),
    "min": _Function(("number", "number"), "same", lambda view, a, b: np.minimum(a, b), "the smaller"),
    "max": _Function(("number", "number"), "same", lambda view, a, b: np.maximum(a, b), "the larger"),
}
TEMPORAL: Final[Mapping[str, str]] = {
    "always": "always(p) or always(p, from, to): p holds at every moment from now on, or between so many seconds ahead",
    "eventually": "eventually(p) or eventually(p, from, to): p holds at some moment",
    "until": "until(p, q) or until(p, q, within): q comes, and p holds until then",
    "once": "once(p) or once(p, back): p held at some moment until now, at most so many seconds back",
    "historically": "historically(p) or historically(p, back): p has held at every moment until now",
    "implies": "implies(p, q): where p holds, q holds",
}
_FUTURE: Final = ("always", "eventually", "until")
_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Floats, Floats], Floats]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: np.divide,
}  # fmt: skip
_COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[Callable[[Floats, Floats], Floats], Callable[[Floats, Floats], object]]]] = {
    ast.Gt: (operator.sub, operator.gt),
    ast.GtE: (operator.sub, operator.ge),
    ast.Lt: (lambda a, b: b - a, operator.lt),
    ast.LtE: (lambda a, b: b - a, operator.le),
    ast.Eq: (lambda a, b: -np.abs(a - b), operator.eq),
    ast.NotEq: (lambda a, b: np.abs(a - b), operator.ne),
}


def parse(text: str, scene: MonitoredScene) -> Formula:
    """Check an expression and make it ready; raises :class:`ExpressionError` that points at a word."""
    if len(text) > LONGEST:
        raise InputError(f"an expression of at most {LONGEST} characters was wanted, but {len(text)} came")
    # In one line: a line break in YAML means nothing, and columns then count from its start.
    line = " ".join(text.split())
    if not line.isascii():
        at = next(index for index, letter in enumerate(line) if not letter.isascii())
        raise ExpressionError("plain letters, digits and signs were wanted", line, at, at + 1)
    try:
        tree = ast.parse(line, mode="eval")
    except SyntaxError as error:
        # Where the text is over too soon the parser points nowhere, or behind the last letter.
        column = error.offset - 1 if error.offset else len(line)
        wanted = f"an expression was wanted, such as ttc(ego, others) > 1.5 ({error.msg})"
        raise ExpressionError(wanted, line, column, column + 1) from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise InputError("an expression that is less deeply nested was wanted") from error
    _check_size(tree, line)
    compiler = _Compiler(line, scene)
    found = compiler.truth(tree.body)
    at_start = found.temporal
    if at_start:
        compiler.check_mixed(tree.body)
    return Formula(line, found.unit or "", frozenset(compiler.channels), compiler.each, at_start, cast("Truth", found.truth))


def _check_size(tree: ast.Expression, text: str) -> None:
    nodes: list[tuple[ast.AST, int]] = [(tree.body, 1)]
    count = 0
    while nodes:
        node, depth = nodes.pop()
        count += 1
        if count > MOST_NODES or depth > DEEPEST:
            came = f"{text[:40]!r} has more"
            raise InputError(f"an expression of at most {MOST_NODES} parts, {DEEPEST} deep, was wanted, but {came}")
        nodes += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


class _Compiler:
    def __init__(self, text: str, scene: MonitoredScene) -> None:
        self.text, self.scene = text, scene
        self.channels: set[str] = set()
        self.each = False

    def error(self, node: ast.AST, message: str) -> ExpressionError:
        column, end = getattr(node, "col_offset", 0), getattr(node, "end_col_offset", None) or 0
        return ExpressionError(message, self.text, column, end)

    def truth(self, node: ast.expr) -> _Value:
        found = self.value(node)
        if found.kind != "truth":
            raise self.error(node, f"a comparison was wanted, such as speed(ego) < 13.9, but this is {_a(found.kind)}")
        return found

    def number(self, node: ast.expr) -> _Value:
        found = self.value(node)
        if found.kind != "number":
            raise self.error(node, f"a number was wanted, but this is {_a(found.kind)}")
        return found

    def value(self, node: ast.expr) -> _Value:  # noqa: PLR0911 - a case for each kind of node
        match node:
            case ast.Constant(value=bool()):
                raise self.error(node, "a number or a comparison was wanted")
            case ast.Constant(value=int() | float() as number) if math.isfinite(number):
                return _constant(float(number), None, whole=isinstance(number, int))
            case ast.Constant(value=str() as word):
                return _Value("text", text=word)
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                return self._sign(self.number(operand), minus=isinstance(node.op, ast.USub))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.truth(operand)
                return self._joined((inner,), lambda judged: Judged(-judged.margin, 1 - judged.holds))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return self._arithmetic(node, self.number(left), type(op), self.number(right))
            case ast.BoolOp(op=op, values=values):
                take = np.minimum if isinstance(op, ast.And) else np.maximum
                return self._joined(
                    tuple(self.truth(value) for value in values),
                    lambda *all_of: Judged(
                        take.reduce([judged.margin for judged in all_of]), take.reduce([judged.holds for judged in all_of])
                    ),
                )
            case ast.Compare():
                return self._comparison(node)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords):
                if keywords:
                    raise self.error(keywords[0], "arguments by place were wanted, without names")
                return self._call(node, name, arguments)
        raise self.error(node, "this cannot be part of an expression: use + - * /, comparisons, and, or, not, and functions")

    def _name(self, node: ast.Name, name: str) -> _Value:
        if name in UNITS:
            return _constant(UNITS[name], None)
        if name == "actor":
            self.each = True
            return _Value("actor", who=lambda view, actor: (actor,))
        if name in GROUPS or name in self.scene.names:
            return _Value("actor", who=lambda view, actor: view.ids(name))
        known = [*GROUPS, "actor", *self.scene.names, *UNITS]
        if name in FUNCTIONS or name in TEMPORAL:
            raise self.error(node, f"{name} is a function: write {name}(...)")
        raise self.error(node, f"unknown name {name!r}; {_hint(name, known)}")

    def _sign(self, inner: _Value, *, minus: bool) -> _Value:
        number = cast("Number", inner.number)
        if not minus:
            return inner
        constant = None if inner.constant is None else -inner.constant
        return _Value("number", number=lambda view, actor: -number(view, actor), unit=inner.unit, constant=constant)

    def _arithmetic(self, node: ast.expr, left: _Value, op: type[ast.operator], right: _Value) -> _Value:
        a, b = cast("Number", left.number), cast("Number", right.number)
        apply = _ARITHMETIC[op]

        def number(view: RunsView, actor: int) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                return apply(a(view, actor), b(view, actor))

        if op in (ast.Add, ast.Sub):
            unit = self._same_unit(node, left, right)
        elif left.unit and right.unit:
            unit = f"{left.unit}{'·' if op is ast.Mult else '/'}{right.unit}"
        else:
            unit = left.unit or (right.unit if op is ast.Mult else None)
        constant = None
        if left.constant is not None and right.constant is not None:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                constant = float(apply(np.float64(left.constant), np.float64(right.constant)))  # type: ignore[arg-type]
            if not math.isfinite(constant):
                raise self.error(node, "this is no finite number")
        return _Value("number", number=number, unit=unit, constant=constant)

    def _same_unit(self, node: ast.expr, left: _Value, right: _Value) -> str | None:
        if left.unit and right.unit and left.unit != right.unit:
            raise self.error(node, f"{left.unit} and {right.unit} cannot be held against each other")
        return left.unit or right.unit

    def _comparison(self, node: ast.Compare) -> _Value:
        sides = [self.number(side) for side in (node.left, *node.comparators)]
        parts = []
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            if type(op) not in _COMPARISONS:
                raise self.error(node, "one of < <= > >= == != was wanted between two numbers")
            parts.append(_compared(left, _COMPARISONS[type(op)], right, self._same_unit(node, left, right)))
        if len(parts) == 1:
            return parts[0]
        return self._joined(
            tuple(parts),
            lambda *all_of: Judged(
                np.minimum.reduce([judged.margin for judged in all_of]), np.minimum.reduce([judged.holds for judged in all_of])
            ),
        )

    def _joined(self, parts: tuple[_Value, ...], join: Callable[..., Judged]) -> _Value:
        units = {part.unit for part in parts}
        judges = [cast("Truth", part.truth) for part in parts]
        return _Value(
            "truth",
            truth=lambda view, actor: join(*(judge(view, actor) for judge in judges)),
            unit=units.pop() if len(units) == 1 else None,
            temporal=any(part.temporal for part in parts),
        )

    def _call(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> _Value:
        if name in TEMPORAL:
            return self._temporal(node, name, arguments)
        known = FUNCTIONS.get(name)
        if known is None and "_" in name.strip("_") and name[0] != "_":
            return self._channel(node, name, arguments)
        if known is None:
            raise self.error(node.func, f"unknown function {name!r}; {_hint(name, [*FUNCTIONS, *TEMPORAL])}")
        least = len(known.takes) - known.optional
        if not least <= len(arguments) <= len(known.takes):
            wanted = ", ".join(known.takes) or "nothing"
            raise self.error(node, f"{name} takes {wanted}, but {len(arguments)} arguments came")
        values = [self._argument(name, kind, argument) for kind, argument in zip(known.takes, arguments, strict=False)]
        units = [value.unit for value in values if value.kind == "number" and value.unit]
        unit = known.unit
        if unit == "same":
            unit = self._same_unit(node, values[0], values[-1]) or ""
        elif unit == "per s":
            unit = f"{units[0]}/s" if units else "1/s"
        makers = [_passed(kind, value) for kind, value in zip(known.takes, values, strict=False)]
        make = known.make
        if unit == "truth":

            def judge(view: RunsView, actor: int) -> Judged:
                holds = make(view, *(maker(view, actor) for maker in makers))
                # A yes or no is as far from changing as can be: no number says how nearly it was the other.
                return Judged(np.where(np.isnan(holds), np.nan, np.where(holds > 0, np.inf, -np.inf)), holds)

            return _Value("truth", truth=judge, unit=None)
        return _Value(
            "number", number=lambda view, actor: make(view, *(maker(view, actor) for maker in makers)), unit=unit or None
        )

    def _argument(self, name: str, kind: str, node: ast.expr) -> _Value:
        if kind in ("one", "many"):
            return self._actors(name, node, single=kind == "one")
        found = self.value(node)
        if kind == "text" and found.kind != "text":
            raise self.error(node, f"{name} takes a word in quotes, such as 'collision'")
        if kind in ("number", "constant") and found.kind != "number":
            raise self.error(node, f"{name} takes a number here, but this is {_a(found.kind)}")
        if kind == "constant" and found.constant is None:
            raise self.error(node, f"{name} takes a plain number here, such as 12.5")
        return found

    def _actors(self, name: str, node: ast.expr, *, single: bool) -> _Value:
        found = self.value(node)
        if found.kind == "number" and found.constant is not None and found.text == "whole":
            actor = int(found.constant)
            return _Value("actor", who=lambda view, _: view.ids(actor))
        if found.kind != "actor":
            raise self.error(node, f"{name} takes an actor here: its number, ego, or a name given under actors")
        if not single:
            return found
        who, word = cast("Who", found.who), self.text[node.col_offset : node.end_col_offset]

        def only(view: RunsView, actor: int) -> tuple[int, ...]:
            ids = who(view, actor)
            if len(ids) > 1:
                raise self.error(node, f"{name} takes one actor here, but {word} are {len(ids)}: say for: {word}, and actor")
            return ids

        return _Value("actor", who=only)

    def _channel(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> _Value:
        if len(arguments) != 1:
            raise self.error(node, f"{name} is taken for a channel of the log: it takes one actor")
        who = cast("Who", self._actors(name, arguments[0], single=True).who)
        self.channels.add(name)

        def number(view: RunsView, actor: int) -> Floats:
            if not view.has(name):
                known = view.header.channels
                near = nearest(name, [*known, *FUNCTIONS])
                meant = f"; did you mean {near}?" if near else ""
                raise NotApplicableError(f"its logs have no channel {name!r}{meant}")
            return view.channel(name, who(view, actor)[0])

        return _Value("number", number=number, unit=unit_of(name))

    def _temporal(self, node: ast.Call, name: str, arguments: list[ast.expr]) -> _Value:
        formulas = 2 if name in ("until", "implies") else 1
        most = {"always": 2, "eventually": 2, "until": 1, "once": 1, "historically": 1, "implies": 0}[name]
        spans = len(arguments) - formulas
        if spans < 0 or spans > most or (most == 2 and spans == 1):
            raise self.error(node, f"{TEMPORAL[name]}; {len(arguments)} arguments came")
        parts = tuple(self.truth(argument) for argument in arguments[:formulas])
        times = []
        for argument in arguments[formulas:]:
            found = self._argument(name, "constant", argument)
            if cast("float", found.constant) < 0:
                raise self.error(argument, "a time of at least 0 seconds was wanted")
            times.append(cast("float", found.constant))
        if len(times) == 2 and times[0] > times[1]:
            raise self.error(node, f"a time span was wanted, but {times[0]:g} s to {times[1]:g} s came")
        joined = self._joined(parts, lambda *all_of: all_of[0])
        judges = [cast("Truth", part.truth) for part in parts]

        def judge(view: RunsView, actor: int) -> Judged:
            return _over_time(name, view, [truth(view, actor) for truth in judges], times)

        unit = parts[-1].unit if name == "implies" else joined.unit
        return _Value("truth", truth=judge, unit=unit, temporal=name in _FUTURE or joined.temporal)

    def check_mixed(self, node: ast.expr) -> None:
        """Of parts that are joined where one speaks of the whole run, each must say when it is meant."""
        parts: list[ast.expr] = []
        match node:
            case ast.BoolOp(values=values):
                parts = values
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                parts = [operand]
            case ast.Call(func=ast.Name(id="implies"), args=arguments):
                parts = arguments
        for part in parts:
            if not self.truth(part).temporal:
                raise self.error(
                    part, "beside always or eventually, say of this too when it is meant: always(...) or eventually(...)"
                )
            self.check_mixed(part)


def _constant(number: float, unit: str | None, *, whole: bool = False) -> _Value:
    # Of every shape: numpy spreads it over whatever it meets.
    return _Value(
        "number",
        number=lambda view, actor: np.full(view.shape, number),
        unit=unit,
        constant=number,
        text="whole" if whole else "",
    )


def _compared(
    left: _Value,
    how: tuple[Callable[[Floats, Floats], Floats], Callable[[Floats, Floats], object]],
    right: _Value,
    unit: str | None,
) -> _Value:
    a, b = cast("Number", left.number), cast("Number", right.number)
    margin, holds = how

    def judge(view: RunsView, actor: int) -> Judged:
        left_value, right_value = a(view, actor), b(view, actor)
        absent = np.isnan(left_value) | np.isnan(right_value)
        with np.errstate(invalid="ignore"):
            found = margin(left_value, right_value)
            true = np.asarray(holds(left_value, right_value), np.float64)
        # Two infinities have no difference, but they do compare: as far from changing as can be.
        found = np.where(np.isnan(found) & ~absent, np.where(true > 0, np.inf, -np.inf), found)
        return Judged(np.where(absent, np.nan, found), np.where(absent, np.nan, true))

    return _Value("truth", truth=judge, unit=unit)


def _passed(kind: str, value: _Value) -> Callable[[RunsView, int], object]:
    if kind == "one":
        who = cast("Who", value.who)
        return lambda view, actor: who(view, actor)[0]
    if kind == "many":
        return cast("Who", value.who)
    if kind == "text":
        return lambda view, actor: value.text
    if kind == "constant":
        return lambda view, actor: value.constant
    return cast("Number", value.number)


def _over_time(name: str, view: RunsView, parts: list[Judged], times: list[float]) -> Judged:
    match name:
        case "implies":
            return _implied(*parts)
        case "until":
            found = _until(*parts)
            if not times:
                return found
            # p until q within b is: q comes within b, and p holds until q comes at all (Donzé, Ferrère & Maler 2013).
            soon = parts[1].map(lambda values: over_window(values, view.time_s, 0.0, times[0], smallest=False))
            return Judged(np.minimum(found.margin, soon.margin), np.minimum(found.holds, soon.holds))
        case "once" | "historically":
            back_s = times[0] if times else math.inf
            return parts[0].map(lambda values: over_window(values, view.time_s, -back_s, 0.0, smallest=name == "historically"))
    first_s, last_s = times or (0.0, math.inf)
    return parts[0].map(lambda values: over_window(values, view.time_s, first_s, last_s, smallest=name == "always"))


def _implied(premise: Judged, conclusion: Judged) -> Judged:
    """Where the premise does not hold nothing is asked of the conclusion, not even that it has a value."""
    free = premise.holds == 0
    margin = np.maximum(-premise.margin, np.where(np.isnan(conclusion.margin) & free, -np.inf, conclusion.margin))
    holds = np.maximum(1 - premise.holds, np.where(np.isnan(conclusion.holds) & free, 0.0, conclusion.holds))
    return Judged(margin, holds)


def _until(first: Judged, second: Judged) -> Judged:
    def run(p: Floats, q: Floats, none: float, all_: float) -> Floats:
        here, then = np.where(np.isnan(p), all_, p), np.where(np.isnan(q), none, q)
        found = np.empty_like(then)
        later = np.full(then.shape[0], none)
        for tick in range(then.shape[1] - 1, -1, -1):
            later = np.maximum(then[:, tick], np.minimum(here[:, tick], later))
            found[:, tick] = later
        nothing = np.all(np.isnan(p) & np.isnan(q), axis=1, keepdims=True)
        return np.where(nothing, np.nan, found)

    return Judged(run(first.margin, second.margin, -np.inf, np.inf), run(first.holds, second.holds, 0.0, 1.0))


def over_window(values: Floats, time_s: Floats, first_s: float, last_s: float, *, smallest: bool) -> Floats:
    """The smallest or largest value between ``first_s`` and ``last_s`` from each moment, over those that are there.

    By doubling: the extreme of 2^k values from every place on, for one k after the other; a window of any length is covered by
    two of them. A moment at the very edge of a window is in it, whatever the last bit of its time says.
    """
    take = np.fmin if smallest else np.fmax
    if first_s == 0.0 and last_s == math.inf:
        return np.asarray(take.accumulate(values[:, ::-1], axis=1)[:, ::-1])
    slack_s = 1e-9 * max(1.0, abs(float(time_s[-1])))
    begin = np.searchsorted(time_s, time_s + first_s - slack_s, "left")
    stop = np.searchsorted(time_s, time_s + last_s + slack_s, "right")
    sizes = stop - begin
    found = np.full(values.shape, np.nan)
    level, width = values, 1
    while width <= max(1, int(sizes.max(initial=0))):
        here = np.flatnonzero((sizes >= width) & (sizes < 2 * width))
        if len(here):
            found[:, here] = take(level[:, begin[here]], level[:, stop[here] - width])
        if 2 * width > values.shape[1]:
            break
        level = take(level[:, : level.shape[1] - width], level[:, width:])
        width *= 2
    return found


def _hint(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(sorted(known))}"


def _a(kind: str) -> str:
    return {"number": "a number", "truth": "a comparison", "actor": "an actor", "text": "a word in quotes"}[kind]
