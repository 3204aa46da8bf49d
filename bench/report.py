"""The case study's report in a browser, and logs of other people judged by monitors: how long does it take?

The page is that of ``make study`` (48 cells): of ``runs/case-study`` if it is there, else the study is run, with 3 repeats a
cell. It is written anew by this code, with the study's monitors, and opened in Chromium, wide and narrow: until the whole page
is laid out and painted. The log is in the paper authors' format, with as many repeats as they made; what ``samepath analyse
--monitors --json`` takes is measured from outside, start of Python included.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import samepath
from bench.tools import ROOT, best_s, save, show, verdict
from samepath.instrument.study.plan import load_plan
from tests.support.chromium import chromium

OPENS_S = 2.0
JUDGED_S = 30.0
WIDTHS_PX = {"wide": 1280, "narrow": 400}
LOG = ROOT / "tests" / "data" / "tsl_format.txt"
REPEATS = 1000
MONITORS = """
monitors:
  - {name: a metre apart, kind: gap, of: 1, at_least: 1 m}
  - {name: no collision in a second, kind: ttc, of: 1, at_least: 1 s}
  - {name: walks, kind: speed, of: 1, at_most: 3 m/s}
  - abs(jerk(1)) < 100
"""


def written_report(folder: Path) -> Path:
    """Return the page of the case study, drawn by this code."""
    traces = ROOT / "runs" / "case-study"
    if not (traces / "study.json").exists():
        traces = samepath.run_study("case-study", folder / "study", repeats=3).folder
    report = samepath.analyse(traces, monitors=load_plan("case-study").judging.monitors, progress=False)
    return report.write(folder)


def opened(page: Path) -> dict[str, dict[str, float]]:
    """How long the page takes in Chromium, the best of three fresh windows each."""
    found: dict[str, dict[str, float]] = {}
    with chromium() as open_page:
        for name, width in WIDTHS_PX.items():
            times = []
            for _ in range(3):
                shown = open_page(page.as_uri(), width=width, height=900, wait=False)
                timing = shown.evaluate(
                    """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
                        const one = performance.getEntriesByType('navigation')[0];
                        done({loaded: one.loadEventEnd, drawn: performance.now(),
                              wider: document.documentElement.scrollWidth - innerWidth,
                              height: document.documentElement.scrollHeight}); })))"""
                )
                times.append(timing)
                shown.context.close()
            best = min(times, key=lambda run: run["drawn"])
            found[name] = {"loaded_s": best["loaded"] / 1e3, "drawn_s": best["drawn"] / 1e3}
            found[name] |= {key: best[key] for key in ("wider", "height")}
    return found


def large_log(path: Path) -> int:
    """Write a log with a thousand repeats in the authors' format, from the one that is kept; return its rows."""
    head, *lines = LOG.read_text("utf-8").splitlines()
    first = [line.partition(",")[2] for line in lines if line.split(",")[0].strip() == "1"]
    with path.open("w", encoding="utf-8") as out:
        out.write(f"{head}\n")
        for repeat in range(1, REPEATS + 1):
            out.writelines(f"{repeat},{rest}\n" for rest in first)
    return REPEATS * len(first)


def main() -> bool:
    """Measure both."""
    rows, figures = [], {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        page = written_report(folder)
        figures["page_mb"] = page.stat().st_size / 1e6
        for name, times in opened(page).items():
            figures[name] = times
            met = times["drawn_s"] < OPENS_S and times["wider"] <= 0
            rows.append([f"report, {name}", f"{times['drawn_s']:.2f} s", f"below {OPENS_S:g} s", verdict(met=met)])
        log, monitors = folder / "log.txt", folder / "monitors.yaml"
        figures["log_rows"] = large_log(log)
        monitors.write_text(MONITORS, encoding="utf-8")
        command = [sys.executable, "-m", "samepath", "analyse", str(log), "--monitors", str(monitors), "--json"]
        answers = []
        took_s = best_s(lambda: answers.append(subprocess.run(command, capture_output=True, check=True, text=True)), rounds=2)
        judged = json.loads(answers[0].stdout)["cells"][0]["monitors"]
        figures["judged_s"] = took_s
        right = took_s < JUDGED_S and all(
            assertion["verdicts"]["pass"] + assertion["verdicts"]["fail"] == REPEATS for assertion in judged
        )
        what = f"{figures['log_rows']} rows of a log by {len(judged)} monitors"
        rows.append([what, f"{took_s:.1f} s", f"below {JUDGED_S:g} s", verdict(met=right)])
    show("the report opens, logs are judged", ["what", "takes", "aim", ""], rows)
    save("report", figures)
    return all(row[-1] == verdict(met=True) for row in rows)
