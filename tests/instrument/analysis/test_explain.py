"""Explaining a cell: its tree over time, each fork once, the cause of the first, in words and as plain data."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.core.inputs import Input, InputKind, InputLog
from samepath.engines import registry
from samepath.engines.interface import RunRequest
from samepath.instrument.analysis import explain as explaining
from samepath.instrument.analysis.explain import explain_cell, explain_pair, grow, pair_of
from samepath.instrument.analysis.outcomes import classify, grow_tree
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header, HostLog, HostSample, frame_of
from samepath.instrument.traces.store import store_repeats
from tests.conftest import cell_of, straight_run


def control(name, repeats, **settings):
    runs = []
    with registry.create(name) as simulator:
        info = simulator.described(settings)
        for number in repeats:
            recorder = Recorder(number, info.channels, info.step_s)
            simulator.run(RunRequest("crossing", number, 0, settings), recorder)
            runs.append(recorder.finish())
    return MemoryCell(Header("controls", name, "crossing", info.channels, info.step_s, simulator=info.name), runs)


# What is wrong with each control, from its code.
TRUTH = {
    "control-exact": "none",
    "control-destroyed": "none",
    "control-below-resolution": "none",
    # Every run draws another number, so that nothing shows that it acts: no two runs share a value.
    "control-gaussian": "unknown",
    "control-two-outcomes": "unknown",
    "control-late-bystander": "unknown",
    "control-rare": "simulator",
    "control-ends-early": "simulator",
    "control-leaky": "simulator",
}


@pytest.mark.parametrize("name", TRUTH)
def test_every_control_is_explained_by_what_is_wrong_with_it_or_not_at_all(name):
    explained = explain_cell(control(name, [137, 0, 1, 2, 7]))
    assert explained.cause == TRUTH[name]
    assert set(explained.causes) <= {TRUTH[name]}


def test_the_uninvolved_car_follows_long_after_the_collision():
    (first, *_) = explain_cell(control("control-late-bystander", range(3))).partings
    assert first.parting.last_common_event.startswith("collision of actor 1 with actor 2")
    assert [(follower.actor, follower.tick) for follower in first.parting.followers] == [(3, 151)]


def shifted(repeat, at, size=1e-6, ticks=20, **changes):
    return replace(
        straight_run(repeat, ticks=ticks, shift=lambda tick, actor: size if tick >= at and actor == 2 else 0.0), **changes
    )


def test_the_tree_forks_where_outcomes_part():
    explained = explain_cell(cell_of([straight_run(0), straight_run(1), shifted(2, 12), shifted(3, 5, 2e-6), shifted(4, 12)]))
    assert [(fork.parting.tick, fork.parting.a, fork.parting.b, fork.repeats_b) for fork in explained.partings] == [
        (5, 0, 3, 1),
        (12, 0, 2, 2),
    ]
    root = explained.tree
    assert (root.until_tick, [child.repeats for child in root.children]) == (5, [4, 1])
    assert root.children[0].until_tick == 12
    text = explained.words()
    assert "5 repeats part at tick 5 into 4 + 1" in text
    assert "Repeat 3 parts from repeat 0 at tick 5" in text


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 22), st.integers(0, 2), st.sampled_from([None, 4, 9])), min_size=2, max_size=7))
def test_bisection_grows_the_tree_that_reading_every_tick_grows(kinds):
    """The tree of the report, grown tick by tick, is the independent oracle; actors that vanish are in both."""

    def run(number, at, size, gone):
        whole = straight_run(number, shift=lambda tick, actor: 1e-6 * size if tick >= at and actor == 2 else 0.0)
        if gone is None:
            return whole
        recorder = Recorder(number, whole.channels, 0.1)
        for actor in (1, 2):
            recorder.actor(actor, "car")
        for tick, actor, row in zip(whole.tick.tolist(), whole.actor.tolist(), whole.values.tolist(), strict=True):
            if actor == 2 and tick == gone:
                recorder.event(tick, "destroy", 2)
            elif actor == 1 or tick < gone:
                recorder.state(tick, actor, dict(zip(whole.channels, row, strict=True)))
        recorder.end(20, "done")
        return recorder.finish()

    cell = cell_of([run(number, *kind) for number, kind in enumerate(kinds)])
    outcomes = classify(cell)
    digests = {}
    for block in cell.blocks([], digests=True):
        for row, repeat in enumerate(block.repeats):
            digests[repeat] = block.digests[row].reshape(len(cell.ticks), len(cell.actor_ids), 2)
    expected = grow_tree(outcomes, digests, {run.repeat: run.events for run in cell.runs}, cell.ticks)

    def shape(tree):
        children = tuple(sorted(shape(child) for child in tree.children))
        return (tuple(sorted(tree.outcomes)), tree.until_tick if children else None, children)

    if len(outcomes) > 1:
        assert shape(grow(outcomes, cell)) == shape(expected)


def test_a_deep_tree_is_no_recursion_and_what_is_left_out_is_said(tmp_path):
    count = 230
    runs = [shifted(number, 1 + number, 1e-6 * (1 + number), ticks=count) for number in range(0, count, 2)]
    explained = explain_cell(store_repeats(tmp_path / "c", cell_of([]).header, runs))
    assert len(explained.outcomes) == len(runs)
    assert len(explained.partings) == explaining.PARTINGS_MOST
    assert explained.partings_left_out == len(runs) - 1 - explaining.PARTINGS_MOST
    assert f"{explained.partings_left_out} later ones were left out" in explained.words()
    assert json.dumps(explained.to_json(), allow_nan=False)
    deep, node = 0, explained.tree
    while node.children:
        deep, node = deep + 1, max(node.children, key=lambda child: len(child.outcomes))
    assert deep == len(runs) - 1


def draw(value):
    return InputLog([Input(11, InputKind.DRAW, "gust", 2, (value,))])


def test_repeats_with_the_same_inputs_that_part_are_named():
    runs = [*map(straight_run, range(9)), *(shifted(repeat, 12, 2e-6) for repeat in range(10, 16))]
    runs.append(shifted(16, 12))
    logs = [draw(0.5)] * 9 + [draw(0.25)] * 6 + [draw(0.5)]
    explained = explain_cell(cell_of([replace(run, inputs=log) for run, log in zip(runs, logs, strict=True)]))
    assert explained.same_inputs == (0, 16)
    assert explained.inputs_recorded == 16
    assert {fork.parting.b: fork.cause.cause.value for fork in explained.partings} == {16: "simulator", 10: "random-stream"}
    assert "Repeats 0 and 16 had the same inputs to the bit and part" in explained.words()


def test_logs_that_do_not_cover_commands_prove_nothing_by_being_equal():
    partial = InputLog(covers=frozenset({InputKind.STEP}))
    cell = cell_of([replace(run, inputs=partial) for run in (straight_run(0), shifted(1, 12))])
    assert (explain_cell(cell).same_inputs, explain_cell(cell).cause) == (None, "unknown")
    assert explain_pair(cell, 0, 1).same_inputs is None


def test_two_repeats_alone():
    cell = cell_of([replace(straight_run(0), inputs=draw(0.5)), straight_run(1), replace(shifted(7, 12), inputs=draw(0.25))])
    assert explain_pair(cell, 0, 7).cause == "unknown", "two runs cannot show that a draw acts"
    assert explain_pair(cell, 1, 7).cause == "unknown"
    same = explain_pair(cell, 0, 1)
    assert (same.cause, same.partings) == ("none", ())
    assert "the same to the bit" in same.words()
    with pytest.raises(InputError, match="a repeat among 0, 1, 7 was wanted, but 3 came"):
        explain_pair(cell, 0, 3)
    with pytest.raises(InputError, match="7 came twice"):
        explain_pair(cell, 7, 7)


def sensing(repeat, at):
    frames = [frame_of(t, "camera", "sensor.camera.rgb", np.full((2, 2), 1 if at is None or t < at else 2), keep=False)
              for t in range(1, 21)]  # fmt: skip
    return replace(straight_run(repeat), sensors=tuple(frames))


def test_states_that_are_equal_while_a_sensor_is_not():
    explained = explain_cell(cell_of([sensing(0, None), sensing(1, None), sensing(2, 9)]))
    assert explained.cause == "sensor-data"
    assert (explained.sensed.sensor, explained.sensed.tick) == ("camera", 9)
    assert "sensor camera differs from tick 9 on" in explained.words()


def test_what_the_host_did_then():
    ticks, latency = np.arange(1, 21), np.full(20, 0.001)
    latency[10] = 0.05
    sample = HostSample(13, 0.5, 0.75, (0.5, 1.0), None)
    host = HostLog((sample,), ticks, latency)
    explained = explain_cell(cell_of([straight_run(0), replace(shifted(1, 12), host=host)]))
    (moment,) = explained.partings[0].host
    assert (moment.repeat, moment.cpu_ratio, moment.busiest_core_ratio, moment.late_tick) == (1, 0.75, 1.0, 11)
    assert "tick 11 came late, after 50 ms" in explained.words()
    assert "CPU 75 % busy (busiest core 100 %)" in explained.words()


def test_two_traces_are_compared_by_their_largest_outcomes(tmp_path):
    first = store_repeats(tmp_path / "a", cell_of([]).header, [straight_run(0), straight_run(1), shifted(2, 3)])
    second = store_repeats(tmp_path / "b", cell_of([]).header, [replace(shifted(5, 12), inputs=draw(0.25))])
    explained = explain_cell(pair_of(first, second))
    assert [(fork.parting.a, fork.parting.b, fork.parting.tick) for fork in explained.partings] == [(0, 1, 12)]
    other = cell_of([straight_run(0)], step_s=0.2)
    with pytest.raises(InputError, match="the same channels and step were wanted"):
        pair_of(first, other)


def test_plain_data_has_the_contract_and_no_number_that_json_lacks(tmp_path):
    plain = json.loads(json.dumps(explain_cell(control("control-two-outcomes", range(6))).to_json(), allow_nan=False))
    assert plain["cause"] == "unknown"
    (fork,) = plain["partings"]
    assert fork["tick"] == 91
    assert {"part", "name", "actor", "difference", "unit", "ulp32", "ulp64"} <= set(fork["fields"][0])
    assert fork["growth"]["kind"] == "linear"
    assert fork["inputs"][0]["kind"] == "draw"
