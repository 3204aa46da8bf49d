"""Processes that help to measure: each takes orders as lines of JSON, answers in lines of JSON, and ends with its parent."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bench.thesis.placing import pin
from samepath.core.errors import ClusterError
from samepath.core.processes import die_with_parent

_END_S: Final = 20.0


class Child:
    """A process of ours. ``what`` names it in errors; ``log`` takes what it prints beside its answers."""

    def __init__(
        self,
        what: str,
        module: str,
        *,
        log: Path | None = None,
        cores: frozenset[int] = frozenset(),
        extra_environment: Mapping[str, str] | None = None,
    ) -> None:
        self._what, self._log = what, log
        said = log.open("ab") if log is not None else None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
                process_group=0,  # a terminal's Ctrl-C is for the one who measures
                env={**os.environ, **(extra_environment or {})},
            )  # fmt: skip
        finally:
            if said is not None:
                said.close()
        pin(self._process.pid, cores)

    def say(self, **words: object) -> None:
        """Give an order."""
        if self._process.stdin is None:
            raise RuntimeError("a pipe was asked for")
        try:
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise ClusterError(self._ended()) from None

    def answer(self) -> Any:  # noqa: ANN401 - our own process's words
        """Wait for an answer."""
        line = self._process.stdout.readline() if self._process.stdout is not None else b""
        if not line:
            raise ClusterError(self._ended())
        found = json.loads(line)
        if isinstance(found, dict) and "error" in found:
            raise ClusterError(f"{self._what}: {found['error']}")
        return found

    def ask(self, **words: object) -> Any:  # noqa: ANN401
        """Give an order and wait for its answer."""
        self.say(**words)
        return self.answer()

    def close(self) -> None:
        """End it: it is told so by the end of its orders, and killed if it does not hear that."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_S)

    def _ended(self) -> str:
        last = "look at what it printed above"
        if self._log is not None:
            with suppress(OSError, IndexError):
                last = self._log.read_text("utf-8", "replace").splitlines()[-1]
        return f"{self._what} has ended: {last}"


def orders() -> Iterator[Any]:
    """In the child: its orders, until there are no more."""
    die_with_parent(int(sys.argv[1]))
    for line in sys.stdin.buffer:
        yield json.loads(line)


def reply(words: object) -> None:
    """In the child: answer."""
    print(json.dumps(words), flush=True)
