"""A simulator with other defaults keeps its contract, and the conformance kit can be asked for one."""

import pytest
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.core.errors import UnknownNameError
from samepath.engines import registry
from samepath.engines.conformance import CHECKS, run_once, run_request
from samepath.engines.interface import Preset, RunRequest


def preset(settings=None, scenarios=()):
    return Preset(registry.create("control-gaussian"), settings or {}, scenarios)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_conforms(check):
    check(lambda: preset({"sigma_m": 0.5}, ["crossing"]))


def test_its_defaults_hold_where_nothing_else_is_asked():
    asked = RunRequest("crossing", 1, settings={"sigma_m": 0.5})
    same = run_request(preset(), asked).digest
    assert run_once(preset({"sigma_m": 0.5}), "crossing", 1).digest == same
    assert run_request(preset({"sigma_m": 0.1}), asked).digest == same
    assert run_once(preset(), "crossing", 1).digest != same
    assert preset({"sigma_m": 0.5}).info().settings["sigma_m"] == 0.5


def test_what_the_simulator_does_not_know_is_refused():
    with pytest.raises(UnknownNameError, match="unknown setting of control-gaussian 'sgima_m': did you mean 'sigma_m'"):
        preset({"sgima_m": 1})
    with pytest.raises(UnknownNameError, match="unknown scenario of control-gaussian"):
        preset({}, ["corssing"])


def test_the_kit_takes_settings_as_a_study_file_would():
    result = CliRunner().invoke(app, ["conformance", "control-gaussian", "--setting", "sigma_m=0.5", "--scenario", "crossing"])
    assert result.exit_code == 0, result.output
    assert "FAIL" not in result.output
    for wrong in ("sigma_m", "=1", "sigma_m=[1, 2]", "sigma_m={"):
        result = CliRunner().invoke(app, ["conformance", "control-gaussian", "--setting", wrong])
        assert result.exit_code != 0
        assert "NAME=VALUE was wanted" in str(result.exception)
