"""Who draws is chosen by name and leaves its mark: in a trace, in a dataset; never exchanged in silence."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.core.errors import SimulatorError, UnknownNameError
from samepath.engines import registry
from samepath.engines.interface import RunRequest
from samepath.engines.samepath import simulator as adapter
from samepath.instrument.traces.recorder import Recorder
from samepath.simulator.sensors.cuda import rays as cuda_rays
from samepath.simulator.sensors.cuda import renderer as cuda_renderer
from samepath.simulator.sensors.cuda.host_device import COMPILER
from samepath.simulator.sensors.renderer import create_renderer
from tests.support.emulated_card import EmulatedCard

RIG = """
name: test
sensors:
  - {name: eye, type: sensor.camera.semantic_segmentation, at: [0.3, 0, 1.6], attributes: {image_size_x: 45, image_size_y: 30}}
"""


@pytest.fixture(scope="module")
def driver():
    """What the driver calls itself."""
    try:
        made = create_renderer("opengl")
    except SimulatorError as error:
        pytest.skip(str(error))
    made.close()
    return made.facts["gl_renderer"]


@pytest.fixture
def rig(tmp_path):
    path = tmp_path / "rig.yaml"
    path.write_text(RIG)
    return str(path)


def run(**settings):
    simulator = registry.create("samepath")
    info = simulator.info()
    recorder = Recorder(0, info.channels, info.step_s)
    request = RunRequest("table1-test2", 0, settings=settings, duration_s=0.2)
    simulator.prepare(request)
    simulator.run(request, recorder)
    return recorder.finish()


def test_a_trace_drawn_by_opengl_says_so_and_by_which_driver(driver, rig):
    ours, other = run(sensors=rig), run(sensors=rig, renderer="opengl")
    assert [event for event in ours.events if event.kind == "renderer"] == []
    (told,) = [event for event in other.events if event.kind == "renderer"]
    assert told.detail.startswith("name opengl; ")
    assert driver in told.detail
    assert other.values.tobytes() == ours.values.tobytes()
    assert len(other.sensors) == len(ours.sensors) == 4


def test_a_renderer_that_is_not_there_is_refused(rig):
    with pytest.raises(UnknownNameError, match="unknown renderer 'opengll': did you mean 'opengl'"):
        run(sensors=rig, renderer="opengll")


def record(*words):
    return CliRunner().invoke(app, ["record", "table1-test2", *map(str, words)])


def test_a_dataset_drawn_by_opengl_says_so_and_no_other_renderer_goes_on_with_it(driver, rig, tmp_path):
    out = tmp_path / "data"
    words = ("--out", out, "--rig", rig, "--frames", 1, "--renderer")
    assert record(*words, "opengl").exit_code == 0
    told = json.loads((out / "dataset.json").read_text())["renderer"]
    assert (told["name"], told["gl_renderer"]) == ("opengl", driver)
    assert "1 frames (1 were there)" in record(*words, "opengl").stdout
    assert "holds another dataset" in str(record(*words, "software").exception)


def test_a_dataset_drawn_by_software_depends_on_no_driver(rig, tmp_path):
    out = tmp_path / "data"
    assert record("--out", out, "--rig", rig, "--frames", 1).exit_code == 0
    assert json.loads((out / "dataset.json").read_text())["renderer"] == {"name": "software"}
    assert "unknown renderer 'metal'" in str(record("--out", tmp_path / "b", "--rig", rig, "--renderer", "metal").exception)
    assert not (tmp_path / "b").exists()


class FailingCard(EmulatedCard):
    """A card that is lost after so many launches."""

    launches = 10**9

    def launch(self, *arguments, **options):
        self.lost = len(self.launched) >= self.launches
        super().launch(*arguments, **options)


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")
def test_a_trace_says_who_has_really_drawn_and_its_bits_do_not(rig, monkeypatch):
    monkeypatch.setattr(cuda_renderer, "CudaDriver", FailingCard)
    monkeypatch.setattr(cuda_rays, "CudaDriver", FailingCard)
    software, drawn = run(sensors=rig), run(sensors=rig, renderer="auto")
    monkeypatch.setattr(FailingCard, "launches", 15)
    lost = run(sensors=rig, renderer="auto")
    assert [repeat.host.measured["renderer"] for repeat in (software, drawn, lost)] == [
        "software",
        "cuda",
        "cuda, then software",
    ]
    assert len({repeat.digest for repeat in (software, drawn, lost)}) == 1
    assert [frame.digest for frame in drawn.sensors] == [frame.digest for frame in software.sensors]
    assert [frame.digest for frame in lost.sensors] == [frame.digest for frame in software.sensors]


@pytest.mark.parametrize("name", ["samepath", "samepath-game-loop"])
def test_a_study_is_told_before_it_begins_that_a_renderer_is_not_there(name, monkeypatch):
    simulator = registry.create(name)
    assert simulator.unavailable({"sensors": "small"}) == ""
    assert simulator.unavailable({"renderer": "cuda"}) == "", "nothing is drawn"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as on a machine without a card
    adapter._missing_renderer.cache_clear()
    for settings in ({"sensors": "small"}, {"ego": "camera"}):
        said = simulator.unavailable({"renderer": "cuda", **settings})
        assert said.startswith(("renderer 'cuda' needs", "the graphics card cannot draw: ")), said
        assert "\n" not in said
    adapter._missing_renderer.cache_clear()
