"""``samepath new``: a study to begin with, and the schema that lets an editor check it."""

import json
from importlib import resources

import jsonschema
import pytest
import typer
import yaml
from typer.testing import CliRunner

from samepath.cli.study import new
from samepath.core.errors import SamepathError
from samepath.instrument.execution.rehearsal import check_plan
from samepath.instrument.study.levels import CONDITIONS
from samepath.instrument.study.plan import built_in_studies, load_plan, make_plan
from samepath.instrument.study.spec import AnalysisSpec, CellSpec, DesignSpec, ExecutionSpec, StudySpec, VariantSpec, keys_of
from samepath.instrument.study.starter import FILE_NAME, starter_text, study_schema, study_schema_text

VALIDATOR = jsonschema.Draft202012Validator(study_schema())
APP = typer.Typer()
APP.command()(new)


def run(*arguments):
    return CliRunner().invoke(APP, list(map(str, arguments)))


def refused(*arguments):
    result = run(*arguments)
    assert isinstance(result.exception, SamepathError), result
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_the_starter_runs_as_it_is(tmp_path):
    result = run(tmp_path / "my-study.yaml")
    assert result.exit_code == 0
    assert "samepath study" in result.stdout
    plan = load_plan(str(tmp_path / "my-study.yaml"))
    check_plan(plan)
    assert plan.name == "my-study"
    assert plan.repeats <= 20, "small enough to try"
    check_plan(load_plan(str(tmp_path / "my-study.yaml"), full=True))


def test_the_starters_first_line_leads_an_editor_to_the_schema(tmp_path):
    run(tmp_path / "mine.yaml")
    first = (tmp_path / "mine.yaml").read_text().splitlines()[0]
    assert first == f"# yaml-language-server: $schema={FILE_NAME}"
    jsonschema.validate(yaml.safe_load((tmp_path / "mine.yaml").read_text()), json.loads((tmp_path / FILE_NAME).read_text()))


def test_the_starter_mentions_everything_a_study_can_say():
    text = starter_text("x")
    for model in (StudySpec, DesignSpec, ExecutionSpec, AnalysisSpec):
        for key in keys_of(model):
            assert f"{key}:" in text or key in ("resolution", "repeats_per_process"), key
    assert all(f"{name}:" in text for name in CONDITIONS)


def test_every_example_in_the_starters_comments_can_be_taken_as_it_is():
    lines = starter_text("x").splitlines()
    examples = [
        index for index, line in enumerate(lines) if line.startswith("  # ") and line[4] != " " and ":" in line.split("# ")[1]
    ]
    assert len(examples) > 20
    for index in examples:
        cells = lines[index].startswith("  # cells")
        changed = [
            line.replace("  # ", "  ", 1) if number in (index, index + cells) else line for number, line in enumerate(lines)
        ]
        make_plan("\n".join(changed), lines[index])


@pytest.mark.parametrize("name", ["1", "true", "a: b", "étude", "it's", 'say "x"', "- a", "null"])
def test_any_name_a_file_can_have_is_read_back(name):
    assert make_plan(starter_text(name), "x").name == name


def test_nothing_is_overwritten(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("precious")
    assert "is there already" in refused(mine)
    assert mine.read_text() == "precious"
    (tmp_path / FILE_NAME).write_text("precious")
    assert "no schema of samepath's" in refused(tmp_path / "other.yaml")
    assert (tmp_path / FILE_NAME).read_text() == "precious"
    assert not (tmp_path / "other.yaml").exists()
    (tmp_path / FILE_NAME).write_text('{"title": "samepath study", "version": "old"}')
    assert run(tmp_path / "other.yaml").exit_code == 0
    assert (tmp_path / FILE_NAME).read_text() == study_schema_text(), "an older schema of ours is brought up to date"


def test_what_cannot_be_written_is_refused_in_one_line(tmp_path):
    assert "ends in .yaml" in refused(tmp_path / "mine.txt")
    assert "is not a folder" in refused(tmp_path / "none" / "mine.yaml")
    assert "cannot be the name of a study" in refused(tmp_path / f"{'x' * 150}.yaml")
    assert "a file to write was wanted" in refused()
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    assert "loop.yaml" in refused(loop)


def test_the_schema_is_printed_or_written(tmp_path):
    assert run("--schema").stdout == study_schema_text()
    assert run("--schema", tmp_path / "s.json").exit_code == 0
    assert (tmp_path / "s.json").read_text() == study_schema_text()
    assert "is there already" in refused("--schema", tmp_path / "s.json")


def test_the_schema_in_the_package_is_the_models():
    shipped = (resources.files("samepath.instrument.study") / "study.schema.json").read_text("utf-8")
    assert shipped == study_schema_text(), "write it anew: samepath new --schema > src/samepath/study/study.schema.json"


def test_the_schema_accepts_every_built_in_study_and_the_starter():
    jsonschema.Draft202012Validator.check_schema(study_schema())
    for name, text in {**built_in_studies(), "starter": starter_text("x")}.items():
        VALIDATOR.validate(yaml.safe_load(text))
        assert text.startswith("# yaml-language-server: $schema="), name


def test_every_key_is_described_to_an_editor():
    schema = study_schema()
    for name, model in (("DesignSpec", DesignSpec), ("ExecutionSpec", ExecutionSpec), ("AnalysisSpec", AnalysisSpec)):
        assert set(schema["$defs"][name]["properties"]) == set(keys_of(model))
    parts = [schema, *(schema["$defs"][model.__name__] for model in (DesignSpec, ExecutionSpec, VariantSpec, CellSpec))]
    for part in (*parts, schema["$defs"]["Conditions"]):
        assert all(field.get("description") for field in part["properties"].values())
    assert set(schema["$defs"]["Conditions"]["properties"]) == set(CONDITIONS)


@pytest.mark.parametrize(
    "change",
    [
        {"desing": {}},
        {"name": "a/b"},
        {"design": {"repeats": 1}},
        {"design": {"tolerance": "cm"}},
        {"design": {"combination": "all"}},
        {"design": {"cells": [{"simulator": "a"}]}},
        {"design": {"cells": [{"simulator": "a", "scenario": "b", "condition": {"cpu_load": [0, 1]}}]}},
        {"settings": {"substeps": [1]}},
        {"settings": {"substeps": {"a": 1}}},
        {"conditions": {"cpu_laod": 0}},
        {"conditions": {"cpu_load": [0, 1.3]}},
        {"conditions": {"nice": 20}},
        {"conditions": {"scheduler": "fife"}},
        {"conditions": {"cores": "3-"}},
        {"execution": {"isolation": "proces"}},
        {"execution": {"blocks": 0}},
        {"analysis": {"confidence": 95}},
        {"full": {"design": {"repaets": 3}}},
    ],
)
def test_an_editor_sees_the_mistakes_that_a_file_alone_can_show(change):
    good = {"name": "x", "design": {"simulators": "a", "scenarios": "b"}}
    assert VALIDATOR.is_valid(good)
    assert not VALIDATOR.is_valid(good | change)
    with pytest.raises(SamepathError):
        make_plan(yaml.safe_dump(good | change), "x")
