"""``samepath simulators``: each with its version, and what is not installed with what to do."""

import pytest
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.core.errors import InputError
from samepath.engines import registry
from samepath.engines.interface import Simulator, SimulatorInfo


class There(Simulator):
    """An engine that is installed, in a version that only its settings tell."""

    def info(self):
        return SimulatorInfo("there", "", "a road [bold]of its own[/bold]", ("straight",), 0.05, settings={"speed_mps": 5.0})

    def described(self, settings):
        return SimulatorInfo("there", "7.3.1", self.info().summary, ("straight",), 0.05, settings=self.info().settings)

    def run(self, request, recorder, on_tick=None):
        raise AssertionError("nothing is run to list it")


class Missing(There):
    """One that is not."""

    def unavailable(self, settings):
        return "Engine is not installed (engine was not found): apt-get install engine"


class Refusing(There):
    """One whose environment names something impossible."""

    def described(self, settings):
        raise InputError("ENGINE_HOME: a folder was wanted, but 7 came")


@pytest.fixture
def ask(monkeypatch):
    """Ask the command, where only the simulators above are known and one that cannot be imported."""
    names = {"there": "There", "missing": "Missing", "refusing": "Refusing"}
    known = {**{name: f"{__name__}:{cls}" for name, cls in names.items()}, "broken": "samepath.no_such_module:Simulator"}
    monkeypatch.setattr(registry, "BUILT_IN", known)
    monkeypatch.setattr(registry, "table", lambda: known)

    def asked(*names):
        result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["simulators", *names])
        assert result.exit_code == 0
        return [line.rstrip() for line in result.stdout.splitlines()]

    return asked


def test_versions_and_what_to_install(ask):
    lines = ask()
    (row,) = [line for line in lines if line.startswith("there")]
    assert row.split() == ["there", "7.3.1", "a", "road", "[bold]of", "its", "own[/bold]"]
    (row,) = [line for line in lines if line.startswith("missing ")]
    assert "see below" in row
    assert "missing: Engine is not installed (engine was not found): apt-get install engine" in lines
    assert "refusing: ENGINE_HOME: a folder was wanted, but 7 came" in lines
    assert any(
        line.startswith("broken: simulator 'broken' at samepath.no_such_module:Simulator cannot be loaded") for line in lines
    )


def test_with_names_everything_is_told_about_these(ask):
    lines = ask("there", "missing")
    assert lines[:4] == [
        "there",
        "version     7.3.1",
        "what it is  a road [bold]of its own[/bold]",
        "scenarios   straight",
    ]
    assert "promises    nothing" in lines
    assert "settings    speed_mps=5.0" in lines
    assert lines[-1] == "Engine is not installed (engine was not found): apt-get install engine"
