"""Recordings side by side: the bytes of each alone, drawn in one launch where a card draws; failures reach everybody."""

import shutil
import threading

import pytest

from samepath.core.errors import InputError, SimulatorError
from samepath.scenarios.model import load_scenario
from samepath.simulator.dataset.files import RecordSettings
from samepath.simulator.dataset.runs import DatasetSettings, RenderGatherer, record_runs, record_together
from samepath.simulator.sensors.cuda import rays as cuda_rays
from samepath.simulator.sensors.cuda import renderer as cuda_renderer
from samepath.simulator.sensors.cuda.card import CardDevice
from samepath.simulator.sensors.cuda.host_device import COMPILER
from samepath.simulator.sensors.raster.software import SoftwareRenderer
from samepath.simulator.sensors.rig import load_rig
from samepath.simulator.sensors.weather import SceneWeather
from tests.support.camera_scenes import WEATHERS, cameras, digest, street_scene
from tests.support.emulated_card import EmulatedCard

RIG = """
name: test
sensors:
  - {name: eye, type: sensor.camera.rgb, at: [0.3, 0, 1.6], attributes: {image_size_x: 45, image_size_y: 30}}
  - {name: far, type: sensor.camera.depth, at: [0.3, 0, 1.6], attributes: {image_size_x: 45, image_size_y: 30}}
"""
needs_compiler = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not installed")


@pytest.fixture
def recordings(tmp_path):
    """Two scenarios, two weathers, two seeds, of different lengths."""
    path = tmp_path / "rig.yaml"
    path.write_text(RIG)
    rig, night = load_rig(str(path)), SceneWeather(sun_altitude_angle=-20.0)
    asked = [("table1-test2", 1, SceneWeather(), 3), ("table1-test1", 2, night, 1), ("table1-test2", 2, night, 2)]

    def made(renderer, folder):
        return [
            (RecordSettings(load_scenario(name), rig, every=2, most=most, seed=seed, weather=weather, renderer=renderer),
             tmp_path / folder / str(number))
            for number, (name, seed, weather, most) in enumerate(asked)
        ]  # fmt: skip

    return made


class OneCard(EmulatedCard):
    """All that are made, in their order."""

    made = ()

    def __init__(self):
        super().__init__()
        OneCard.made = (*OneCard.made, self)


@needs_compiler
def test_side_by_side_every_recording_has_the_bytes_it_has_alone(recordings, monkeypatch):
    monkeypatch.setattr(OneCard, "made", ())
    monkeypatch.setattr(cuda_renderer, "CudaDriver", OneCard)
    monkeypatch.setattr(cuda_rays, "CudaDriver", OneCard)
    alone = record_together(recordings("software", "alone"))
    seen = []
    together = record_together(recordings("cuda", "card"), at_once=3, on_frame=lambda tick, frames: seen.append(frames))
    threads = record_together(recordings("software", "threads"), at_once=2)
    assert (
        [result.digest for result in together] == [result.digest for result in alone] == [result.digest for result in threads]
    )
    assert sorted(seen) == [1, 2, 3, 4, 5, 6]
    # One card draws for all of them.
    drawing = [card for card in OneCard.made if "paint" in card.launched]
    assert len(drawing) == 1
    kept = list((recordings("cuda", "card")[0][1]).rglob("*.png"))
    assert len(kept) == 6
    for file in kept:
        twin = recordings("software", "alone")[0][1] / file.relative_to(recordings("cuda", "card")[0][1])
        assert file.read_bytes() == twin.read_bytes()


def test_runs_side_by_side_are_one_dataset_as_ever(recordings, tmp_path):
    ((asked, _), *_) = recordings("software", "unused")
    settings = DatasetSettings(asked, runs=3)
    results = [record_runs(settings, tmp_path / str(count), at_once=count) for count in (1, 3)]
    assert results[0] == results[1]
    assert (tmp_path / "1" / "index.json").read_bytes() == (tmp_path / "3" / "index.json").read_bytes()
    with pytest.raises(InputError, match=r"^at once: a whole number from 1 to 64 was wanted, but 65 came$"):
        record_together([(asked, tmp_path / "none")], at_once=65)


@needs_compiler
def test_worlds_wait_for_each_other_and_those_that_leave_are_not_waited_for():
    card = EmulatedCard()
    gatherer = RenderGatherer(cuda_renderer.CudaRenderer(CardDevice(card)))
    parties, software = [gatherer.join() for _ in WEATHERS], SoftwareRenderer(1)
    eyes, found = cameras(width=32, height=24), {}

    def draw(number, weather):
        # Each world has one more tick than the one before, then it is done.
        for tick in range(number + 1):
            found[weather, tick] = digest(parties[number].render(street_scene(weather), eyes))
        parties[number].close()

    threads = [threading.Thread(target=draw, args=(number, weather)) for number, weather in enumerate(WEATHERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(found) == 1 + 2 + 3 + 4
    assert found == {(weather, tick): digest(software.render(street_scene(weather), eyes)) for weather, tick in found}
    # Four ticks, in each of which all that are left are drawn together.
    assert card.launched.count("paint") == len(WEATHERS)
    with pytest.raises(SimulatorError, match="a renderer that is open was wanted, but a closed one came"):
        parties[0].render(street_scene("noon"), eyes)


@needs_compiler
def test_a_card_that_is_lost_is_told_to_every_world():
    card = EmulatedCard()
    gatherer = RenderGatherer(cuda_renderer.CudaRenderer(CardDevice(card)))
    parties, said = [gatherer.join() for _ in range(3)], []
    card.lost = True

    def draw(party):
        try:
            party.render(street_scene("noon"), cameras(width=32, height=24))
        except SimulatorError as error:
            said.append(str(error))

    threads = [threading.Thread(target=draw, args=(party,)) for party in parties]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(said) == 3 and all("the graphics card cannot draw" in line for line in said)
