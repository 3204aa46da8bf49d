"""``samepath record``: one command writes a dataset, says what it did, and errors are one line."""

import json
import sys

from typer.testing import CliRunner

from samepath.cli.app import app


def run(*words):
    return CliRunner().invoke(app, ["record", *map(str, words)])


def test_a_dataset_is_written_and_the_command_may_be_repeated(tmp_path):
    out = tmp_path / "data"
    words = ("table1-test2", "--out", out, "--rig", "small", "--every", 5, "--frames", 2, "--weather", "cloudiness=80")
    first = run(*words)
    assert first.exit_code == 0, first.output
    assert first.stdout.startswith(f"{out}: 2 frames, until: as many frames as asked for; digest ")
    again = run(*words)
    assert "2 frames (2 were there)" in again.stdout
    assert again.stdout.split()[-1] == first.stdout.split()[-1]
    header = json.loads((out / "dataset.json").read_text())
    assert header["weather"]["cloudiness"] == 80.0
    assert header["labels"]["14"] == "car"


def test_errors_are_one_line(tmp_path):
    for words, said in (
        (("table1-test2", "--out", tmp_path / "a", "--rig", "defalt"), "unknown rig 'defalt': did you mean 'default'?"),
        (("tabel1-test2", "--out", tmp_path / "a"), "unknown scenario 'tabel1-test2'"),
        (("table1-test2", "--out", tmp_path / "a", "--weather", "rain"), "--weather: NAME=VALUE was wanted"),
        (("table1-test2", "--out", tmp_path / "a", "--threads", "0"), "threads"),
    ):
        error = run(*words).exception
        assert said in str(error)
        assert "\n" not in str(error)


def test_attributes_out_of_range_are_refused_by_name_and_limit_and_leave_nothing(tmp_path):
    rig = tmp_path / "rig.yaml"
    for kind, given, said in (
        ("sensor.camera.rgb", "fov: 400", "fov: a number from 1 to 170 degrees was wanted, but 400 came"),
        ("sensor.lidar.ray_cast", "channels: 1000000", "channels: a whole number from 1 to 1024 was wanted, but 1000000 came"),
        ("sensor.other.radar", "points_per_second: 100000000", "at most 65536 rays in a measurement were wanted"),
    ):
        rig.write_text(f"name: r\nsensors:\n  - {{name: a, type: {kind}, attributes: {{{given}}}}}\n")
        error = run("table1-test2", "--out", tmp_path / "a", "--rig", rig).exception
        assert kind in str(error)
        assert said in str(error)
        assert "\n" not in str(error)
        assert not (tmp_path / "a").exists()


def test_one_file_for_viewers_on_request(tmp_path):
    out = tmp_path / "data"
    words = ("table1-test2", "--out", out, "--rig", "small", "--frames", 1, "--format")
    assert run(*words, "mcap").exit_code == 0
    assert (out / "dataset.mcap").read_bytes().startswith(b"\x89MCAP0\r\n")
    assert "1 frames (1 were there)" in run(*words, "mcap").stdout
    assert "holds another dataset" in str(run(*words, "files").exception)
    assert "format: files, mcap, coco or kitti was wanted, but 'bag' came" in str(run(*words, "bag").exception)


def test_without_the_compiler_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    error = run("table1-test2", "--out", tmp_path / "a").exception
    assert str(error) == "sensors need the compiler numba, which is not installed: pip install 'samepath[sensors]'"
