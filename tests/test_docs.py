"""The documentation is true: its examples are run, its commands exist, its figures are computed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from samepath.cli.app import VERBS
from samepath.engines import registry
from samepath.engines.conformance import CHECKS
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.verdict import repeats_needed, repeats_until_stop
from samepath.instrument.report.document import cell_object
from samepath.instrument.study.levels import CONDITIONS
from samepath.instrument.study.plan import built_in_studies, make_plan
from samepath.instrument.study.records import Combination, Isolation, Order
from samepath.instrument.study.spec import AnalysisSpec, CellSpec, DesignSpec, ExecutionSpec, StudySpec, VariantSpec, keys_of
from samepath.instrument.traces.importers import ImportOptions

ROOT = Path(__file__).parents[1]
# Pages name modules from the package, or from the part they are about.
PARTS = ("", "instrument", "simulator", "simulator/sensors", "cluster")


def blocks(name, language):
    text = (ROOT / name).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def run_block(text):
    names = {"__name__": "docs_example"}
    exec(compile(text, "docs", "exec"), names)
    return names


def test_the_example_importer_works(tmp_path):
    importer = run_block(blocks("docs/importers.md", "python")[0])["JsonLinesImporter"]()
    path = tmp_path / "log.jsonl"
    rows = [{"run": r, "tick": t, "actor": 1, "x": 0.1 * t, "y": 0.0} for r in range(3) for t in range(5)]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert importer.accepts(path, b"")
    (cell,) = importer.read([path], ImportOptions())
    assert analyse_cell(cell).judgement.verdict == "bit-identical"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_example_simulator_conforms(check):
    check(run_block(blocks("docs/simulators.md", "python")[0])["MySimulator"])


def test_the_example_study_is_what_the_text_says_of_it():
    example, versions = blocks("docs/studies.md", "yaml")
    assert {cell.condition["packages"] for cell in make_plan(versions, "docs").cells} == {
        "venvs/mujoco-3.2",
        "venvs/mujoco-4.0",
    }
    names = [cell.name for cell in make_plan(example, "docs").cells]
    text = " ".join((ROOT / "docs" / "studies.md").read_text("utf-8").split())
    assert f"= {len(names)} cells" in text
    assert f"`{names[-2]}`" in text


def test_every_key_of_a_study_is_documented():
    text = (ROOT / "docs" / "studies.md").read_text("utf-8")
    for model in (StudySpec, DesignSpec, VariantSpec, CellSpec, ExecutionSpec, AnalysisSpec):
        for key in keys_of(model):
            assert f"`{key}`" in text or f"\n{key}:" in text, key
    for name in (*CONDITIONS, *Combination, *Isolation, *Order):
        assert f"`{name}`" in text, name


def test_the_first_example_prints_what_the_page_says(tmp_path):
    (log,) = [block for block in blocks("docs/start.md", "text") if block.startswith("repeat,time")]
    (tmp_path / "log.csv").write_text(log)
    example = next(block for block in blocks("docs/start.md", "console") if "samepath analyse" in block)
    command, _, expected = example.partition("\n")
    arguments = command.removeprefix("$ .venv/bin/samepath ").split()
    result = subprocess.run(
        [sys.executable, "-m", "samepath", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert [line.rstrip() for line in result.stdout.splitlines()] == expected.splitlines()


def test_what_the_readme_shows_of_a_report_is_what_the_start_page_shows():
    """One run, told twice: a shortened copy must not become another story."""
    (short,) = blocks("README.md", "text")
    whole = next(block for block in blocks("docs/start.md", "text") if "Is it deterministic?" in block)
    assert [line for line in short.splitlines() if line] == [line for line in whole.splitlines() if line][
        : len(short.splitlines())
    ]


def test_the_readme_fits_a_screen():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 60
    assert "docs/parting.gif" in text


def test_the_readmes_commands_are_make_targets():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    commands = re.findall(r"^\$ make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert commands == ["study", "test"]
    assert set(commands) <= set(targets)


def test_every_test_that_a_page_names_is_there():
    """A promise whose test is gone is a promise that nothing holds."""
    named = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
    promises = named.findall((ROOT / "docs" / "promises.md").read_text("utf-8"))
    assert len(promises) > 40
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for file, test in named.findall(path.read_text("utf-8")):
            assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{path.name}: {file}::{test}"


def test_every_promise_has_a_test_or_a_measurement():
    rows = [line for line in (ROOT / "docs" / "promises.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    for row in rows:
        if not row.startswith("| promise"):
            assert "::test_" in row or "python -m bench " in row, row


def test_every_standard_channel_and_column_of_a_trace_is_documented(tmp_path, monkeypatch):
    import pyarrow.parquet as pq

    import samepath
    from samepath.core.channels import RESAMPLING, STANDARD

    text = (ROOT / "docs" / "traces.md").read_text("utf-8")
    samepath.store(samepath.load(ROOT / "tests" / "data" / "tsl_format.txt"), tmp_path / "runs" / "demo")
    columns = {name for part in tmp_path.rglob("*.parquet") if "host" not in part.name for name in pq.read_schema(part).names}
    assert {"repeat", "digest", "events", "x_m"} <= columns
    for name in (*STANDARD, RESAMPLING, *columns):
        assert f"`{name}`" in text, name
    monkeypatch.chdir(tmp_path)
    names = run_block(blocks("docs/traces.md", "python")[0])
    assert names["repeat"].values.shape[1] == len(names["repeat"].channels)


def test_every_page_is_in_the_navigation_of_the_site():
    import yaml

    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = set(re.findall(r": ([\w/-]+\.md)$", text, re.MULTILINE))
    assert listed == {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert [next(iter(part)) for part in yaml.safe_load(text)["nav"]][:4] == ["Home", "Start", "Tutorials", "Concepts"]
    home = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert {page for page in listed if f"({page})" not in home and not page.startswith("engines/")} == {"index.md"}


def test_every_verb_that_is_mentioned_exists():
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")):
        for verb in re.findall(r"(?:\$ |`|\.venv/bin/)samepath ([a-z]+)", path.read_text("utf-8")):
            assert verb in VERBS, f"{path.name}: samepath {verb}"


def test_links_between_documents_lead_somewhere():
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_key_of_the_json_is_documented():
    from tests.conftest import cell_of, straight_run

    documented = (ROOT / "docs" / "json.md").read_text("utf-8")
    for key in cell_object(analyse_cell(cell_of([straight_run(0), straight_run(1)]))):
        assert f"`{key}`" in documented, key


def test_every_control_and_study_is_documented():
    text = (ROOT / "docs" / "simulators.md").read_text("utf-8") + (ROOT / "docs" / "studies.md").read_text("utf-8")
    for name in [*registry.BUILT_IN, *built_in_studies()]:
        assert f"`{name}`" in text, name


def test_figures_in_the_concepts_are_right():
    text = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    assert f"{repeats_needed(0.001, 0.95)} for 1 in 1000" in text
    assert f"1 % after {repeats_until_stop(0.01)} clean repeats" in text


def test_every_path_of_ours_that_a_page_names_is_there():
    """A page that names a file which has moved sends its reader nowhere."""
    ours = re.compile(r"`((?:src|tests|bench|docs|deploy|\.ci)/[\w./-]+|[\w-]+(?:/[\w-]+)+\.py)`")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for named in ours.findall(path.read_text("utf-8")):
            places = (ROOT / named, *(ROOT / "src" / "samepath" / part / named for part in PARTS))
            assert any(place.exists() for place in places), f"{path.name}: {named}"


def test_the_table_of_limits_is_the_limits():
    from tests.support.limits_table import PAGE, written

    assert PAGE.read_text("utf-8") == written(), "write it anew: python -m tests.support.limits_table"
