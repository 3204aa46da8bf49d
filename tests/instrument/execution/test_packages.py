"""Two versions of an engine or a controller as levels of one factor: each is what runs, is named in the trace, and compared."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from samepath.core.errors import StudyError
from samepath.instrument.conditions import packages
from samepath.instrument.execution.folder import stored_cells
from samepath.instrument.study_run import run_study

ENGINE = """
from importlib import metadata
from samepath.engines.interface import Capabilities, Simulator, SimulatorInfo
SPEED = {speed}

class Small(Simulator):
    def info(self):
        able = Capabilities(deterministic=True)
        return SimulatorInfo("small", metadata.version("small-engine"), "a point", ("line",), 0.1, capabilities=able)
    def run(self, request, recorder, on_tick=lambda tick: None):
        recorder.actor(1, "car")
        for tick in range(5):
            recorder.state(tick, 1, dict(x_m=SPEED * tick * 0.1, y_m=0.0, z_m=0.0))
            on_tick(tick)
        recorder.end(4, "done")
"""


def install(folder: Path, version: str, speed: float) -> Path:
    """What pip leaves in a folder of packages."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small_engine.py").write_text(ENGINE.format(speed=speed))
    about = folder / f"small_engine-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: small-engine\nVersion: {version}\n")
    return folder


def study(*levels, simulator="small_engine:Small", scenario="line", repeats=2):
    design = {"simulators": simulator, "scenarios": scenario, "repeats": repeats}
    return {"name": "versions", "design": design, "conditions": {"packages": [str(level) for level in levels]}}


@pytest.fixture(scope="module")
def two_versions(tmp_path_factory):
    """Version 1.0 in a plain folder, 2.0 in a virtual environment with its own interpreter; the second is faster."""
    root = tmp_path_factory.mktemp("installed")
    old = install(root / "old", "1.0", 10.0)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / "new"], check=True)
    (site,) = (root / "new").glob("lib/python3.*/site-packages")
    install(site, "2.0", 12.0)
    result = run_study(study(old, root / "new"), root / "out", progress=False)
    return root, result


def test_each_level_runs_its_own_version_and_the_trace_says_which(two_versions):
    root, result = two_versions
    assert result.ok, result.problems
    found = {cell.header.simulator_version: cell for cell in stored_cells(result.plan, root / "out")}
    assert set(found) == {"1.0", "2.0"}
    for version, speed in (("1.0", 10.0), ("2.0", 12.0)):
        assert found[version].load(0).values[-1, 0] == pytest.approx(speed * 0.4)
        assert found[version].header.settings["packages"].startswith(f"small-engine {version}; files ")
    measured = {log.measured["packages"] for cell in found.values() for _, log in cell.host_logs()}
    assert measured == {str(root / "old"), str(root / "new")}, "what was read back in the worker"


def test_the_report_compares_the_versions_in_words_and_in_json(two_versions):
    root, result = two_versions
    (pair,) = result.report.study.versions
    assert (pair.from_version, pair.to_version, pair.same_bits, pair.same_test) == ("1.0", "2.0", False, True)
    assert pair.shift.before.shift_m == pytest.approx(0.8), "2 m/s more, for 0.4 s"
    assert pair.words() == (
        "small 1.0 -> 2.0 with small-engine 1.0 -> 2.0, line: each repeats itself, but the bits differ; "
        "the mean path moves by 80 cm; the test comes to the same"
    )
    told = json.loads((root / "out" / "report.json").read_text())["versions"]
    assert [effect["words"] for effect in told] == [pair.words()]
    page = (root / "out" / "report.html").read_text()
    assert "Different versions" in page
    assert "80\u00a0cm" in page
    # Both repeat themselves, and a version is no condition of the host: that they differ does not make the engine vary.
    assert result.report.study.answers[0].short == "yes"
    assert [factor.name for factor in result.report.study.factors] == ["packages"]


def test_a_folder_whose_content_changed_is_not_continued(two_versions):
    root, _ = two_versions
    code = (root / "old" / "small_engine.py").read_text()
    try:
        (root / "old" / "small_engine.py").write_text(ENGINE.format(speed=11.0))
        packages.contents_of.cache_clear()  # another process would read it anew
        with pytest.raises(StudyError, match="holds repeats with another settings: choose another --out folder"):
            run_study(study(root / "old", root / "new", repeats=3), root / "out", progress=False)
    finally:
        (root / "old" / "small_engine.py").write_text(code)
        packages.contents_of.cache_clear()


CONTROLLER = """
from samepath.core.states import VehicleCommand

def drive(view, actor_id):
    return VehicleCommand({throttle}, 0.0, 0.0)
"""


def test_two_versions_of_a_controller_are_compared_on_the_same_simulator(tmp_path):
    for name, throttle in (("v1", 0.4), ("v2", 0.8)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "my_controller.py").write_text(CONTROLLER.format(throttle=throttle))
    actor = {"id": 1, "type": "vehicle.mercedes.coupe", "path": [[0, 0]], "controller": "my_controller:drive"}
    scenario = tmp_path / "own.yaml"
    scenario.write_text(yaml.safe_dump({"name": "own", "duration": "1 s", "end": "duration", "actors": [actor]}))
    asked = study(tmp_path / "v1", tmp_path / "v2", simulator="samepath", scenario=str(scenario))
    result = run_study(asked, tmp_path / "out", progress=False)
    (pair,) = result.report.study.versions
    assert pair.files
    assert pair.same_bits is False
    assert pair.from_version == pair.to_version
    assert "with other files of the same version" in pair.words()
    assert pair.shift.before.shift_m > 0.1


@pytest.mark.parametrize(
    ("level", "says"),
    [
        ("./nowhere", " is not there: a virtual environment, an interpreter or a folder of packages was wanted"),
        ("./notes.txt", " is neither a folder nor a program"),
        ("./empty", ": simulator 'small_engine:Small' at small_engine:Small cannot be loaded: No module named"),
        ("./broken", ": the virtual environment has no interpreter in bin: make it anew"),
    ],
)
def test_what_is_no_installation_is_refused_in_one_line_before_anything_runs(tmp_path, monkeypatch, two_versions, level, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("no program")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    with pytest.raises(StudyError) as error:
        run_study(study(two_versions[0] / "old", level), tmp_path / "out", progress=False)
    assert f"packages {level!r}{says}" in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_the_same_packages_elsewhere_have_the_same_digest_and_one_byte_another(tmp_path):
    for name, speed in (("a", 1.0), ("b", 1.0), ("c", 2.0)):
        install(tmp_path / name, "1.0", speed)
    (tmp_path / "b" / "__pycache__").mkdir()
    (tmp_path / "b" / "__pycache__" / "small_engine.cpython-311.pyc").write_bytes(b"compiled")
    a, b, c = (packages.contents_of(str(tmp_path / name)) for name in "abc")
    assert a == b
    assert a != c


def test_packages_that_change_while_a_study_runs_end_the_repeat(tmp_path):
    folder = install(tmp_path / "mine", "1.0", 1.0)
    began = packages.contents_of(str(folder))
    packages.check_unchanged(str(folder), began)
    (folder / "small_engine-1.0.dist-info").rename(folder / "small_engine-1.1.dist-info")
    (folder / "small_engine-1.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: small-engine\nVersion: 1.1\n")
    with pytest.raises(StudyError, match=r"was changed while the study ran: small-engine 1\.1 is installed there now"):
        packages.check_unchanged(str(folder), began)


def test_an_installation_without_bound_is_refused(tmp_path, monkeypatch):
    folder = install(tmp_path / "mine", "1.0", 1.0)
    (folder / "other.py").write_text("")
    monkeypatch.setattr(packages, "MOST_FILES", 1)
    with pytest.raises(StudyError, match="more than 1 files or 16 GB lie there"):
        packages.contents_of(str(folder))
