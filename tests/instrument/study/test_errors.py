"""A bad study file is refused in one line that says where, what came, and what to do. The lines are part of the product."""

from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import SamepathError
from samepath.instrument.study.levels import CONDITIONS, read_level
from samepath.instrument.study.plan import make_plan
from samepath.instrument.study.starter import study_schema

VALIDATOR = jsonschema.Draft202012Validator(study_schema())
BASE = "name: mine\ndesign:\n  simulators: samepath\n  scenarios: table1-test1\n"


def bad_files():
    """Read the table: what stands in a file, and the line it gives."""
    blocks = (Path(__file__).parent / "bad_files.txt").read_text("utf-8").split("\n\n")[1:]
    for block in blocks:
        text, _, line = block.rstrip("\n").rpartition("\n-> ")
        yield text if text.startswith(("name", "nme")) else BASE + text, line


@pytest.mark.parametrize(("text", "line"), list(bad_files()))
def test_a_bad_file_gives_exactly_this_line(text, line):
    with pytest.raises(SamepathError) as caught:
        make_plan(text, "my.yaml")
    assert str(caught.value) == line


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b", "3", "~"])
def test_something_that_is_no_study_is_refused(text):
    with pytest.raises(SamepathError, match=r"^my.yaml: a study with the keys name, description, design, .* was wanted$"):
        make_plan(text, "my.yaml")


WORDS = st.text(alphabet="ab 0:%[]\n\t\x7f\u2603", max_size=5) | st.sampled_from(
    ["75%", "on", "1 cm", "20 s", "process", "cold"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
STAGES = "name description design settings conditions execution analysis full"
DESIGN = "simulators scenarios cells tolerance repeats duration log_every seed combination resolution simulator scenario as"
OTHERS = "condition expect isolation repeats_per_process processes blocks order watchdog settle load_tool restrict confidence"
KEYS = st.sampled_from([*f"{STAGES} {DESIGN} {OTHERS}".split(), *CONDITIONS])
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | SCALARS, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(KEYS, DATA, max_size=5))
def test_whatever_a_file_holds_the_answer_is_a_plan_or_one_line(changes):
    known = {"name": "mine", "design": {"simulators": "samepath", "scenarios": "table1-test1", "repeats": 2}}
    for data in (known | changes, known | {"design": known["design"] | changes}, known | {"conditions": changes}):
        try:
            plan = make_plan(text := yaml.safe_dump(data, allow_unicode=True), "my.yaml")
        except SamepathError as error:
            assert "\n" not in str(error), data
        else:
            assert plan.cells
            assert VALIDATOR.is_valid(yaml.safe_load(text)), "what samepath accepts, an editor accepts"


@pytest.mark.parametrize("name", list(CONDITIONS))
def test_every_condition_reads_its_own_example_and_refuses_nonsense_in_one_line(name):
    levels = [read_level(name, level) for level in yaml.safe_load(CONDITIONS[name].example)]
    assert len(set(levels)) == len(levels) > 1
    assert [read_level(name, level) for level in levels] == levels, "a level that was read reads as itself"
    for nonsense in ("nonsense", "", "130%", -21, 1.5, float("nan")):
        with pytest.raises(ValueError, match=r"^.* was wanted, but .* came$"):
            read_level(name, nonsense)


@pytest.mark.parametrize(
    ("name", "written", "level"),
    [
        ("cpu_load", "75%", 0.75),
        ("cpu_load", " 7.5 % ", 0.075),
        ("cpu_load", 1, 1.0),
        ("cores", 3, "3"),
        ("cores", "3,0,1,2,7", "0-3,7"),
        ("aslr", "off", False),
        ("hash_seed", 4294967295, 4294967295),
    ],
)
def test_levels_have_one_form_however_they_are_written(name, written, level):
    found = read_level(name, written)
    assert (found, type(found)) == (level, type(level))
