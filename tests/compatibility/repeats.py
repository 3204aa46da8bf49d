"""One program, several times, each time against a fresh server: how it ended, and whether all runs were the same.

What is compared is what ``samepath twice`` compares: every call of the program at its tick, every answer, every state of every
actor, every sensor frame. A program that takes its ports by argument finds them in its environment, so its command is given to
a shell: ``$CARLA_PORT``, and ``$RESULT``, a path of this run's own for whatever the program writes.
"""

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samepath.sessions.script_runs import ScriptRunner, TwiceSettings
from samepath.sessions.twice import TwiceReport, twice


@dataclass(frozen=True)
class RepeatedRuns:
    """``outputs``, ``results`` and ``sessions`` are files, one for each run; ``report`` is None for a single run."""

    outputs: tuple[Path, ...]
    results: tuple[Path, ...]
    sessions: tuple[Path, ...]
    report: TwiceReport | None

    @property
    def words(self) -> str:
        """The verdict, as samepath twice words it, on one line."""
        if self.report is None:
            return ""
        return " ".join(self.report.words().split("Cause:")[0].split())


@dataclass(frozen=True)
class FreshServers:
    """What the servers are, where they listen, and how long a run may take. ``town`` is the map they begin with."""

    maps: Path
    port: int
    protocol: str | None = None
    timeout_s: float = 900.0
    town: str = "oval"


def repeated(
    words: Sequence[str], environment: Mapping[str, str], cwd: Path, runs: int, servers: FreshServers, keep: Path
) -> RepeatedRuns:
    """Run a command so often. In its words, ``$CARLA_PORT`` and ``$RESULT`` stand for themselves."""
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(environment.items()))
    line = " ".join(word if "$" in word else shlex.quote(word) for word in words)
    script = f'cd {shlex.quote(str(cwd))} && RESULT="$CARLA_CACHE_DIR.result" && export RESULT && exec env {settings} {line}'
    command = ["sh", "-c", script]

    def log(said: str) -> None:
        print(f"  {said}", file=sys.stderr, flush=True)

    report = None
    if runs == 1:
        given = TwiceSettings(
            tuple(command),
            map_name=servers.town,
            port=servers.port,
            timeout_s=servers.timeout_s,
            keep=keep,
            maps=(servers.maps,),
            protocol=servers.protocol,
        )
        with ScriptRunner(given, log) as runner:
            runner.run("run-1")
    else:
        report = twice(
            command,
            runs,
            map_name=servers.town,
            port=servers.port,
            timeout_s=servers.timeout_s,
            keep=keep,
            maps=[servers.maps],
            protocol=servers.protocol,
            investigate=False,
            log=log,
        )
    folders = [keep / f"run-{number}" for number in range(1, runs + 1)]
    outputs = tuple(folder / "output.log" for folder in folders)
    results = tuple(folder / "cache.result" for folder in folders)
    sessions = tuple(folder / "session.samepath" for folder in folders)
    return RepeatedRuns(outputs, results, sessions, report)
