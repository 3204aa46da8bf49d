"""The scenario ``glancing`` is as near the border in every engine as its description says: 0.1 s sooner, and they miss."""

import pytest

from samepath.engines import registry
from samepath.engines.conformance import run_request
from samepath.engines.interface import RunRequest
from samepath.scenarios.model import built_in_scenarios


@pytest.mark.parametrize("name", ["samepath", "babylon", "godot", "gymnasium", "metadrive", "mujoco", "panda3d", "pymunk"])
def test_the_cars_just_touch_and_would_miss_a_tenth_of_a_second_sooner(name, tmp_path):
    with registry.create(name) as simulator:
        if missing := simulator.unavailable({}):
            pytest.skip(missing)
        sooner = tmp_path / "sooner.yaml"
        sooner.write_text(built_in_scenarios()["glancing"].replace("start_delay: 2.2 s", "start_delay: 2.1 s"), "utf-8")
        pairs = []
        for scenario in ("glancing", str(sooner)):
            run = run_request(simulator, RunRequest(scenario, 0, duration_s=11.0))
            pairs.append([(event.actor, event.other) for event in run.events if event.kind == "collision"])
    assert pairs == [[(1, 2)], []]
