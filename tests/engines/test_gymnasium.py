"""Gymnasium: what is refused before an environment is made, and, where it is installed, what environments do."""

import math
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("highway_env", reason="highway-env is not installed: pip install 'samepath[gymnasium]'")

from samepath.core.errors import InputError, SimulatorError
from samepath.core.states import VehicleCommand
from samepath.engines.conformance import CHECKS, run_once, run_request
from samepath.engines.gymnasium import Gymnasium
from samepath.engines.gymnasium.engine import action_of
from samepath.engines.gymnasium.episode import flat
from samepath.engines.gymnasium.simulator import CoordinateSource, read_settings
from samepath.engines.interface import Preset, RunRequest
from samepath.scenarios.scripts import read_script
from tests.support.driven import collisions
from tests.support.frame_clock import FrameClock
from tests.support.shared_runs import share_runs

CART = {"environment": "CartPole-v1", "actions": "random-stream"}
# Few vehicles: a step of highway-env looks at all of them.
SMALL = '{"config": {"vehicles_count": 8, "lanes_count": 2}}'
HIGHWAY = {"environment": "highway-fast-v0", "module": "highway_env", "arguments": SMALL}
RUNS = {}


def needs(settings):
    reason = Gymnasium().unavailable(settings)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def gymnasium():
    needs(CART)


@pytest.fixture
def highway_env():
    needs({})


# What needs no Gymnasium


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"actions": "constant"}, "action: one is wanted with actions constant"),
        ({"action": 1}, "action: one is wanted with actions constant and only there"),
        ({"actions": "constant", "action": "left"}, "action: JSON was wanted, but 'left' came"),
        ({"arguments": "[1]"}, "arguments: a JSON object was wanted"),
        ({"arguments": "{"}, "arguments: a JSON object was wanted"),
        ({"module": "a b"}, "module: a module to import"),
        ({"reader": "module"}, "reader: module:function was wanted"),
        ({"x": "info[0]"}, "x: observation"),
        ({"seeded": 1}, "seeded: true or false was wanted"),
        ({"episode_steps": 0}, "episode_steps"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        read_settings({**Gymnasium().info().settings, **settings})


def test_settings_are_read():
    plain = {"actions": "constant", "action": "[0.5, -1]", "x": "observation[3]", "y": "-2.5", "arguments": '{"a": 1}'}
    read = read_settings({**Gymnasium().info().settings, **plain})
    assert (read.action_value, read.x, read.y, read.keywords) == (
        [0.5, -1],
        CoordinateSource(index=3),
        CoordinateSource(value=-2.5),
        {"a": 1},
    )


def test_observations_of_any_form_become_numbers_in_a_row():
    observation = {"near": np.array([[1, 2], [3, 4]], np.uint8), "far": (np.float32(0.1), 7)}
    assert flat(observation).tolist() == [1.0, 2.0, 3.0, 4.0, float(np.float32(0.1)), 7.0]
    with pytest.raises(SimulatorError, match="an observation of numbers was wanted, but str came"):
        flat("north")


def test_steering_makes_the_bend_that_the_driver_asked_for():
    role = read_script("table1-test2").roles[0]
    action = action_of(role, VehicleCommand(steer=0.5), 5.0, 0.05)
    asked = math.tan(math.radians(0.5 * role.wheels.max_steer_deg)) / role.wheels.wheel_base_m
    assert math.tan(action.steering_rad) / role.body.length_m == pytest.approx(asked)


def test_brakes_stop_a_car_and_never_push_it_back():
    role = read_script("table1-test2").roles[0]
    full, gentle = (action_of(role, VehicleCommand(brake=1.0), speed_mps, 0.05) for speed_mps in (10.0, 0.1))
    assert full.acceleration_mps2 < -5.0
    assert 0.1 + gentle.acceleration_mps2 * 0.05 == pytest.approx(0.0, abs=1e-12)


def test_a_missing_gymnasium_or_module_is_told_with_what_to_install(monkeypatch):
    needs(CART)
    assert Gymnasium().unavailable({**CART, "module": "no_such_module"}).startswith("module no_such_module is not installed: ")
    monkeypatch.setattr("samepath.engines.gymnasium.simulator.find_spec", lambda name: None)
    assert Gymnasium().unavailable({}) == "module highway_env is not installed: pip install 'samepath[gymnasium]'"
    monkeypatch.setattr(Gymnasium, "package", "no-such-gymnasium")
    for settings in ({}, CART):
        assert Gymnasium().unavailable(settings) == "no-such-gymnasium is not installed: pip install 'samepath[gymnasium]'"
        assert Gymnasium().described(settings).version == "not installed"
    with pytest.raises(SimulatorError, match="is not installed"):
        run_once(Preset(Gymnasium(), CART), "episode")


# Environments of Gymnasium's own


@pytest.mark.usefixtures("gymnasium")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_cart_pole_conforms(check, monkeypatch):
    share_runs(monkeypatch, RUNS, "cart-pole")
    check(lambda: Preset(Gymnasium(), CART))


@pytest.mark.usefixtures("gymnasium")
def test_an_environment_is_recorded_without_loss():
    import gymnasium

    info = Preset(Gymnasium(), {**CART, "actions": "constant", "action": 1}).info()
    assert info.step_s == 0.02
    repeat = run_request(Preset(Gymnasium(), {**CART, "actions": "constant", "action": 1}), RunRequest("episode", 0, seed=7))
    environment = gymnasium.make("CartPole-v1")
    environment.reset(seed=7)
    wanted, terminated = [], False
    while not terminated:
        observation, reward, terminated, _, _ = environment.step(1)
        wanted.append([observation[0], 0.0, *observation, reward, float(terminated)])
    assert np.array_equal(repeat.values, np.array(wanted, np.float64))
    assert (repeat.end.reason, repeat.end.tick) == ("terminated", len(wanted))


@pytest.mark.usefixtures("gymnasium")
def test_chance_is_the_seed_s_unless_it_is_asked_not_to_be():
    def digest(seed, **settings):
        return run_request(Preset(Gymnasium(), {**CART, **settings}), RunRequest("episode", 0, seed=seed)).digest

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)
    assert digest(1, seeded=False) != digest(1, seeded=False)
    assert not Gymnasium().described({**CART, "seeded": False}).capabilities.deterministic


@pytest.mark.usefixtures("gymnasium")
def test_an_episode_can_be_cut_short():
    settings = {"environment": "Pendulum-v1", "actions": "constant", "action": 0.5, "episode_steps": 9}
    repeat = run_once(Preset(Gymnasium(), settings), "episode")
    assert (repeat.end.tick, repeat.end.reason) == (9, "episode_steps are over")


@pytest.mark.usefixtures("gymnasium")
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"environment": "CartPole-v99"}, "environment: CartPole-v99 cannot be made: VersionNotFound"),
        ({"arguments": '{"wheels": 3}'}, "environment: CartPole-v1 cannot be made: TypeError"),
        ({"actions": "idle"}, "actions: idle is not known of Discrete"),
        ({"actions": "constant", "action": 2}, "action: one of Discrete"),
        ({"x": "observation[4]"}, "x: the observation has 4 numbers"),
        ({"mode": "game-loop"}, "mode: an environment steps when it is told to"),
        ({"reader": "samepath.core.errors:no_such_reader"}, "reader: .* cannot be loaded"),
    ],
)
def test_what_an_environment_cannot_do_is_refused_before_a_study(settings, words):
    with pytest.raises(InputError, match=words) as refused:
        Gymnasium().described({**CART, **settings})
    assert "\n" not in str(refused.value)


OWN = '''
import gymnasium


class Drifting(gymnasium.Env):
    """Goes a step to the east each time."""

    observation_space = gymnasium.spaces.Box(-1e3, 1e3, (70,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.observation_space.low * 0, {}

    def step(self, action):
        if self.at == 3 and self.fails:
            raise ValueError("out of\\nroad")
        self.at += 1
        return self.observation_space.low * 0 + self.at, 0.5, False, self.at == 5, {}

    def __init__(self, fails=False):
        self.fails = fails


def read(environment, observation):
    env = environment.unwrapped
    two = {2: {"x_m": 5.0, "y_m": 1.0, "crashed_bool": float(env.at == 5)}} if env.at > 2 else {}
    return {1: {"x_m": float(env.at), "y_m": 0.0, "crashed_bool": float(env.at == 5)}, **two}


gymnasium.register("Drifting-v0", Drifting)
'''


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """An environment and a reader in a module of the user's; it registers the environment when it is imported."""
    needs(CART)
    folder = tmp_path_factory.mktemp("own")
    (folder / "samepath_test_drifting.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield {"environment": "Drifting-v0", "module": "samepath_test_drifting"}
        sys.modules.pop("samepath_test_drifting", None)


def test_an_environment_and_a_reader_of_one_s_own(own):
    simulator = Preset(Gymnasium(), {**own, "reader": "samepath_test_drifting:read"})
    info = simulator.info()
    assert info.channels == ("x_m", "y_m", "crashed_bool", "reward_ratio", "terminated_bool")
    assert "samepath_test_drifting " in info.version  # and a digest of its file
    repeat = run_once(simulator, "episode")
    assert [actor.id for actor in repeat.actors] == [1, 2]
    assert repeat.values[repeat.actor == 1][:, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert repeat.tick[repeat.actor == 2].tolist() == [3, 4, 5]
    assert [(event.tick, event.actor, event.other) for event in collisions(repeat)] == [(5, 1, 2)]
    assert len(repeat.sensors) == 5


def test_a_long_observation_is_kept_as_a_digest_too(own):
    repeat = run_once(Preset(Gymnasium(), {**own, "x": "observation[69]"}), "episode")
    assert len(repeat.channels) == 2 + 64 + 2
    assert len(repeat.sensors) == 5


def test_what_an_environment_raises_is_told_in_one_line(own):
    with pytest.raises(SimulatorError, match=r"^environment Drifting-v0: ValueError: out of road$"):
        run_once(Preset(Gymnasium(), {**own, "arguments": '{"fails": true}'}), "episode")


# highway-env


@pytest.mark.usefixtures("highway_env")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("settings", "name"), [({}, "scripts"), ({**HIGHWAY, "episode_steps": 5}, "highway")])
def test_highway_env_conforms(check, settings, name, monkeypatch):
    share_runs(monkeypatch, RUNS, name)
    check(lambda: Preset(Gymnasium(), settings, ["episode" if settings else "table1-test2"]))


@pytest.mark.usefixtures("highway_env")
def test_cars_follow_the_script():
    script, repeat = read_script("table1-test1"), run_once(Gymnasium(), "table1-test1")
    assert not collisions(repeat)
    assert repeat.end.reason == "every actor reached its last waypoint"
    for role in script.roles:
        rows = repeat.values[repeat.actor == role.number]
        assert rows[0, :3] == pytest.approx([role.start.x_m, role.start.y_m, role.start.yaw_deg], abs=0.05)
        assert rows[-1, :2] == pytest.approx(role.path[-1], abs=0.7)


@pytest.mark.usefixtures("highway_env")
def test_two_cars_collide_and_are_braked_by_highway_env():
    repeat = run_once(Gymnasium(), "table1-test2")
    (hit,) = collisions(repeat)
    assert (hit.actor, hit.other) == (1, 2)
    first, second = repeat.values[repeat.tick == hit.tick]
    assert math.dist(first[:2], second[:2]) < 5.1
    last = repeat.values[repeat.tick == repeat.end.tick]
    assert np.abs(last[:, 3:5]).max() < 0.01


@pytest.mark.usefixtures("highway_env")
def test_vehicles_of_highway_env_are_actors_and_their_crash_is_an_event():
    settings = {**HIGHWAY, "actions": "constant", "action": 3}
    repeat = run_request(Preset(Gymnasium(), settings), RunRequest("episode", 0, seed=0))
    assert len(repeat.actors) == 9
    assert repeat.end.reason == "terminated"
    (hit,) = collisions(repeat)
    assert hit.actor == 1
    assert hit.other is not None
    crashed = repeat.values[(repeat.tick == repeat.end.tick), repeat.channels.index("crashed_bool")]
    assert crashed.sum() == 2.0


@pytest.mark.usefixtures("highway_env")
def test_one_agent_is_wanted():
    settings = {**HIGHWAY, "environment": "intersection-multi-agent-v2", "arguments": "", "actions": "random-stream"}
    with pytest.raises(SimulatorError, match="one agent was wanted, but its reward is a tuple"):
        run_once(Preset(Gymnasium(), settings), "episode")


@pytest.mark.usefixtures("highway_env")
def test_a_game_loop_is_as_repeatable_as_its_clock():
    def digest(*late_s):
        simulator = Gymnasium({"mode": "game-loop"}, FrameClock(*late_s))
        return run_request(simulator, RunRequest("table1-test2", 0, duration_s=3.0)).digest

    assert digest(0.0, 0.004) == digest(0.0, 0.004)
    assert digest(0.0, 0.004) != digest(0.0, 0.043)


@pytest.mark.usefixtures("highway_env")
def test_a_fresh_interpreter_and_this_one_give_the_same_bits():
    code = (
        "from samepath.engines.conformance import run_once\n"
        "from samepath.engines.gymnasium import Gymnasium\n"
        "print(run_once(Gymnasium(), 'table1-test2').digest)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told == f"{run_once(Gymnasium(), 'table1-test2').digest}\n"
