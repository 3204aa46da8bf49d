"""What a release is made of agrees with itself: versions, Pythons, licences, workflows."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import samepath
from bench import __main__ as bench
from samepath.engines.carla.engine import NEWEST_PYTHON, how_to_install

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def test_every_place_names_the_same_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == samepath.__version__
    assert citation["license"] == PROJECT["license"]
    assert samepath.__version__ in re.findall(
        r"^## .*?(\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )


def test_the_pythons_that_are_promised_are_those_that_are_tested():
    promised = [classifier.rpartition(" ")[2] for classifier in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", classifier)]
    assert WORKFLOWS["test"]["jobs"]["test"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_where_carlas_client_has_no_wheel_one_is_told_so():
    after = f"{NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1] + 1}"
    for extra in ("carla", "test"):
        (line,) = [requirement for requirement in PROJECT["optional-dependencies"][extra] if requirement.startswith("carla>")]
        assert f"python_version < '{after}'" in line
    assert how_to_install((3, NEWEST_PYTHON[1])) == "pip install 'samepath[carla]'"
    assert how_to_install((3, NEWEST_PYTHON[1] + 1)).startswith(f"it has no wheel for Python {after}; use Python 3.12 or 3.11")


def test_what_is_shipped_of_others_has_its_licence_beside_it():
    page = ROOT / "src" / "samepath" / "instrument" / "viewer" / "page"
    licences = (page / "LICENSES.txt").read_text("utf-8")
    packages = yaml.safe_load((ROOT / "web" / "viewer" / "package.json").read_text("utf-8"))
    for name, version in packages["dependencies"].items():
        assert f"{name}.js {version.lstrip('^~')}" in licences, name
    assert "three.js" in (ROOT / "docs" / "licences.md").read_text("utf-8")


@pytest.mark.parametrize("name", sorted(WORKFLOWS))
def test_a_workflow_may_do_no_more_than_it_needs(name):
    workflow = WORKFLOWS[name]
    assert workflow["permissions"] == {"contents": "read"}
    text = (ROOT / ".github" / "workflows" / f"{name}.yml").read_text("utf-8")
    assert "secrets." not in text
    # A commit, because whoever owns a tag can move it; the release that it is of stands beside it.
    for used in re.findall(r"uses: (.+)", text):
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"make (\w+)", text)) <= set(targets)
    known = {*bench.BENCHMARKS, *bench.WHEN_NAMED, *bench.ALONE}
    assert set(re.findall(r"-m bench (\w+)", text)) <= known


def test_an_action_is_the_same_commit_wherever_it_is_used():
    texts = [path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    used = {(name, commit) for text in texts for name, commit in re.findall(r"uses: (\S+)@(\S+)", text)}
    assert len(used) == len({name for name, _ in used}) == 7


def test_only_what_was_built_twice_is_published_and_without_a_password():
    jobs = WORKFLOWS["release"]["jobs"]
    steps = " ".join(str(step.get("run", "")) for step in jobs["build"]["steps"])
    assert "SOURCE_DATE_EPOCH" in steps
    assert "diff -r dist dist-again" in steps
    publish = jobs["publish"]
    assert publish["needs"] == "build"
    assert publish["environment"]["name"] == "pypi"
    assert publish["permissions"] == {"id-token": "write", "contents": "read"}
    (step,) = [step for step in publish["steps"] if "pypi-publish" in step["uses"]]
    assert "with" not in step


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"])
def test_what_people_look_for_in_a_repository_is_there(name):
    assert (ROOT / name).stat().st_size > 300
