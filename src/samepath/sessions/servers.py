"""Fresh servers of ours, each in a process of its own, started in milliseconds.

Importing the simulator and building a map take longer than most scripts run. So one process does both, once; each server is a
fork of that one, from a state that no client has touched. It is told what to do by lines of JSON, and ends, with all of its
servers, when its standard input closes: whoever started it has gone.
"""

import asyncio
import contextlib
import functools
import gc
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from samepath.core.errors import InputError, SimulatorError
from samepath.core.processes import describe_exit, die_with_parent

if TYPE_CHECKING:
    from samepath.simulator.server.server import ServerSettings

_ERROR: Final = "error"


@dataclass(frozen=True)
class ServerKind:
    """What all servers of a nursery are: the map to begin with, folders of the user's maps, CARLA's version (None: newest)."""

    map_name: str = "t-junction"
    sources: tuple[str, ...] = ()
    maps: tuple[str, ...] = ()
    protocol: str | None = None

    def settings(self, data: Path, port: int = 0) -> "ServerSettings":
        """The settings of one of them; called where the simulator is imported already."""
        from samepath.simulator.server.dialects import NEWEST
        from samepath.simulator.server.maps import offered_maps
        from samepath.simulator.server.server import ServerSettings

        name, files = offered_maps(self.map_name, [Path(place) for place in self.maps])
        return ServerSettings(
            port=port,
            map_name=name,
            map_files=files,
            data_folder=data,
            sources=self.sources,
            protocol=self.protocol or NEWEST,
        )


@dataclass(frozen=True)
class FreshServer:
    """A server that has just been started; ``log`` is what it says."""

    pid: int
    port: int
    log: Path


class ServerNursery:
    """Starts servers of one kind, and ends them; nothing of them is left when it is closed."""

    def __init__(self, kind: ServerKind) -> None:
        self._kind = kind
        command = [sys.executable, "-P", "-m", "samepath.sessions.servers"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ours

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(self, **asked: Any) -> dict[str, Any]:  # noqa: ANN401 - words of JSON
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("a process with pipes was wanted")
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise SimulatorError(f"the process that starts servers {describe_exit(self._process.wait())}")
        answer: dict[str, Any] = json.loads(line)
        if _ERROR in answer:
            raise InputError(answer[_ERROR])
        return answer

    def start(self, folder: Path) -> FreshServer:
        """Start a server; what clients record goes to ``folder``, what it says to ``folder/server.log``."""
        log = folder / "server.log"
        answer = self._ask(do="start", kind=asdict(self._kind), data=str(folder / "data"), log=str(log))
        return FreshServer(answer["pid"], answer["port"], log)

    def end(self, server: FreshServer) -> int | None:
        """End a server; returns its exit code if it had ended by itself."""
        code: int | None = self._ask(do="end", pid=server.pid)["code"]
        return code

    def close(self) -> None:
        """End everything."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def main() -> None:
    """Take orders; runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started us: closing our input follows

    import gc

    gc.freeze()
    servers: set[int] = set()
    try:
        for line in sys.stdin:
            asked = json.loads(line)
            answer = _started(asked, servers) if asked["do"] == "start" else {"code": _ended(asked["pid"], servers)}
            print(json.dumps(answer), flush=True)
    finally:
        for pid in sorted(servers):
            _ended(pid, set())


def _kind(asked: dict[str, Any]) -> ServerKind:
    kind = asked["kind"]
    return ServerKind(kind["map_name"], tuple(kind["sources"]), tuple(kind["maps"]), kind["protocol"])


@functools.cache
def _warm_up(kind: ServerKind, data: str) -> None:
    """Start a server here and stop it at once: what it has loaded and built every fork then has."""
    from samepath.core.errors import SamepathError
    from samepath.simulator.server.server import SimulatorServer

    async def run() -> None:
        settings = replace(kind, sources=()).settings(Path(data))
        await SimulatorServer(settings, lambda line: print(f"samepath twice: {line}", file=sys.stderr, flush=True)).build_code()
        server = SimulatorServer(settings, lambda _: None)
        await server.start()
        await server.stop()

    # What is wrong here is wrong in the fork too, and said there.
    with contextlib.suppress(SamepathError):
        asyncio.run(run())
    gc.freeze()


def _started(asked: dict[str, Any], servers: set[int]) -> dict[str, Any]:
    _warm_up(_kind(asked), asked["data"])
    read_end, write_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        with contextlib.suppress(BaseException):
            die_with_parent(parent)
            _serve(asked, write_end)
        os._exit(1)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as said:
        answer: dict[str, Any] = json.loads(said.readline() or '{"error": "the server did not start"}')
    if _ERROR in answer:
        os.waitpid(pid, 0)
        return answer
    servers.add(pid)
    return {"pid": pid, **answer}


def _ended(pid: int, servers: set[int]) -> int | None:
    servers.discard(pid)
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        return os.waitstatus_to_exitcode(status)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _serve(asked: dict[str, Any], write_end: int) -> None:
    """In the fork: serve until the end."""
    from samepath.core.errors import SamepathError
    from samepath.simulator.server.server import SimulatorServer

    os.setsid()  # the script's terminal is not ours
    nothing, log = os.open(os.devnull, os.O_RDWR), os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for handle, number in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(handle, number)

    def say(words: str) -> None:
        os.write(2, f"samepath serve: {words}\n".encode())

    async def run() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        failures: list[str] = []

        def failed(words: str) -> None:
            failures.append(words)
            loop.call_soon_threadsafe(over.set)

        server = SimulatorServer(_kind(asked).settings(Path(asked["data"])), say, failed)
        await server.start()
        os.write(write_end, json.dumps({"port": server.port}).encode() + b"\n")
        await over.wait()
        say(failures[0])
        os._exit(70)

    try:
        asyncio.run(run())
    except SamepathError as error:
        os.write(write_end, json.dumps({_ERROR: str(error)}).encode() + b"\n")
        os._exit(2)


if __name__ == "__main__":
    main()
