"""``samepath conformance``: does an adapter keep the simulators' contract?"""

from typing import Annotated

import typer
import yaml

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
    settings, scenarios = _settings(setting or []), scenario or []
    Preset(registry.create(simulator), settings, scenarios).close()
    failed = 0
    for result in check_all(lambda: Preset(registry.create(simulator), settings, scenarios)):
        failed += bool(result.problem)
        typer.echo(f"{'FAIL' if result.problem else 'ok  '}  {result.name}" + (f": {result.problem}" if result.problem else ""))
    raise typer.Exit(1 if failed else 0)


def _settings(given: list[str]) -> dict[str, Scalar]:
    """Read values as a study file would."""
    found: dict[str, Scalar] = {}
    for one in given:
        name, equals, text = one.partition("=")
        try:
            value = yaml.safe_load(text) if text else ""
        except yaml.YAMLError:
            value = None
        if not (name.strip() and equals and isinstance(value, str | float | int | bool)):
            raise InputError(f"--setting: NAME=VALUE was wanted, such as port=2010, but {one!r} came")
        found[name.strip()] = value
    return found
