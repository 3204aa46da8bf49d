"""What built-in studies found on this machine, beside what the paper says: ``python -m bench studies nice pinning``.

Runs the studies that are named (all of ``STUDIES`` otherwise) as ``samepath study`` does, keeps one result per study under
``bench/results/study-NAME.json``, and writes ``docs/study-results.md`` from all that is kept; ``--write-page`` does only that.
``--repeats`` takes another number than the study file's. ``versions`` makes two virtual environments with pip first.

Figures of a crowded machine are figures of a crowded machine: the page has the load that was measured, cell by cell.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.pages import DOCS, kept, measured_on, table, with_made_part
from bench.tools import RESULTS, code_measured, save, show
from samepath.core.units import format_length
from samepath.instrument.analysis.cell import CellAnalysis
from samepath.instrument.report.study_view import study_figures
from samepath.instrument.study_run import StudyResult, run_study

PAGE = DOCS / "study-results.md"
STUDIES = ("nice", "pinning", "far-from-origin", "actor-types", "roundabout", "look-ahead", "versions")
# Two releases of a real engine that pip can install side by side only in environments of their own.
VERSIONS = {"mujoco-3.2": "mujoco==3.2.7", "mujoco-4.0": "mujoco==4.0.0"}
PICTURES = {"nice": "nice", "pinning": "cores"}


def cell_row(cell: CellAnalysis) -> dict[str, Any]:
    """A cell in plain figures."""
    header = cell.header
    load = next((check.measured for check in cell.conditions if check.name == "cpu_load"), None)
    strays = sorted(deviation.max_deviation_m for deviation in cell.deviations)
    return {
        "variant": header.variant or header.simulator,
        "version": header.simulator_version,
        "scenario": header.scenario,
        # Where an environment was made for this is of no interest to anybody else.
        "condition": {name: Path(value).name if isinstance(value, str) else value for name, value in header.condition.items()},
        "packages": header.settings.get("packages"),
        "repeats": cell.repeats,
        "outcomes": len(cell.outcomes),
        "collided": sum(len(ending.repeats) for ending in cell.endings if ending.collisions),
        "verdict": cell.judgement.verdict.value,
        "max_sigma_m": cell.summary.max_sigma_m,
        "before_sigma_m": cell.before.summary.max_sigma_m,
        "median_stray_m": statistics.median(strays) if strays else None,
        "cpu_load": load if isinstance(load, float) else None,
    }


def found_by(result: StudyResult) -> dict[str, Any]:
    """What a study found, for the page."""
    report = result.report
    if report is None:
        raise SystemExit(f"{result.plan.name}: no cell has two repeats to compare: {'; '.join(result.problems)}")
    return {
        "cells": [cell_row(cell) for cell in report.cells],
        "missing": [{"name": cell.name, "reason": cell.reason} for cell in report.missing],
        "answers": [answer.words() for answer in report.study.answers],
        "effects": [rank.words() for rank in report.study.effects.ranks],
        "versions": [pair.words() for pair in report.study.versions],
        "problems": list(result.problems),
    }


def picture_of(result: StudyResult, factor: str) -> str:
    """The figure of single repeats per level of a factor (the paper's Fig. 8), as SVG; the widest variant."""
    wanted = f"Single repeats per level of {factor}"
    groups = [] if result.report is None else [figure for figure in study_figures(result.report) if figure.name == wanted]
    return str(groups[0].figures[0].svg) if groups else ""


def environments(folder: Path) -> dict[str, Path]:
    """Two installations of one engine, as a user would make them."""
    made = {}
    for name, requirement in VERSIONS.items():
        path = folder / name
        subprocess.run([sys.executable, "-m", "venv", str(path)], check=True)
        command = [str(path / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", requirement]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        made[name] = path
    return made


def study_of(name: str, folder: Path) -> str | dict[str, Any]:
    """What is given to ``run_study``."""
    if name != "versions":
        return name
    design = {"simulators": "mujoco", "scenarios": ["table1-test2", "glancing"], "repeats": 5}
    levels = [str(path) for path in environments(folder).values()]
    return {"name": "versions", "design": design, "conditions": {"packages": levels}}


def main(arguments: list[str]) -> bool:
    """Run, keep, write."""
    parser = argparse.ArgumentParser(prog="python -m bench studies")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STUDIES))
    parser.add_argument("--repeats", type=int, help="of every cell; the study's own number otherwise")
    parser.add_argument("--write-page", action="store_true", help="only write docs/study-results.md from what is kept")
    parser.add_argument("--dirty", action="store_true", help="also with changes that no commit holds")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in STUDIES]
    if unknown:
        parser.error(f"unknown study {unknown[0]!r}; known: {', '.join(STUDIES)}")
    if not given.write_page:
        if not code_measured()["clean"] and not given.dirty:
            parser.error("figures belong to a commit, but some changes are in none: commit them, or add --dirty")
        for name in given.names or STUDIES:
            with tempfile.TemporaryDirectory(prefix="samepath-studies-") as place:
                result = run_study(study_of(name, Path(place)), Path(place) / "out", repeats=given.repeats)
                figures = found_by(result)
                if name in PICTURES:
                    figures["picture"] = picture_of(result, PICTURES[name])
                save(f"study-{name}", figures)
            rows = [[*labels(cell).values(), *values(cell).values()] for cell in figures["cells"]]
            show(name, [*labels(figures["cells"][0]), *values(figures["cells"][0])], rows)
    write_page()
    return True


def labels(cell: Mapping[str, Any]) -> dict[str, str]:
    """What tells cells apart."""
    condition = {name: level for name, level in cell["condition"].items() if name not in ("cpu_load", "packages")}
    asked = cell["condition"].get("cpu_load")
    return {
        "variant": cell["variant"] + (f" {cell['version']}" if cell["packages"] else ""),
        "scenario": cell["scenario"],
        **{name: str(level) for name, level in condition.items()},
        **({} if asked is None else {"load asked": f"{100 * asked:.0f} %"}),
    }


def values(cell: Mapping[str, Any]) -> dict[str, str]:
    """What was measured."""
    load = cell["cpu_load"]
    return {
        "load measured": "" if load is None else f"{100 * load:.0f} %",
        "repeats": str(cell["repeats"]),
        "outcomes": str(cell["outcomes"]),
        "collide": str(cell["collided"]),
        "max sigma": _length(cell["max_sigma_m"]),
        "before a collision": _length(cell["before_sigma_m"]),
        "median repeat strays": _length(cell["median_stray_m"]),
    }


def made(results: Mapping[str, dict[str, Any]]) -> str:
    """The page's part that is made from what is kept."""
    return "\n".join(part for name, result in results.items() for part in (*_part(name, result), ""))


def _part(name: str, result: dict[str, Any]) -> Sequence[str]:
    figures = result["figures"]
    still, cells = _still(figures["cells"])
    columns = [*labels(cells[0]), *values(cells[0])]
    rows = [[*labels(cell).values(), *values(cell).values()] for cell in cells]
    head = {"versions": "versions: MuJoCo 3.2.7 and 4.0.0"}.get(name, name)
    lines = [f"## {head}", "", INTRODUCTIONS[name], "", *still, table(columns, rows)]
    missing = {cell["reason"] for cell in figures["missing"]}
    lines += [f"Not run here ({len(figures['missing'])} cells): {reason}." for reason in sorted(missing)]
    off = [cell for cell in figures["cells"] if _missed(cell)]
    if off:
        told = f"in {len(off)} of {len(figures['cells'])} cells another load was measured than was asked"
        lines += [f"Other work filled the machine: {told}. What these levels do is not told by this table.", ""]
    lines += [f"- {words}" for words in (*figures["versions"], *figures["effects"])]
    if figures.get("picture"):
        lines += ["", f"![Single repeats, {name}](study-{name}.svg)"]
    conclude = CONCLUSIONS.get(name)
    return [*lines, "", *([conclude(figures), ""] if conclude else []), f"*{measured_on(result)}*"]


def _still(cells: Sequence[dict[str, Any]]) -> tuple[list[str], Sequence[dict[str, Any]]]:
    """Sentences for variants that never vary, and the cells of the others; where none varies, all cells."""
    moving = {cell["variant"] for cell in cells if cell["outcomes"] > 1 or cell["max_sigma_m"]}
    if not moving:
        return [], cells
    told = []
    for variant in dict.fromkeys(cell["variant"] for cell in cells if cell["variant"] not in moving):
        own = [cell for cell in cells if cell["variant"] == variant]
        repeats = sum(cell["repeats"] for cell in own)
        told += [f"*{variant}*: one outcome in each of {len(own)} cells, {repeats} repeats in all, max sigma exactly 0.", ""]
    return told, [cell for cell in cells if cell["variant"] in moving]


def _missed(cell: Mapping[str, Any]) -> bool:
    """Was the machine fuller or emptier than asked? A load of 0 adds none, and should be little."""
    asked, load = cell["condition"].get("cpu_load"), cell["cpu_load"]
    return asked is not None and load is not None and abs(load - asked) > (0.5 if asked == 0 else 0.05)


def _nice(figures: Mapping[str, Any]) -> str:
    """The paper's Fig. 8 in words, and the same of ours from the figures."""
    at = {(cell["condition"]["nice"], cell["condition"]["cpu_load"]): cell for cell in figures["cells"]}
    told = []
    for level, words in ((-20, "a higher priority"), (19, "a lower one")):
        if (level, 0.75) in at and (0, 0.75) in at:
            ratio = at[level, 0.75]["median_stray_m"] / at[0, 0.75]["median_stray_m"]
            told.append(f"{words} multiplies the median by {ratio:.2g}")
    ours = f" Here, at 75 % asked: {', '.join(told)}." if told else ""
    return (
        "The paper (Fig. 8, CARLA, 1000 repeats): a lower priority has little effect; a higher one significantly reduces the "
        f"variance at 75 % load, but not to that at 0 %.{ours}"
    )


def _pinning(figures: Mapping[str, Any]) -> str:
    at = {(cell["variant"], cell["condition"]["cores"], cell["condition"]["numa"]): cell for cell in figures["cells"]}
    base, one_core = at.get(("game loop", "all", "default")), at.get(("game loop", "one", "default"))
    ours = ""
    if base and one_core and base["max_sigma_m"]:
        change = 100 * (one_core["max_sigma_m"] / base["max_sigma_m"] - 1)
        ours = f" Here one core changes max sigma of the game loop by {change:+.0f} %, in {one_core['repeats']} repeats each."
    return f"The paper (VI-C, numactl, single cores): an improvement of 2 %, considered minor.{ours}"


CONCLUSIONS: dict[str, Callable[[Mapping[str, Any]], str]] = {"nice": _nice, "pinning": _pinning}
INTRODUCTIONS = {
    "nice": "Does priority protect from load? The paper's Fig. 8.",
    "pinning": "Fixed cores and fixed placement of memory, on a busy machine (the paper's VI-C and VII-C4).",
    "far-from-origin": "The same meeting of two cars at 0, 1, 10 and 100 km. How far it is off the path at home is in "
    "[The simulator](simulator.md#far-from-the-origin).",
    "actor-types": "Two of every type of actor meet.",
    "roundabout": "Tests 1 to 5 of the drafts, on the double mini-roundabout.",
    "look-ahead": "Tests 6 to 8 of the drafts: pedestrians that look 0.4, 2 and 20 m ahead.",
    "versions": "Does MuJoCo 4.0.0 take the path of 3.2.7? Two virtual environments, one [condition](studies.md#versions).",
}


def write_page() -> None:
    """Write the page and its pictures."""
    results = kept_studies()
    for name in PICTURES:
        if name in results and results[name]["figures"].get("picture"):
            svg = results[name]["figures"]["picture"]
            head, tag, body = svg.partition(">")
            # A file of its own needs the namespace, and white behind it: a page may be shown on black.
            head = head if "xmlns=" in head else f'{head} xmlns="http://www.w3.org/2000/svg"'
            (DOCS / f"study-{name}.svg").write_text(
                f'{head}{tag}<rect width="100%" height="100%" fill="#fff"/>{body}\n', "utf-8"
            )
    PAGE.write_text(with_made_part(PAGE.read_text("utf-8"), "studies", made(results)), encoding="utf-8")


def kept_studies() -> dict[str, dict[str, Any]]:
    """What is kept, in the order of the page."""
    return {name: kept(f"study-{name}") for name in STUDIES if (RESULTS / f"study-{name}.json").exists()}


def _length(value_m: float | None) -> str:
    return "-" if value_m is None else format_length(value_m)
