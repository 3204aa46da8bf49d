"""What the pages say of monitors and growing n is what the code does and what was counted."""

import json
import re

import yaml
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.instrument.analysis.assertions import wilks_share
from samepath.instrument.evaluation import monitor_set
from samepath.instrument.monitors.file import KINDS
from samepath.instrument.monitors.monitor import DISTANCE_BANDS_M, SPEED_BANDS_MPS
from tests.support import ROOT

MONITORS = (ROOT / "docs" / "monitors.md").read_text("utf-8")
STUDIES = (ROOT / "docs" / "studies.md").read_text("utf-8")


def test_the_example_file_is_read():
    (text,) = re.findall(r"```yaml\n(.*?)```", MONITORS, re.DOTALL)
    data = yaml.safe_load(text)
    data["monitors"] = [monitor for monitor in data["monitors"] if isinstance(monitor, str) or "function" not in monitor]
    assert len(monitor_set(data).monitors) == 4


def test_the_example_of_a_mistake_is_the_line_that_is_printed(tmp_path):
    path = tmp_path / "monitors.yaml"
    path.write_text("monitors: [1 < 2, 2 < 3, 'speed(1) < 3 and tcc(1, 2) > 1']\n")
    (tmp_path / "log.csv").write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    result = CliRunner().invoke(app, ["analyse", str(tmp_path / "log.csv"), "--monitors", str(path)])
    printed = f"samepath: {result.exception}".replace(f"{tmp_path}/", "")
    assert printed in MONITORS


def test_every_kind_and_every_band_is_named():
    assert all(f"`{kind}`" in MONITORS for kind in KINDS)
    words = " ".join(MONITORS.split())
    assert f"speeds part at {', '.join(f'{band:g}' for band in SPEED_BANDS_MPS)} m/s" in words
    assert f"distances at {', '.join(f'{band:g}' for band in DISTANCE_BANDS_M)} m" in words


def test_the_share_of_a_hundred_repeats_is_right():
    assert f"speaks for {100 * wilks_share(100, 0.95):.3g} % of all" in MONITORS


def test_the_example_of_plan_is_what_it_prints():
    (example,) = [block for block in re.findall(r"```console\n(.*?)```", STUDIES, re.DOTALL) if "samepath plan" in block]
    command, _, expected = example.partition("\n")
    result = CliRunner().invoke(app, command.removeprefix("$ samepath ").split())
    assert result.stdout == expected


def test_the_counts_of_false_acceptance_are_those_of_the_bench():
    figures = json.loads((ROOT / "bench" / "results" / "growing.json").read_text("utf-8"))["figures"]
    one_percent, five = (figures[f"rate {rate}, until rate < {rate}"] for rate in ("0.01", "0.05"))
    assert one_percent["studies"] == five["studies"] == 10000
    counted = f"{one_percent['accepted']} false acceptances at 1 % and {five['accepted']} at 5 %; 500 are allowed"
    assert counted in " ".join(STUDIES.split())
    assert max(one_percent["accepted"], five["accepted"]) <= 500
