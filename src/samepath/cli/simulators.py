"""``samepath simulators``: what can be measured from here; ``samepath conformance``: does an adapter keep the contract?"""

from typing import Annotated

import typer
import yaml
from rich.table import Table
from rich.text import Text

from samepath.cli.common import name_values, stdout_console
from samepath.core.errors import InputError, SamepathError
from samepath.engines import registry
from samepath.engines.conformance import RUNS, check_all
from samepath.engines.interface import Preset, Scalar, SimulatorInfo


def simulators(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Tell all about these.")] = None,
) -> None:
    """List the known simulators with their versions and, of what is not installed, how to; with names, all about these."""
    if names:
        for index, name in enumerate(names):
            _tell(name, gap=index > 0)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("simulator", "version", "what it is"):
        table.add_column(column, no_wrap=column == "simulator", overflow="fold")
    missing = []
    for name in sorted(registry.table()):
        try:
            info, reason = _asked(name)
        except SamepathError as error:
            missing.append(f"{name}: {error}")
            table.add_row(Text(name), Text("cannot be loaded", style="yellow"))
            continue
        if reason:
            missing.append(f"{name}: {reason}")
        version = Text("see below", style="yellow") if reason else Text(info.version or "-")
        table.add_row(Text(name), version, Text(info.summary))
    console = stdout_console()
    console.print(table)
    for line in missing:
        console.print(Text(line, style="yellow"), soft_wrap=True)
    typer.echo("samepath simulators NAME tells its scenarios and settings")
    typer.echo("more: install a package that announces one (entry point group samepath.simulators), or name MODULE:CLASS")


def _asked(name: str) -> tuple[SimulatorInfo, str]:
    """Return what a simulator says of itself, and why it cannot be run here."""
    with registry.create(name) as simulator:
        return simulator.described({}), simulator.unavailable({})


def _tell(name: str, *, gap: bool) -> None:
    info, reason = _asked(name)
    able = info.capabilities
    replayed = {"its controllers' commands": able.replays, "whole runs, from what went into them": able.inputs}
    told = {
        "version": info.version or "-",
        "what it is": info.summary,
        "scenarios": ", ".join(info.scenarios),
        "step": f"{info.step_s:g} s",
        "channels": ", ".join(info.channels),
        "promises": "the same bits in every repeat, with these settings" if able.deterministic else "nothing",
        "replays": "; ".join(words for words, can in replayed.items() if can) or "nothing",
        "settings": "\n".join(f"{key}={value}" for key, value in info.settings.items()) or "-",
    }
    table = Table(box=None, pad_edge=False, show_header=False, title=Text(name), title_justify="left", title_style="bold")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for word, value in told.items():
        table.add_row(word, Text(value))
    console = stdout_console()
    if gap:
        console.print()
    console.print(table)
    if reason:
        console.print(Text(reason, style="yellow"), soft_wrap=True)


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
    runs: Annotated[
        int, typer.Option("--runs", min=2, max=100_000, help="Runs of each scenario that must be equal, if it says so.")
    ] = RUNS,
) -> None:
    """Run the conformance kit on a simulator; exit 1 if a check fails."""
    settings, scenarios = _settings(setting), scenario or []
    Preset(registry.create(simulator), settings, scenarios).close()
    failed = 0
    for result in check_all(lambda: Preset(registry.create(simulator), settings, scenarios), runs):
        failed += bool(result.problem)
        told = result.problem or result.remark
        typer.echo(f"{'FAIL' if result.problem else 'ok  '}  {result.name}" + (f": {told}" if told else ""))
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
