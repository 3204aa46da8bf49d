"""Many schedules, in parts: what is interrupted goes on, shards make a whole, and what other code played counts for nothing."""

import json
from statistics import median

import pytest

from bench import __main__ as bench
from bench import cluster_simulation, schedule_ledger
from bench.schedule_ledger import Found, Ledger, Played, Shard, chunks_of
from samepath.core.errors import InputError
from tests.support import ROOT

SEEDS = range(13, 33)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(schedule_ledger, "CHUNK", 5)


def run(capsys, *options, ends=0):
    """The counts that a run prints."""
    seeds = ["--schedules", str(len(SEEDS)), "--seed", str(SEEDS.start), "--json", "--processes", "1"]
    assert bench.main(["cluster-simulation", *seeds, *map(str, options)]) == ends
    return json.loads(capsys.readouterr().out)


def nobody_plays(*_):
    raise AssertionError("everything has been played")


def test_chunks_are_all_of_a_run_and_those_of_a_longer_one():
    chunks = chunks_of(SEEDS)
    assert [seed for chunk in chunks for seed in chunk] == list(SEEDS)
    assert [chunk.start for chunk in chunks] == [13, 15, 20, 25, 30]
    assert set(chunks[:-1]) <= set(chunks_of(range(13, 60)))
    assert chunks_of(range(15, 17)) == [range(15, 17)]


def test_a_run_that_ends_early_goes_on_and_finds_what_one_in_a_piece_finds(tmp_path, capsys, monkeypatch):
    whole = run(capsys)
    part = run(capsys, "--out", tmp_path, "--budget-s", "1e-9")
    assert part["schedules"] == 0
    played = []
    real = cluster_simulation.play

    def stop_after_two(mutation, seeds):
        if len(played) == 2:
            raise KeyboardInterrupt
        played.append(seeds)
        return real(mutation, seeds)

    monkeypatch.setattr(cluster_simulation, "play", stop_after_two)
    with pytest.raises(SystemExit, match="started again it goes on"):
        run(capsys, "--out", tmp_path)
    capsys.readouterr()
    (path,) = tmp_path.rglob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"played": [20, 5, 1')  # killed while it wrote
    monkeypatch.setattr(cluster_simulation, "play", lambda mutation, seeds: played.append(seeds) or real(mutation, seeds))
    assert run(capsys, "--out", tmp_path) == whole
    assert played == chunks_of(SEEDS)  # each once
    monkeypatch.setattr(cluster_simulation, "play", nobody_plays)
    assert run(capsys, "--out", tmp_path) == whole


def test_shards_make_a_whole(tmp_path, capsys, monkeypatch):
    whole = run(capsys)
    halves = [run(capsys, "--out", tmp_path, "--shard", f"{number}/2")["schedules"] for number in (1, 2)]
    assert halves == [2 + 5 + 3, 20]  # the second one finds the ledger of the first
    monkeypatch.setattr(cluster_simulation, "play", nobody_plays)
    assert run(capsys, "--out", tmp_path) == whole


def test_what_other_code_played_counts_for_nothing(tmp_path, capsys, monkeypatch):
    run(capsys, "--out", tmp_path)
    monkeypatch.setattr(cluster_simulation, "code_measured", lambda: {"commit": "", "digest": "another", "clean": False})
    monkeypatch.setattr(cluster_simulation, "play", nobody_plays)
    with pytest.raises(AssertionError, match="everything has been played"):
        run(capsys, "--out", tmp_path)


def test_a_ledger_is_written_by_one_run_at_a_time_and_read_as_it_was(tmp_path):
    broken = Played(0, 5, 100, 9, ((3, "a frame was lost"),), 0.5, "w", 1000)
    found = Found("barrier-early", 7, None, "")
    with Ledger(tmp_path) as ledger:
        ledger.add(broken)
        ledger.add(found)
        with pytest.raises(InputError, match="another run writes"):
            Ledger(tmp_path)
        with Ledger(tmp_path, Shard(2, 2)) as other:
            assert other.of(range(5)) == [broken]
    with Ledger(tmp_path) as again:
        assert again.of(range(5)) == [broken]
        assert again.found == {("barrier-early", 7): found}
        assert again.missing(range(10)) == [range(5, 10)]
    (tmp_path / "odd.jsonl").write_text("{}\n")
    with pytest.raises(InputError, match="no line of a ledger"):
        Ledger(tmp_path)


def test_memory_that_grows_is_seen():
    parts = [Played(5 * k, 5, 10, 1, (), 0.1, "a" if k % 2 else "b", 1000 + (100 * k if k % 2 else 0)) for k in range(20)]
    rates = cluster_simulation._rates(parts, 60.0, 2)
    assert rates["worker_bytes_grown_most"] == 100 * (19 - 5)
    assert rates["worker_bytes_most"] == 1000 + 1900
    assert rates["schedules_of_one_worker_most"] == 50
    assert rates["schedules_per_minute_and_process"] == 3000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--shard", "3/2"), "a shard such as 2/4"),
        (("--shard", "one"), "a shard such as 2/4"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(options, said, tmp_path):
    with pytest.raises(SystemExit, match=said):
        bench.main(["cluster-simulation", "--schedules", "1", *options])


@pytest.mark.parametrize(
    "options", [("--budget-s", "0"), ("--budget-s", "nan"), ("--mutate", "barrier-early", "--shard", "1/2")]
)
def test_options_that_make_no_sense_are_refused(options, capsys):
    with pytest.raises(SystemExit):
        bench.main(["cluster-simulation", "--schedules", "1", *options])
    assert "error:" in capsys.readouterr().err


def test_the_page_says_what_the_kept_result_says():
    figures = json.loads((ROOT / "bench" / "results" / "cluster_simulation.json").read_text("utf-8"))["figures"]
    page = (ROOT / "docs" / "cluster.md").read_text("utf-8")
    said = f"{figures['schedules']:,}: {figures['ticks']:,} ticks, {figures['events']:,} events"
    assert said in page
    assert f"| promises broken | {figures['violations']}" in page
    for bug, counts in figures["mutations"].items():
        assert f"{bug} {median(counts):.0f} ({max(counts)})" in page
