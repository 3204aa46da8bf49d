"""A status goes out as JSON and comes back the same; what is none is refused in a line."""

import json
from dataclasses import FrozenInstanceError, asdict, replace
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.cluster.monitor.status import (
    ClusterStatus,
    CommandRecord,
    CommandStatus,
    Histogram,
    NodeStatus,
    SensorStatus,
    from_json,
    to_json,
)
from samepath.core.errors import InputError
from tests.support.watched_clusters import desynchronised, one_fenced, working

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
HISTOGRAMS = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(
    lambda counts: Histogram(tuple(range(len(counts) - 1)), tuple(counts), 1.5)
)


def records(kind, **fields):
    """Any such record whose numbers are finite."""
    finite = {float: NUMBERS, float | None: st.none() | NUMBERS, tuple[float, ...]: st.lists(NUMBERS, max_size=3).map(tuple)}
    found = {name: finite[hint] for name, hint in get_type_hints(kind).items() if hint in finite}
    return st.builds(kind, **{**found, **fields})


COMMANDS = records(CommandStatus, last=st.lists(records(CommandRecord), max_size=2).map(tuple), latencies=HISTOGRAMS)
STATUSES = records(
    ClusterStatus,
    nodes=st.lists(records(NodeStatus), max_size=3).map(tuple),
    sensors=st.lists(records(SensorStatus), max_size=3).map(tuple),
    commands=COMMANDS,
    tick_times=HISTOGRAMS,
)


@given(STATUSES)
def test_any_status_comes_back_from_json_as_it_was(status):
    assert from_json(to_json(status)) == status


@pytest.mark.parametrize("make", [working, one_fenced, desynchronised])
def test_the_json_is_plain_and_has_every_field(make):
    status = make()
    assert json.loads(to_json(status)) == json.loads(json.dumps(asdict(status)))


def test_what_is_not_known_yet_is_null_and_no_zero():
    begun = ClusterStatus("a", "1", "town", 1, 0, "lockstep")
    data = json.loads(to_json(begun))
    assert data["tick_s"] is None
    assert data["commands"]["latency_s_median"] is None
    assert from_json(to_json(begun)) == begun


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is wrong"),
        (b"[1, 2]", "it is wrong"),
        (b"<html>", "it is wrong"),
        (b'{"name": "a"}', "version is wrong"),
        (to_json(working()).replace(b'"lockstep"', b'"sometimes"'), "mode is wrong"),
        (to_json(working()).replace(b'"pid":4201', b'"pid":"4201"'), "nodes.0.pid is wrong"),
        (to_json(working()).replace(b'"ticks":2305', b'"ticks":2305.5'), "ticks is wrong"),
    ],
)
def test_what_is_no_status_is_refused_in_one_line(data, words):
    with pytest.raises(InputError, match=words) as caught:
        from_json(data)
    assert "\n" not in str(caught.value)


def test_a_histogram_has_a_count_more_than_bounds():
    with pytest.raises(InputError, match="one count more"):
        Histogram((1.0, 2.0), (1, 2))


def test_a_status_cannot_be_changed_once_published():
    status = working()
    with pytest.raises(FrozenInstanceError):
        status.ticks = 3
    assert replace(status, ticks=3).ticks == 3
