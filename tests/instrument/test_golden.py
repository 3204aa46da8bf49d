"""Golden files: what they keep, what a red check says, and what is refused."""

import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import InputError, SamepathError
from samepath.core.streams import stream
from samepath.instrument.golden import check_golden, golden_junit, write_golden
from samepath.instrument.golden_compare import compare
from samepath.instrument.golden_file import PATH_ERROR_M, PATH_STEP_M, Golden, field_tags, keep, read, write
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from tests.conftest import cell_of, header, straight_run

CHANNELS = ("x_m", "y_m", "z_m", "vx_mps", "throttle_ratio")


def run(*, ticks=40, actors=3, change=None, gaps=(), events=(), end="done", seed=1, channels=CHANNELS):
    """A run of random numbers; ``change`` (tick, actor, channel, value) replaces one of them."""
    numbers = {n: stream(seed, "golden", n).normal(0.0, 10.0, (ticks + 1, len(CHANNELS))) for n in range(1, actors + 1)}
    recorder = Recorder(0, channels, 0.1)
    for actor in range(1, actors + 1):
        recorder.actor(actor, "car" if actor < 3 else "walker")
    for tick in range(1, ticks + 1):
        for actor in range(1, actors + 1):
            if (tick, actor) in gaps:
                continue
            state = dict(zip(CHANNELS, numbers[actor][tick].tolist(), strict=True))
            if actor == 3:
                del state["throttle_ratio"]
            if change is not None and (tick, actor) == change[:2]:
                state[change[2]] = change[3]
            recorder.state(tick, actor, {name: value for name, value in state.items() if name in channels})
        for event in events:
            if event[0] == tick:
                recorder.event(*event)
    recorder.end(ticks, end)
    return recorder.finish()


def golden_of(repeat, **changes):
    return keep("run", header(channels=repeat.channels, **changes), repeat, equal_runs=1)


def through_file(golden, folder):
    write(folder / "x.golden", Golden((golden,), {"date_utc": "2026-11-16"}))
    (found,) = read(folder / "x.golden").runs
    return found


def test_what_is_kept_comes_back_from_the_file_bit_for_bit(tmp_path):
    original = golden_of(run(gaps={(7, 2), (8, 2)}, events=[(5, "collision", 1, 2, (0.1, -0.0, 3.0))]))
    found = through_file(original, tmp_path)
    for before, after in zip(original.actors, found.actors, strict=True):
        for name in ("ticks", "tag_rows", "tags", "field_rows", "fields", "path_rows", "path"):
            assert np.array_equal(getattr(before, name), getattr(after, name)), name
    assert [event.to_bytes() for event in original.events] == [event.to_bytes() for event in found.events]
    for before, after in zip(original.states, found.states, strict=True):
        assert np.array_equal(before.values, after.values, equal_nan=True)
        assert (before.tick, before.actor, before.time_s) == (after.tick, after.actor, after.time_s)
    assert (found.header, found.digest, found.end, found.plan) == (original.header, original.digest, original.end, None)
    assert compare(found, run(gaps={(7, 2), (8, 2)}, events=[(5, "collision", 1, 2, (0.1, -0.0, 3.0))])) is None


def test_a_file_is_small_and_its_states_are_text(tmp_path):
    write(tmp_path / "x.golden", Golden((golden_of(run(ticks=400)),)))
    assert (tmp_path / "x.golden").stat().st_size < 64_000
    rows = json.loads((tmp_path / "x.golden").read_text())["runs"][0]["states"]
    tick, actor, time_s, *values = rows[-1].split()
    assert (tick, actor, time_s) == ("400", "3", repr(400 * 0.1))
    assert values[-1] == "-"  # a walker has no throttle
    assert [float(value) for value in values[:-1]] == run(ticks=400).values[-1, :-1].tolist()


def test_a_crowd_is_thinned_out_and_the_answer_is_a_stretch_of_ticks(tmp_path):
    write(tmp_path / "x.golden", Golden((golden_of(run(ticks=200, actors=60)),)))
    assert (tmp_path / "x.golden").stat().st_size < 200_000
    found = through_file(golden_of(run(ticks=200, actors=60)), tmp_path)
    difference = compare(found, run(ticks=200, actors=60, change=(101, 17, "x_m", 5.0)))
    (actor,) = difference.actors
    assert actor.actor == 17
    assert actor.equal_tick < 101 <= actor.tick <= actor.equal_tick + 10
    assert f"equal until tick {actor.equal_tick}" in " ".join(difference.words())


@given(st.integers(1, 40), st.integers(1, 3), st.sampled_from(["x_m", "y_m", "z_m", "vx_mps"]), st.sampled_from([0.25, -3.5]))
def test_actor_tick_field_and_values_of_any_change_are_found(tick, actor, channel, value):
    golden, now = golden_of(run()), run(change=(tick, actor, channel, value))
    difference = compare(golden, now)
    first, *followers = difference.actors
    assert not followers
    assert (first.actor, first.tick, difference.tick) == (actor, tick, tick)
    assert first.equal_tick == (tick - 1 if tick > 1 else None)
    assert first.fields in ((channel,), ())  # a byte may hide it: see below
    assert difference.where == "state"
    kept = [state for state in golden.states if state.actor == actor and state.tick >= tick]
    assert first.changes_tick == kept[0].tick
    if first.changes_tick == tick:
        (change,) = first.changes
        assert (change.field, change.now) == (channel, value)
        assert change.golden == kept[0].values[CHANNELS.index(channel)]
    else:
        assert first.changes == ()
    if channel in ("x_m", "y_m", "z_m"):
        row = np.flatnonzero((now.tick == tick) & (now.actor == actor))[0]
        true_m = abs(run().values[row, CHANNELS.index(channel)] - value)
        assert abs(difference.max_apart_m - true_m) <= PATH_ERROR_M
        assert (difference.max_apart_tick, difference.max_apart_actor) == (tick, actor)
    else:
        assert difference.max_apart_m == 0


def test_of_120_fields_that_changed_one_at_most_is_overlooked_and_none_is_invented():
    golden = golden_of(run())
    changes = [(tick, actor, channel) for tick in range(1, 41) for actor, channel in ((1, "x_m"), (2, "vx_mps"), (3, "z_m"))]
    found = [compare(golden, run(change=(*change, 0.75))).actors[0].fields for change in changes]
    assert all(fields in ((channel,), ()) for fields, (_, _, channel) in zip(found, changes, strict=True))
    assert sum(not fields for fields in found) <= 1


def test_the_last_bit_and_the_sign_of_zero_count():
    tiny = np.nextafter(run().values[0, 0], np.inf)
    assert compare(golden_of(run()), run(change=(1, 1, "x_m", float(tiny)))).actors[0].fields == ("x_m",)
    zero = golden_of(run(change=(20, 2, "vx_mps", 0.0)))
    (actor,) = compare(zero, run(change=(20, 2, "vx_mps", -0.0))).actors
    assert (actor.tick, actor.fields) == (20, ("vx_mps",))


def test_two_numbers_in_256_share_a_byte_and_no_more():
    numbers = stream(3, "tags").normal(0.0, 10.0, (4000, 1))
    tags = field_tags(np.zeros(4000), numbers)[:, 1]
    equal = np.mean(tags[:-1] == tags[1:])
    assert 0.5 / 256 < equal < 2 / 256
    assert np.bincount(tags, minlength=256).min() > 0


def test_what_comes_first_is_told_first():
    hit = (9, "collision", 1, 2, (1.0, 0.0, 0.0))
    before = golden_of(run(events=[hit]))
    event = compare(before, run(events=[(9, "collision", 1, 2, (1.5, 0.0, 0.0))]))
    assert (event.where, event.tick, event.actors) == ("event", 9, ())
    assert "impulse 1.5, 0.0, 0.0 N s] instead of collision of actor 1 with actor 2" in event.words()[0]
    assert event.structure == ()
    missing = compare(before, run())
    assert missing.structure == ("Collisions: none instead of 1 with 2",)
    end = compare(before, run(events=[hit], end="tired"))
    assert (end.where, end.tick) == ("end", 40)
    assert (
        end.words()[0] == "First difference at tick 40 (4 s): the run ends by 'tired' at tick 40 instead of 'done' at tick 40."
    )
    both = compare(before, run(events=[hit], end="tired", change=(12, 2, "x_m", 1.0)))
    assert (both.where, both.tick) == ("state", 12)
    assert "Last common event: collision of actor 1 with actor 2 at tick 9 [impulse 1.0, 0.0, 0.0 N s]." in both.words()


def test_actors_and_ticks_that_are_gone_or_new_are_named():
    before = golden_of(run())
    (gone,) = compare(before, run(gaps={(11, 2)})).actors
    assert (gone.actor, gone.tick, gone.present, gone.equal_tick) == (2, 11, False, 10)
    fewer = compare(before, run(actors=2))
    assert [(difference.actor, difference.tick, difference.present) for difference in fewer.actors] == [(3, 1, False)]
    assert fewer.structure == ("Other actors: without 3 (walker)",)
    more = compare(golden_of(run(actors=2)), run())
    assert [(difference.actor, difference.expected) for difference in more.actors] == [(3, False)]
    shorter = compare(before, run(ticks=30))
    assert (shorter.where, shorter.tick) == ("end", 30)
    assert "Actor 1 has 30 states instead of 40" in shorter.structure


def test_other_channels_are_named_and_what_both_have_is_compared():
    narrow = run(channels=CHANNELS[:4])
    same = compare(golden_of(run()), narrow)
    assert (same.channels_gone, same.channels_new, same.actors) == (("throttle_ratio",), (), ())
    assert same.words()[0] == "The channels are others, without throttle_ratio; what both have is the same."
    other = compare(golden_of(run()), run(channels=CHANNELS[:4], change=(8, 1, "y_m", 0.5)))
    assert (other.actors[0].tick, other.actors[0].fields) == (8, ("y_m",))


def test_what_only_the_digest_knows_is_said_to_be_just_that():
    many = [(tick, "collision", 1, 2, (float(tick), 0.0, 0.0)) for tick in range(1, 91)]
    before = golden_of(run(ticks=100, events=many))
    assert len(before.events) < before.event_count
    late = compare(before, run(ticks=100, events=[*many[:-1], (90, "collision", 1, 2, (0.5, 0.0, 0.0))]))
    assert late.words()[0].startswith("The digests differ, but nothing that the golden file keeps does")
    assert not late.actors
    more = compare(before, run(ticks=100, events=[*many, (95, "collision", 1, 2)]))
    assert more.structure == ("94 events instead of 93",)
    order = compare(golden_of(run()), run(channels=(*CHANNELS[:3], "throttle_ratio", "vx_mps")))
    assert order.words()[0].startswith("The digests differ, but nothing that the golden file keeps does: the order of channels")


def test_paths_are_kept_to_a_part_of_a_millimetre():
    kept = golden_of(run()).actors[0]
    true = run().values[run().actor == 1][:, :3]
    assert np.abs(kept.path * PATH_STEP_M - true).max() <= PATH_STEP_M / 2
    assert math.sqrt(3) * PATH_STEP_M / 2 == PATH_ERROR_M < 6e-5


@pytest.mark.parametrize("far", [2e9, 1e90])
def test_places_that_cannot_be_rounded_are_no_reason_to_fail(far, tmp_path):
    found = through_file(golden_of(run(change=(5, 1, "x_m", far))), tmp_path)
    assert compare(found, run(change=(5, 1, "x_m", far))) is None
    assert compare(found, run()).actors[0].tick == 5


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "drive.golden"
    assert write_golden(path, cell_of([straight_run(0), straight_run(1)]), progress=False).written
    return path


def checked(path, *runs, **how):
    return check_golden(path, cell_of(runs), progress=False, **how)


def test_the_same_run_is_the_same(golden):
    result = checked(golden, straight_run(0))
    assert (result.same, result.passes, result.verdict) == (True, True, "bit-identical")
    assert result.words() == ("cell: bit-identical, 1 run now",)
    rounded = check_golden(golden, cell_of([straight_run(0)], lossless=False), progress=False)
    assert rounded.verdict == "identical-at-resolution"


def test_a_tolerance_is_told_beside_the_exact_answer(golden):
    near = straight_run(0, shift=lambda tick, actor: 0.003 if tick > 10 else 0.0)
    exact = checked(golden, near)
    assert (exact.passes, exact.verdict) == (False, "exceeds-tolerance")
    near_enough = checked(golden, near, tolerance="1cm")
    assert (near_enough.passes, near_enough.same, near_enough.verdict) == (True, False, "within-tolerance")
    assert near_enough.words()[0] == "cell: within-tolerance, tolerance 1 cm; 0 of 1 run equal to the bit"
    assert "First difference at tick 11 (1.1 s): actor 1 (car), in at least y_m, 3 mm apart, equal until tick 10." in str(
        near_enough.words()
    )
    assert not checked(golden, near, tolerance="1 mm").passes
    with pytest.raises(InputError, match=r"at least 106 µm was wanted, but 1 um came: .* leave it out to compare bits"):
        checked(golden, near, tolerance="1 um")


def test_no_tolerance_permits_another_end_or_other_actors(golden):
    assert not checked(golden, straight_run(0, end="tired"), tolerance="100 m").passes
    assert not checked(golden, straight_run(0, actors=3), tolerance="100 m").passes
    assert not checked(golden, straight_run(0, ticks=19), tolerance="100 m").passes


def test_a_change_is_told_from_chance(golden):
    moved = [straight_run(n, shift=lambda tick, actor: 1.0) for n in range(3)]
    assert "All 3 runs of now are equal to each other: something changed, it is not chance." in str(
        checked(golden, *moved).words()
    )
    wavering = [straight_run(n, shift=lambda tick, actor, n=n: float(n and tick > 5)) for n in range(3)]
    (run,) = checked(golden, *wavering).runs
    assert (run.runs, run.equal, run.outcomes) == (3, 1, 2)
    assert "The 3 runs of now are 2 different ones: it does not repeat itself. Among themselves: repeat" in str(run.words())


def test_settings_versions_and_machines_that_changed_are_named(golden):
    found = read(golden)
    then = {**found.provenance, "cpu": {**found.provenance["cpu"], "model": "Z80"}}
    then["libraries"] = {**then["libraries"], "numpy": "1.0"}
    (run,) = found.runs
    write(golden, Golden((replace(run, header=replace(run.header, settings={"substeps": 4}, simulator_version="0.9")),), then))
    other = cell_of(
        [straight_run(0, shift=lambda tick, actor: 1.0)], settings={"substeps": 5, "queue": "stable"}, simulator_version="1.0"
    )
    words = "\n".join(check_golden(golden, other, progress=False).words())
    assert "Setting substeps is 5, was 4." in words
    assert "Setting queue is 'stable', was not there." in words
    assert "Changed: its version is 1.0, was 0.9." in words
    assert re.search(r"Not the same here: libraries: numpy [\d.]+ instead of 1.0; CPU .* instead of Z80", words)
    assert re.search(r"Written by samepath [\d.]+ .*Python 3[\d.]+, Z80, glibc", words)


def test_the_json_has_the_whole_answer(golden):
    result = checked(golden, straight_run(0, shift=lambda tick, actor: float(tick > 3 and actor == 2)))
    document = json.loads(result.to_json())
    assert (document["same"], document["passes"], document["verdict"]) == (False, False, "exceeds-tolerance")
    (run,) = document["runs"]
    assert run["difference"]["tick"] == 4
    (actor,) = run["difference"]["actors"]
    assert (actor["actor"], actor["tick"], actor["equal_tick"], actor["fields"]) == (2, 4, 3, ["y_m"])
    assert run["difference"]["max_apart_m"] == pytest.approx(1.0, abs=1e-4)
    assert set(actor["changes"][0]) == {"field", "golden", "now"}


def test_the_junit_has_a_case_for_each_run_with_its_figures(golden):
    root = ElementTree.fromstring(golden_junit(checked(golden, straight_run(0, shift=lambda tick, actor: float(tick > 3)))))
    (case,) = root.iter("testcase")
    figures = {figure.get("name"): figure.get("value") for figure in case.iter("property")}
    assert (figures["verdict"], figures["repeats"], figures["outcomes"]) == ("exceeds-tolerance", "1", "1")
    assert float(figures["max_deviation_m"]) == pytest.approx(1.0, abs=1e-4)
    assert case.find("failure").get("message").startswith("First difference at tick 4 (0.4 s): actor 1 (car)")
    green = ElementTree.fromstring(golden_junit(checked(golden, straight_run(0))))
    assert (green.get("failures"), green.find(".//failure")) == ("0", None)


def test_every_way_to_damage_a_file_is_refused_in_one_line(golden):
    text = golden.read_text()
    for length in range(0, len(text) - 1, 997):
        golden.write_text(text[:length])
        with pytest.raises(InputError, match=r"is cut off|is not a golden file|is damaged") as refused:
            read(golden)
        assert "\n" not in str(refused.value)
    for place in range(40, len(text), 499):
        if text[place] in " \n":
            continue  # how it is laid out is nobody's business
        changed = text[:place] + ("1" if text[place] != "1" else "2") + text[place + 1 :]
        golden.write_text(changed)
        with pytest.raises(InputError, match=r"not as it was written|is damaged|version|not a golden file|cut off"):
            read(golden)


def test_a_damaged_content_with_a_right_digest_is_still_refused(golden):
    """A digest can be worked out by anybody: what stands in the file is held against its meaning all the same."""
    from samepath.instrument.golden_file import _digest

    def spoil(change):
        document = json.loads(text)
        change(document)
        document.pop("digest")
        golden.write_text(json.dumps({**document, "digest": _digest(document)}))
        with pytest.raises(InputError, match=r"is damaged \(.*\): restore it from the repository"):
            read(golden)

    text = golden.read_text()
    first = json.loads(text)["runs"][0]["actors"][0]
    spoil(lambda document: document["runs"].clear())
    spoil(lambda document: document["runs"][0].pop("header"))
    spoil(lambda document: document["runs"][0]["header"].update(colour="red"))
    spoil(lambda document: document["runs"][0]["states"].append("1 2 3"))
    spoil(lambda document: document["runs"][0].update(plan={"name": "x"}))
    spoil(lambda document: document["runs"][0]["actors"][0].update(ticks=["????"]))
    spoil(lambda document: document["runs"][0]["actors"][0].update(tags=first["tags"][:0]))
    spoil(lambda document: document["runs"][0]["actors"][0].update(fields=first["path"]))
    spoil(lambda document: document["runs"][0]["actors"][0].update(tag_rows=first["ticks"]))


def test_a_bomb_is_not_unpacked(golden):
    import base64
    import zlib

    from samepath.instrument.golden_file import _digest

    document = json.loads(golden.read_text())
    bomb = zlib.compress(bytes(1 << 27), 9)
    document["runs"][0]["actors"][0]["path"] = [base64.b64encode(bomb).decode()]
    document.pop("digest")
    golden.write_text(json.dumps({**document, "digest": _digest(document)}))
    with pytest.raises(InputError, match="packed numbers that do not end where they should"):
        read(golden)


def test_foreign_and_newer_files_are_refused_by_what_they_are(golden, tmp_path):
    document = json.loads(golden.read_text())
    golden.write_text(json.dumps({**document, "version": 2}))
    with pytest.raises(InputError, match="version 2 of the format, but this samepath reads 1: use the samepath that wrote it"):
        read(golden)
    for content in (b"{}", b"[]", b"name: x\n", b"\xff\xfe\x00", b'{"format": "other"}', b"", b"[" * 100_000):
        golden.write_bytes(content)
        with pytest.raises(InputError, match="is not a golden file"):
            read(golden)
    with pytest.raises(InputError, match="No such file or directory; samepath golden write makes one"):
        read(tmp_path / "none.golden")
    with pytest.raises(InputError, match="Is a directory"):
        read(tmp_path)


def test_a_file_that_is_there_is_replaced_by_force_only_and_what_changes_is_told(golden):
    moved = cell_of([straight_run(0, shift=lambda tick, actor: float(tick > 4))])
    before = golden.read_bytes()
    with pytest.raises(InputError, match=r"is there already: .* --force replaces it"):
        write_golden(golden, moved, progress=False)
    assert golden.read_bytes() == before
    result = write_golden(golden, moved, force=True, progress=False)
    assert result.written
    assert result.changes[0] == "cell: changed"
    assert result.changes[1].startswith("  First difference at tick 5 (0.5 s): actor 1 (car), in at least y_m, 1 m apart")
    assert checked(golden, moved.repeats[0]).same


def test_a_file_that_would_say_the_same_is_left_alone(golden):
    found = read(golden)
    write(golden, replace(found, provenance={**found.provenance, "date_utc": "1999"}))
    before = golden.read_bytes()
    result = write_golden(golden, cell_of([straight_run(0), straight_run(1)]), force=True, progress=False)
    assert not result.written
    assert golden.read_bytes() == before
    assert result.words() == (f"{golden}: nothing changed, the file is left as it is",)


def test_a_damaged_file_can_be_replaced_by_force(golden):
    golden.write_text("{")
    result = write_golden(golden, cell_of([straight_run(0)]), force=True, progress=False)
    assert result.changes == (f"replaced: {golden} is not a golden file; samepath golden write makes one",)
    assert checked(golden, straight_run(0)).same


def test_runs_that_differ_make_no_golden_file(tmp_path):
    path = tmp_path / "x.golden"
    wavering = cell_of([straight_run(n, shift=lambda tick, actor, n=n: 0.002 * n) for n in range(3)])
    result = write_golden(path, wavering, progress=False)
    assert (result.written, result.golden, path.exists()) == (False, None, False)
    assert result.words()[1] == "  cell: 3 different outcomes in 3 runs"
    assert "parts from repeat 0 at tick 1" in result.words()[2]
    within = write_golden(path, wavering, tolerance="1cm", progress=False)
    assert within.written
    assert checked(path, straight_run(0, shift=lambda tick, actor: 0.006)).verdict == "within-tolerance"
    assert not checked(path, straight_run(0, shift=lambda tick, actor: 0.02)).passes


def test_logs_make_golden_files_and_are_checked_against_them(tmp_path, authors_log):
    path = tmp_path / "log.golden"
    result = write_golden(path, authors_log, progress=False)
    assert result.written
    assert check_golden(path, authors_log, progress=False).verdict == "identical-at-resolution"
    with pytest.raises(InputError, match="came from a log or a trace, which samepath cannot run: samepath golden check"):
        check_golden(path, progress=False)
    text = authors_log.read_text().splitlines()
    (tmp_path / "tsl_format.txt").write_text("\n".join(text))
    assert check_golden(path, tmp_path / "tsl_format.txt", progress=False).passes


def test_several_runs_in_a_file_are_found_by_name(tmp_path):
    a, b = (cell_of([straight_run(0, ticks=ticks)], cell=name) for name, ticks in (("a", 10), ("b", 12)))
    path = tmp_path / "two.golden"
    write_golden(path, a, b, progress=False)
    assert check_golden(path, b, a, progress=False).same
    with pytest.raises(InputError, match="none of the given cells is called 'b': a, c came"):
        check_golden(path, a, cell_of([straight_run(0)], cell="c"), progress=False)


STUDY = """
name: small
design:
  repeats: 2
  cells:
    - {simulator: control-exact, scenario: crossing, name: exact}
    - {simulator: control-two-outcomes, scenario: crossing, name: two}
execution: {isolation: inline}
"""


def test_the_folder_of_a_study_makes_a_golden_file_of_each_cell(tmp_path, monkeypatch):
    import samepath

    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(STUDY)
    samepath.run_study("s.yaml", "out", progress=False)
    result = write_golden("exact.golden", "out", cell="exact", progress=False)
    assert [(run.name, run.equal_runs) for run in result.golden.runs] == [("exact", 2)]
    assert check_golden("exact.golden", progress=False).same  # run again, from the study that is in its folder
    assert check_golden("exact.golden", "out/cells/exact", progress=False).same
    with pytest.raises(SamepathError, match="unknown cell of out 'exac': did you mean 'exact'"):
        write_golden("other.golden", "out", cell="exac", progress=False)


def test_a_study_cell_is_run_again_and_is_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(STUDY)
    path = tmp_path / "exact.golden"
    result = write_golden(path, "s.yaml", cell="exact", progress=False)
    assert result.golden.runs[0].equal_runs == 3
    assert check_golden(path, progress=False).same
    # Found again by another scenario of the same name: whoever changed the code behind it would see just that.
    found = read(path)
    (run,) = found.runs
    noisy = replace(run.plan, cells=(replace(run.plan.cells[0], simulator="control-two-outcomes"),))
    write(path, replace(found, runs=(replace(run, plan=noisy),)))
    (checked_run,) = check_golden(path, repeats=6, progress=False).runs
    assert 0 < checked_run.equal < checked_run.runs == 6
    assert checked_run.outcomes == 2
    assert (checked_run.difference.tick, checked_run.difference.actors[0].actor) == (91, 2)
    with pytest.raises(SamepathError, match=r"unknown cell of s.yaml 'exac': did you mean 'exact'"):
        write_golden(tmp_path / "n.golden", "s.yaml", cell="exac", progress=False)
    refused = write_golden(tmp_path / "n.golden", "s.yaml", cell="two", repeats=8, progress=False)
    assert refused.refused[0] == "two: 2 different outcomes in 8 runs"


def test_a_scenario_file_is_found_from_the_golden_file_wherever_the_two_lie(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "scenarios").mkdir(parents=True)
    actors = [{"id": 1, "type": "vehicle.mercedes.coupe", "path": [[0, 0], [5, 0]]}]
    scenario = {"name": "mine", "duration": 0.5, "actors": actors}
    (first / "scenarios" / "mine.yaml").write_text(json.dumps(scenario))
    simulator = "tests.support.search_simulators:Parting"
    study = {"name": "s", "design": {"simulators": simulator, "scenarios": "scenarios/mine.yaml"}}
    (first / "s.yaml").write_text(json.dumps({**study, "execution": {"isolation": "inline"}}))
    monkeypatch.chdir(first)
    (first / "golden").mkdir()
    write_golden("golden/mine.golden", "s.yaml", repeats=1, progress=False)
    first.rename(second)
    monkeypatch.chdir("/")
    assert check_golden(second / "golden" / "mine.golden", progress=False).same
    file = second / "scenarios" / "mine.yaml"
    file.write_text(json.dumps({**scenario, "actors": [{**actors[0], "path": [[0, 1], [5, 0]]}]}))
    lines = check_golden(second / "golden" / "mine.golden", progress=False).words()
    assert lines[0].endswith(": not the same; 0 of 3 runs equal to the bit"), "no tolerance was given, so none is exceeded"
    assert lines[1].strip().startswith("The scenario file "), "the reason comes before what follows from it"
    words = "\n".join(lines)
    assert "First difference at tick 1 (0.1 s): actor 1 (vehicle.mercedes.coupe), in at least y_m, 1 m apart." in words
    assert "mine.yaml is not what it was when the golden file was written." in words
    file.unlink()
    with pytest.raises(InputError, match="which is not there: restore it"):
        check_golden(second / "golden" / "mine.golden", progress=False)


@pytest.mark.parametrize("repeats", [0, 1001])
def test_senseless_numbers_of_repeats_are_refused(golden, repeats):
    with pytest.raises(InputError, match=f"1 to 1000 repeats were wanted, but {repeats} came"):
        check_golden(golden, repeats=repeats, progress=False)
    with pytest.raises(InputError, match="a scenario, a study, a log or a trace was wanted"):
        write_golden(golden.with_name("new.golden"), progress=False)
    with pytest.raises(InputError, match=r"the folder .* is not there"):
        write_golden(golden.parent / "no" / "new.golden", MemoryCell(header(), [straight_run(0)]), progress=False)
