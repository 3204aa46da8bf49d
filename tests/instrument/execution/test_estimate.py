"""Estimates of time and disk: simple sums that can be checked on paper."""

import shutil

import pytest

from samepath.core.errors import StudyError
from samepath.instrument.execution.folder import check_room, free_bytes, size
from samepath.instrument.execution.rehearsal import SPOOL_BYTES, Rehearsal, estimate, guess_study_s, settle_time_s
from samepath.instrument.study.records import Isolation, Order
from tests.support.plans import cell, plan

TRIED = (
    Rehearsal("control-exact", "crossing", {}, 0.395, 0.295, 600, 1000, 100),
    Rehearsal("control-gaussian", "crossing", {}, 0.995, 0.895, 600, 2000, 400),
)


def study(**how):
    quiet = cell("control-exact", "quiet", repeats=10)
    loaded = cell("control-gaussian", "loaded", repeats=20, condition={"cpu_load": 0.5})
    return plan(quiet, loaded, isolation=Isolation.PROCESS, **{"settle_s": 6.0, **how})


def test_time_and_disk_are_sums_over_what_is_left():
    found = estimate(study(), TRIED)
    assert found.repeats == 30
    assert found.run_s == pytest.approx(10 * 0.4 + 20 * 1.0 * 1.25)
    assert found.settle_s == 6.0
    assert found.stored_bytes == 10 * 100 + 20 * 400
    assert found.spool_bytes == 10 * 1000 + 20 * 2000
    assert found.needed_bytes == int((9000 + 50000) * 1.1)
    half = estimate(study(processes=2), TRIED, {"loaded": range(20)})
    assert (half.repeats, half.run_s) == (10, pytest.approx(10 * 0.4 / 2))
    assert estimate(study(), TRIED, left_out=["loaded"]).settle_s == 0
    assert estimate(study(), TRIED, left_out=["loaded"]).repeats == 10


def test_repeats_that_share_a_process_do_not_pay_for_its_start():
    shared = plan(cell("control-exact", repeats=10), isolation=Isolation.BATCH)
    assert estimate(shared, TRIED).run_s == pytest.approx(10 * 0.3)
    forced = plan(cell("control-exact", repeats=10, condition={"hash_seed": 1}), isolation=Isolation.BATCH)
    assert estimate(forced, TRIED).run_s == pytest.approx(10 * 0.4)


def test_the_spool_never_grows_far_beyond_its_limit():
    many = tuple(cell("control-exact", f"c{n}", repeats=1000) for n in range(30))
    large = (Rehearsal("control-exact", "crossing", {}, 0.1, 0.1, 600, 10**6, 10**5),)
    assert estimate(plan(*many), large).spool_bytes == SPOOL_BYTES + 10**9


def test_each_change_of_load_settles_once():
    cells = [
        cell("control-exact", f"c{n}", repeats=4, condition={"cpu_load": load}) for n, load in enumerate((0.0, 0.5, 0.5, 0.9))
    ]
    assert settle_time_s(plan(*cells, settle_s=2.0), plan(*cells).slots) == 4.0
    grouped = plan(*cells, settle_s=2.0, blocks=2, order=Order.SPLIT_PLOT)
    assert settle_time_s(grouped, grouped.slots) <= 8.0


def test_a_study_that_would_fill_the_disk_is_refused(tmp_path):
    folder = tmp_path / "not" / "yet" / "there"
    assert free_bytes(folder) == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)
    check_room(folder, 1000)
    with pytest.raises(StudyError, match=r"needs about 1000\.0 TB, but .* are free there: make room"):
        check_room(folder, 10**15)


def test_sizes_are_written_for_people():
    assert [size(n) for n in (0, 999, 1234, 123456, 5.6e9, 2e15)] == [
        "0 bytes",
        "999 bytes",
        "1.2 kB",
        "123 kB",
        "5.6 GB",
        "2000.0 TB",
    ]


def test_a_loop_in_real_time_is_guessed_to_take_longer_than_one_that_hurries():
    fast, slow = (plan(cell("samepath-game-loop", "loop", repeats=100, settings=given)) for given in ({}, {"time_scale": 1.0}))
    assert guess_study_s(slow) > 10 * guess_study_s(fast) > 0
