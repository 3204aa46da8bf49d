"""samepath: does your driving simulator take the same path twice?

>>> import samepath
>>> report = samepath.analyse("runs/my-logs", tolerance="1 cm")        # doctest: +SKIP
>>> report.verdict, report.passes                                      # doctest: +SKIP
>>> result = samepath.run_study("controls", progress=True)             # doctest: +SKIP
>>> result.report.write("public")                                      # doctest: +SKIP

Importing the package costs next to nothing: each name below is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from samepath.core.errors import SamepathError as SamepathError
    from samepath.core.verdicts import Verdict as Verdict
    from samepath.instrument.analysis.cell import CellAnalysis as CellAnalysis
    from samepath.instrument.analysis.explain import Explanation as Explanation
    from samepath.instrument.bisect import BisectResult as BisectResult
    from samepath.instrument.bisect import bisect as bisect
    from samepath.instrument.border import BorderResult as BorderResult
    from samepath.instrument.border import ToleranceResult as ToleranceResult
    from samepath.instrument.border import search as search
    from samepath.instrument.border import tolerance as tolerance
    from samepath.instrument.evaluation import Report as Report
    from samepath.instrument.evaluation import analyse as analyse
    from samepath.instrument.evaluation import check as check
    from samepath.instrument.evaluation import load as load
    from samepath.instrument.evaluation import store as store
    from samepath.instrument.execution.run import Failure as Failure
    from samepath.instrument.execution.run import StudyProgress as StudyProgress
    from samepath.instrument.explaining import explain as explain
    from samepath.instrument.golden import GoldenCheck as GoldenCheck
    from samepath.instrument.golden import GoldenWritten as GoldenWritten
    from samepath.instrument.golden import check_golden as check_golden
    from samepath.instrument.golden import write_golden as write_golden
    from samepath.instrument.replaying import OpenLoop as OpenLoop
    from samepath.instrument.replaying import open_loop as open_loop
    from samepath.instrument.replaying import replay as replay
    from samepath.instrument.shrink import ShrinkResult as ShrinkResult
    from samepath.instrument.shrink import shrink as shrink
    from samepath.instrument.study.records import Plan as Plan
    from samepath.instrument.study_run import StudyInterrupted as StudyInterrupted
    from samepath.instrument.study_run import StudyPreview as StudyPreview
    from samepath.instrument.study_run import StudyResult as StudyResult
    from samepath.instrument.study_run import StudySummary as StudySummary
    from samepath.instrument.study_run import preview_study as preview_study
    from samepath.instrument.study_run import resume_study as resume_study
    from samepath.instrument.study_run import run_study as run_study
    from samepath.instrument.study_run import studies as studies
    from samepath.instrument.traces.cell import CellTrace as CellTrace
    from samepath.instrument.viewing import View as View
    from samepath.instrument.viewing import view as view
    from samepath.sessions.twice import TwiceReport as TwiceReport
    from samepath.sessions.twice import compare_recorded as compare_recorded
    from samepath.sessions.twice import twice as twice
    from samepath.simulator.sensors.batch import render as render
    from samepath.simulator.sensors.batch import render_on_card as render_on_card

__version__ = "0.2.0"

# Where each name is defined: nothing is imported before it is asked for. A test holds the table against the block above.
_HOMES = {
    "run_study": "samepath.instrument.study_run",
    "resume_study": "samepath.instrument.study_run",
    "preview_study": "samepath.instrument.study_run",
    "studies": "samepath.instrument.study_run",
    "StudyResult": "samepath.instrument.study_run",
    "StudySummary": "samepath.instrument.study_run",
    "StudyInterrupted": "samepath.instrument.study_run",
    "StudyPreview": "samepath.instrument.study_run",
    "load": "samepath.instrument.evaluation",
    "store": "samepath.instrument.evaluation",
    "analyse": "samepath.instrument.evaluation",
    "check": "samepath.instrument.evaluation",
    "Report": "samepath.instrument.evaluation",
    "explain": "samepath.instrument.explaining",
    "Explanation": "samepath.instrument.analysis.explain",
    "CellAnalysis": "samepath.instrument.analysis.cell",
    "CellTrace": "samepath.instrument.traces.cell",
    "Failure": "samepath.instrument.execution.run",
    "StudyProgress": "samepath.instrument.execution.run",
    "replay": "samepath.instrument.replaying",
    "open_loop": "samepath.instrument.replaying",
    "OpenLoop": "samepath.instrument.replaying",
    "write_golden": "samepath.instrument.golden",
    "check_golden": "samepath.instrument.golden",
    "GoldenWritten": "samepath.instrument.golden",
    "GoldenCheck": "samepath.instrument.golden",
    "bisect": "samepath.instrument.bisect",
    "BisectResult": "samepath.instrument.bisect",
    "search": "samepath.instrument.border",
    "BorderResult": "samepath.instrument.border",
    "tolerance": "samepath.instrument.border",
    "ToleranceResult": "samepath.instrument.border",
    "shrink": "samepath.instrument.shrink",
    "ShrinkResult": "samepath.instrument.shrink",
    "Plan": "samepath.instrument.study.records",
    "view": "samepath.instrument.viewing",
    "View": "samepath.instrument.viewing",
    "twice": "samepath.sessions.twice",
    "compare_recorded": "samepath.sessions.twice",
    "TwiceReport": "samepath.sessions.twice",
    "render": "samepath.simulator.sensors.batch",
    "render_on_card": "samepath.simulator.sensors.batch",
    "SamepathError": "samepath.core.errors",
    "Verdict": "samepath.core.verdicts",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'samepath' has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # found at once the next time
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
