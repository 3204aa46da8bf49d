"""An engine's process as an adapter sees it: lines in, lines out, each within a time limit, and an end that is always told.

The program has a session of its own under a supervisor (``supervisor.py``). It ends with this process, with
:meth:`EngineProcess.close` or by itself, and takes with it all that it has started, detached or not. Every wait has a limit: an
engine that hangs must fail one repeat, never the study.
"""

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError, printable
from samepath.core.processes import describe_exit

MAX_LINE_BYTES: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 16
_SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
# How long the supervisor may take to start the program, and to end everything.
_START_S: Final = 60.0
_END_S: Final = 20.0
# What has ended is told of after what it left behind was given the supervisor's grace.
_MOMENT_S: Final = 2.0
_LAST_LINES: Final = 3
_LONGEST_WORDS: Final = 300


@dataclass(frozen=True)
class ExitStatus:
    """How a program ended: exit code or, negative, signal; what it left running, by name; its last words on stderr."""

    code: int
    left: tuple[str, ...] = ()
    said: str = ""

    @property
    def words(self) -> str:
        """Say it, with the last lines of stderr."""
        return f"{describe_exit(self.code)}{_last_words(self.said)}"


class EngineProcess:
    """A program that was started. ``name`` is what messages call it.

    ``talks``: it writes to stdout what we are to read, and reads from stdin what we send. Otherwise the last of what it writes
    is kept, to be told when it fails. ``environment`` is added to ours. ``scratch`` is a folder to be removed at last, even if
    this process is killed.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        talks: bool = True,
        scratch: Path | None = None,
    ) -> None:
        self.name = name
        self._ended: ExitStatus | None = None
        self._lines = bytearray()
        self._news = bytearray()
        self._heard_all = not talks
        commands_end, self._commands = os.pipe()
        self._status, status_end = os.pipe()
        numbers = [str(commands_end), str(status_end), str(os.getpid())]
        last = ["" if scratch is None else str(scratch), *command]
        pipe = subprocess.PIPE if talks else subprocess.DEVNULL
        try:
            self._supervisor = subprocess.Popen(  # noqa: S603 - no shell
                [sys.executable, "-I", "-S", str(_SUPERVISOR), *numbers, "apart" if talks else "together", *last],
                stdin=pipe,
                stdout=pipe,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                pass_fds=[commands_end, status_end],
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            self._close_handles()
            raise SimulatorError(f"{name} cannot be started: {error}") from error
        finally:
            os.close(commands_end)
            os.close(status_end)
        for stream in (self._supervisor.stdin, self._supervisor.stdout):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
        self.pid = self._started(command[0])

    def _started(self, program: str) -> int:
        news = self._next_news(SYSTEM_CLOCK.monotonic_s() + _START_S)
        if news is not None and "pid" in news:
            return int(news["pid"])
        self.close()
        reason = os.strerror(news["error"]) if news is not None and "error" in news else "its supervisor failed"
        raise SimulatorError(f"{self.name}: {program} cannot be started: {reason}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Is it, and all it has started, not yet at its end?"""
        return self._look(0.0) is None

    def line(self, longest_s: float, late: str = "") -> bytes | None:
        """Return the next line of stdout without its end, None after the last; raises where none comes in time.

        ``late`` is what is said of the program then, where it is not its silence that counts.
        """
        place = self._lines.find(b"\n")
        if place < 0:
            place = self._more(longest_s, late or f"wrote nothing for {longest_s:g} s")
        if place < 0:
            rest = bytes(self._lines)
            self._lines.clear()
            return rest or None
        line = bytes(self._lines[:place])
        del self._lines[: place + 1]
        return line.removesuffix(b"\r")

    def _more(self, longest_s: float, late: str) -> int:
        """Read until there is a line; return where it ends, -1 where there are no more."""
        until_s = SYSTEM_CLOCK.monotonic_s() + longest_s
        while not self._heard_all:
            known = len(self._lines)
            if not self._hear(until_s):
                raise self.trouble(late)
            place = self._lines.find(b"\n", known)
            if place >= 0:
                return place
            if len(self._lines) > MAX_LINE_BYTES:
                raise self.trouble(f"wrote {len(self._lines)} bytes without the end of a line")
        return -1

    def read(self, count: int, longest_s: float) -> bytes:
        """Return exactly ``count`` bytes of stdout; raises where they do not come in time, or at all."""
        until_s = SYSTEM_CLOCK.monotonic_s() + longest_s
        while len(self._lines) < count:
            if self._heard_all:
                wanted = f"{count} bytes were wanted and {len(self._lines)} came"
                raise self.trouble(f"ended its output where {wanted}", _MOMENT_S)
            if not self._hear(until_s):
                raise self.trouble(f"wrote nothing for {longest_s:g} s")
        data = bytes(self._lines[:count])
        del self._lines[:count]
        return data

    def _hear(self, until_s: float) -> bool:
        """Wait for output and take it in; False where none came in time."""
        stream = self._supervisor.stdout
        if stream is None:
            return True
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        if not poll.poll(_left_ms(until_s)):
            return False
        with suppress(BlockingIOError):
            data = os.read(stream.fileno(), _CHUNK_BYTES)
            self._lines += data
            self._heard_all = not data
        return True

    def send(self, data: bytes, longest_s: float) -> None:
        """Write to stdin; raises where the program does not take it in time. What it writes meanwhile is kept for us."""
        stream = self._supervisor.stdin
        if stream is None:
            raise SimulatorError(f"{self.name} was started without anybody to talk to")
        until_s, left = SYSTEM_CLOCK.monotonic_s() + longest_s, memoryview(data)
        while left:
            poll = select.poll()
            poll.register(stream, select.POLLOUT)
            if self._supervisor.stdout is not None and not self._heard_all and len(self._lines) < MAX_LINE_BYTES:
                poll.register(self._supervisor.stdout, select.POLLIN)
            ready = poll.poll(_left_ms(until_s))
            if not ready:
                raise self.trouble(f"took nothing for {longest_s:g} s")
            for handle, _ in ready:
                if handle != stream.fileno():
                    self._hear(until_s)
                    continue
                try:
                    with suppress(BlockingIOError):
                        left = left[os.write(handle, left) :]
                except BrokenPipeError:
                    raise self.trouble("no longer listens", _MOMENT_S) from None

    def end_of_input(self) -> None:
        """Tell the program that nothing more will be sent."""
        if self._supervisor.stdin is not None:
            self._supervisor.stdin.close()

    def wait(self, longest_s: float) -> ExitStatus:
        """Wait until the program has ended, and return how; raises where that takes too long."""
        found = self._look(longest_s)
        if found is None:
            raise self.trouble(f"did not end within {longest_s:g} s")
        return found

    def finish(self, longest_s: float) -> None:
        """Wait for a good end: exit code 0, nothing left running. Raises for any other."""
        ended = self.wait(longest_s)
        if ended.code == 0 and not ended.left:
            return
        self.close()
        if ended.code != 0:
            raise SimulatorError(f"{self.name} {ended.words}")
        count = "a process" if len(ended.left) == 1 else f"{len(ended.left)} processes"
        names = ", ".join(dict.fromkeys(ended.left))
        raise SimulatorError(f"{self.name} left {count} running when it ended ({names}): killed")

    def ask_to_end(self) -> None:
        """Send SIGTERM; whoever ignores it is killed by :meth:`close`."""
        with suppress(OSError):
            os.write(self._commands, b"t")

    def trouble(self, what: str, longest_s: float = 0.0) -> SimulatorError:
        """End everything and return the error to raise: what went wrong, how the program ended, its last words.

        Where the program seems to have ended by itself, its supervisor is given ``longest_s`` to say so.
        """
        before = self._look(longest_s)
        self.close()
        if before is not None:
            return SimulatorError(f"{self.name} {what}: it {before.words}")
        said = self._ended.said if self._ended is not None else ""
        return SimulatorError(f"{self.name} {what}, and was stopped{_last_words(said)}")

    def close(self) -> None:
        """Kill whatever is left of the program, and wait until it is gone; may be called twice."""
        if self._commands < 0:
            return
        os.close(self._commands)
        self._commands = -1
        self._look(_END_S)
        try:
            self._supervisor.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()  # the kernel then ends the program itself
            self._supervisor.wait()
        self._close_handles()

    def _close_handles(self) -> None:
        for handle in (self._commands, self._status):
            if handle >= 0:
                os.close(handle)
        self._commands = self._status = -1
        supervisor = getattr(self, "_supervisor", None)
        for stream in (supervisor.stdin, supervisor.stdout) if supervisor is not None else ():
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _look(self, longest_s: float) -> ExitStatus | None:
        """Return how it ended, if that is told within so many seconds."""
        if self._ended is None and self._status >= 0:
            news = self._next_news(SYSTEM_CLOCK.monotonic_s() + longest_s)
            if news is not None:
                code = news.get("ended")
                left, said = tuple(news.get("left", ())), str(news.get("said", ""))
                self._ended = ExitStatus(-9 if code is None else int(code), left, said)
        return self._ended

    def _next_news(self, until_s: float) -> dict[str, Any] | None:
        """Return what the supervisor says next; None where it says nothing in time. One that is gone has ended the program."""
        poll = select.poll()
        poll.register(self._status, select.POLLIN)
        while b"\n" not in self._news:
            if not poll.poll(_left_ms(until_s)):
                return None
            data = os.read(self._status, _CHUNK_BYTES)
            if not data:
                return {"said": "its supervisor was killed"}
            self._news += data
        line, _, rest = bytes(self._news).partition(b"\n")
        self._news = bytearray(rest)
        news: dict[str, Any] = json.loads(line)
        return news


def _left_ms(until_s: float) -> float:
    return max(0.0, (until_s - SYSTEM_CLOCK.monotonic_s()) * 1000)


def _last_words(said: str) -> str:
    """Return the last lines that were said, in one."""
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    words = " | ".join(lines[-_LAST_LINES:])
    if len(words) > _LONGEST_WORDS:
        words = "..." + words[-_LONGEST_WORDS:]
    words = printable(words)
    return f"; its last words: {words}" if words else ""


def find_program(program: str, name: str, how_to: str, folder: Path | None = None) -> str:
    """Return the full path of a program, or say that ``name`` is not installed and how to get it.

    A word is looked for on the search path, a path from ``folder`` on.
    """
    path = program if "/" not in program else str((folder or Path.cwd()) / program)
    found = shutil.which(path)
    if found is None:
        raise SimulatorError(f"{name} is not installed ({program} was not found): {how_to}")
    return found


def user_folder(name: str) -> Path:
    """Return where an engine is looked for that is named nowhere: a folder in the user's data."""
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "samepath" / name


def ask(name: str, command: Sequence[str], longest_s: float = 20.0, folder: Path | None = None) -> str:
    """Run a program that says something and ends, such as its version; return the first line of stdout, or else of stderr."""
    with EngineProcess(name, command, folder=folder) as process:
        process.end_of_input()
        line, first = process.line(longest_s), ""
        while line is not None:
            first = first or line.decode("utf-8", "replace").strip()
            line = process.line(longest_s)
        ended = process.wait(longest_s)
    if ended.code != 0:
        raise SimulatorError(f"{name} {ended.words}")
    return first or next((line.strip() for line in ended.said.splitlines() if line.strip()), "")
