"""``samepath conformance``: does an adapter keep the simulators' contract?"""

from typing import Annotated

import typer
import yaml

from samepath.cli.common import name_values
from samepath.core.errors import InputError
from samepath.engines import registry
from samepath.engines.conformance import check_all
from samepath.engines.interface import Preset, Scalar


def conformance(
    simulator: Annotated[
        str, typer.Argument(metavar="NAME", help="A registered simulator, or MODULE:CLASS.", show_default=False)
    ],
    setting: Annotated[
        list[str] | None,
        typer.Option("--setting", metavar="NAME=VALUE", help="A setting to run it with, such as port=2010; may be repeated."),
    ] = None,
    scenario: Annotated[
        list[str] | None, typer.Option("--scenario", help="Try only this scenario, of one that is slow; may be repeated.")
    ] = None,
) -> None:
    """Run the conformance kit on a simulator; exit 1 if a check fails."""
    settings, scenarios = _settings(setting), scenario or []
    Preset(registry.create(simulator), settings, scenarios).close()
    failed = 0
    for result in check_all(lambda: Preset(registry.create(simulator), settings, scenarios)):
        failed += bool(result.problem)
        typer.echo(f"{'FAIL' if result.problem else 'ok  '}  {result.name}" + (f": {result.problem}" if result.problem else ""))
    raise typer.Exit(1 if failed else 0)


def _settings(given: list[str] | None) -> dict[str, Scalar]:
    """Read values as a study file would."""
    found: dict[str, Scalar] = {}
    for name, text in name_values("--setting", given, "port=2010").items():
        try:
            value = yaml.safe_load(text) if text else ""
        except yaml.YAMLError:
            value = None
        if not isinstance(value, str | float | int | bool):
            raise InputError(f"--setting: NAME=VALUE was wanted, such as port=2010, but {f'{name}={text}'!r} came")
        found[name] = value
    return found
