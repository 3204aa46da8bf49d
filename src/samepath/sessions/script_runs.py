"""Runs a script, unchanged, against fresh servers through a proxy: one recording per run.

Each run has a server that nobody has touched (or the given one, with its map loaded anew), a proxy with a recording of its own,
and an environment that tells the script where the server is: CARLA_HOST, CARLA_PORT, and a CARLA_CACHE_DIR of its own, because
CARLA's client fetches files in its first run that it finds in its cache in the second. The script's output goes to a file.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgpack

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import InputError, SimulatorError, printable
from samepath.core.files import make_folder
from samepath.core.processes import describe_exit
from samepath.instrument.conditions import layout
from samepath.instrument.conditions.machine import MachineLoads
from samepath.sessions.causes import Witness, read_witness
from samepath.sessions.proxy import ProxySettings, SessionProxy, read_address
from samepath.sessions.recording import SessionRecording, read_session
from samepath.sessions.servers import FreshServer, ServerKind, ServerNursery
from samepath.sessions.timeline import Timeline, timeline_of

T = TypeVar("T")

DEFAULT_PORT: Final = 2000
_PROJECT: Final = Path(__file__).parent / "project"
_SETTLE_S: Final = 2.0
_RELOAD_S: Final = 120.0
_TAIL_BYTES: Final = 4096


@dataclass(frozen=True)
class Pins:
    """What a further run of a script holds still, and at which value; None or false: as it comes."""

    hash_seed: int | None = None
    addresses: bool = False
    random: int | None = None
    clock: tuple[float, float] | None = None
    manager_synchronous: bool = False
    manager_seed: int | None = None
    # The threads in the order in which they call CARLA.
    order: tuple[str, ...] | None = None
    # One line of the script, file and number, and what it alone draws from or reads.
    line: tuple[str, int] | None = None
    line_random: int | None = None
    line_clock: tuple[float, float] | None = None


@dataclass(frozen=True)
class TwiceSettings:
    """How a script is run. ``port`` None: 2000 where it is free. ``loads`` are shares of the machine, such as cpu_load."""

    command: tuple[str, ...]
    server: str | None = None
    map_name: str = "t-junction"
    host: str = "127.0.0.1"
    port: int | None = None
    timeout_s: float = 600.0
    keep: Path | None = None
    loads: dict[str, float] | None = None
    sources: tuple[str, ...] = ()
    maps: tuple[Path, ...] = ()
    protocol: str | None = None

    @property
    def kind_of_server(self) -> ServerKind:
        """What the fresh servers are."""
        return ServerKind(self.map_name, self.sources, tuple(str(place.absolute()) for place in self.maps), self.protocol)


@dataclass(frozen=True)
class ScriptRun:
    """One run: its recording, how it ended (None: it was stopped), what it printed last, and what a watched one saw."""

    label: str
    path: Path
    exit_code: int | None
    seconds: float
    last_line: str
    witness: Witness | None

    @cached_property
    def recording(self) -> SessionRecording:
        return read_session(self.path)

    @cached_property
    def timeline(self) -> Timeline:
        return timeline_of(self.recording)

    @property
    def ended(self) -> str:
        """How the script ended, in words."""
        return "was stopped, because it did not end in time" if self.exit_code is None else describe_exit(self.exit_code)


class ScriptRunner:
    """Runs a script as often as asked; use it as a context."""

    def __init__(self, settings: TwiceSettings, log: Callable[[str], None]) -> None:
        self.settings = settings
        self._log = log
        self._server = read_address(settings.server) if settings.server is not None else None
        self._loop = _LoopThread()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        settings = self.settings
        if settings.keep is not None:
            self.folder = make_folder(settings.keep)
            if any(self.folder.iterdir()):
                raise InputError(f"--keep: an empty folder was wanted, but {self.folder} holds something")
        else:
            self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="samepath-twice-")))
        self.port = self._chosen_port()
        try:
            self._stack.enter_context(self._loop)
            self._nursery = self._stack.enter_context(ServerNursery(settings.kind_of_server)) if self._server is None else None
            self._loads = self._stack.enter_context(MachineLoads()) if settings.loads else None
            if self._loads is not None:
                self._loads.hold(settings.loads or {})
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def _chosen_port(self) -> int:
        settings = self.settings
        if settings.port is not None:
            return settings.port
        # CARLA's streams are at the port behind that of its calls.
        if _is_free(settings.host, DEFAULT_PORT) and _is_free(settings.host, DEFAULT_PORT + 1):
            return DEFAULT_PORT
        self._say_taken()
        return 0

    def _say_taken(self) -> None:
        self._log(
            f"port {DEFAULT_PORT} is taken: the script must take the port from CARLA_PORT; one that always calls "
            f"{DEFAULT_PORT} would reach somebody else's server"
        )

    def run(self, label: str, pins: Pins | None = None) -> ScriptRun:
        """Run the script once. With ``pins`` it is watched from inside, and what they name is held still."""
        folder = make_folder(self.folder / label)
        path, server = folder / "session.samepath", None
        if self._nursery is not None:
            server = self._nursery.start(folder)
            address = ("127.0.0.1", server.port)
        elif self._server is not None:
            address = self._server
            _reload(address)
        facts = {"label": label, "command": printable(" ".join(self.settings.command))[:2000], "map": self.settings.map_name}
        settings = ProxySettings(*address, host=self.settings.host, port=self.port, facts=facts)
        try:
            proxy = self._opened(settings, path, label)
            start_s = SYSTEM_CLOCK.monotonic_s()
            try:
                exit_code = self._run_script(folder, proxy.port, pins)
            finally:
                self._loop.do(_settled(proxy))
        finally:
            self._end_server(server)
        seconds = SYSTEM_CLOCK.monotonic_s() - start_s
        witness = read_witness(folder / "witness.jsonl") if pins is not None else None
        return ScriptRun(label, path, exit_code, seconds, _last_line(folder / "output.log"), witness)

    def _opened(self, settings: ProxySettings, path: Path, label: str) -> SessionProxy:
        """A proxy that listens. Port 2000 may be gone since it was looked at: others run scripts too."""

        def log(line: str) -> None:
            self._log(f"{label}: {line}")

        proxy = SessionProxy(settings, path, log)
        try:
            self._loop.do(proxy.start())
        except InputError:
            if self.settings.port is not None or not settings.port:
                raise
            self._say_taken()
            self.port = 0
            proxy = SessionProxy(replace(settings, port=0), path, log)
            self._loop.do(proxy.start())
        return proxy

    def _end_server(self, server: FreshServer | None) -> None:
        if server is None or self._nursery is None:
            return
        code = self._nursery.end(server)
        if code is not None:
            raise SimulatorError(f"the server {describe_exit(code)} during the run; it said last: {_last_line(server.log)}")

    def _run_script(self, folder: Path, port: int, pins: Pins | None) -> int | None:
        command, environment = list(self.settings.command), dict(os.environ)
        cache = folder / "cache"
        environment |= {"CARLA_HOST": self.settings.host, "CARLA_PORT": str(port), "CARLA_CACHE_DIR": str(cache)}
        if pins is not None:
            environment |= _watching(folder, pins, environment)
            if pins.addresses:
                command = [sys.executable, "-I", "-S", str(Path(layout.__file__)), "off", *command]
        with (folder / "output.log").open("wb") as output:
            try:
                process = subprocess.Popen(  # noqa: S603 - the user's own command
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise InputError(f"{self.settings.command[0]} could not be started: {error.strerror or error}") from error
            try:
                return process.wait(self.settings.timeout_s)
            except subprocess.TimeoutExpired:
                return None
            finally:
                # Whatever it has started goes with it: the next run must not meet it.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                shutil.rmtree(cache, ignore_errors=True)


def _watching(folder: Path, pins: Pins, environment: dict[str, str]) -> dict[str, str]:
    """The variables that put our sitecustomize into the script's interpreter, and tell it what to do."""
    told = asdict(pins)
    if pins.order is not None:
        # A variable of the environment has a limit that a long session exceeds.
        order = (folder / "order.json").absolute()
        order.write_text(json.dumps(pins.order), encoding="utf-8")
        told["order"] = str(order)
    asked = {"report": str((folder / "witness.jsonl").absolute()), "pins": told}
    paths = os.pathsep.join([str(_PROJECT), *([environment["PYTHONPATH"]] if environment.get("PYTHONPATH") else [])])
    found = {"SAMEPATH_EVIDENCE": json.dumps(asked), "PYTHONPATH": paths}
    if pins.hash_seed is not None:
        found["PYTHONHASHSEED"] = str(pins.hash_seed)
    return found


async def _settled(proxy: SessionProxy) -> None:
    """End a proxy when its clients have gone, which they have as soon as the kernel says so."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SETTLE_S):
            while proxy.clients or proxy.listeners:
                await asyncio.sleep(0.005)
    await proxy.stop("the script ended")


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError:
            return False
    return True


def _last_line(path: Path) -> str:
    """The last line that says something, bounded."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return printable(lines[-1])[:300] if lines else ""


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="samepath proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _reload(address: tuple[str, int]) -> None:
    """Load the given server's map anew, with its settings as they are at its start."""
    try:
        with socket.create_connection(address, 10.0) as connection:
            connection.settimeout(_RELOAD_S)
            before = _asked(connection, 1, "get_episode_info")
            # The same map, settings as at the start, all layers.
            _asked(connection, 2, "load_new_episode", "", True, 0xFFFF)
            end_s = SYSTEM_CLOCK.monotonic_s() + _RELOAD_S
            while _asked(connection, 3, "get_episode_info")[0] == before[0]:
                if SYSTEM_CLOCK.monotonic_s() > end_s:
                    raise SimulatorError(f"{address[0]}:{address[1]} did not load its map anew within {_RELOAD_S:g} s")
                SYSTEM_CLOCK.sleep_s(0.1)
    except OSError as error:
        where = f"{address[0]}:{address[1]}"
        raise InputError(
            f"--server: {where} cannot be reached ({error.strerror or error}): is a CARLA server there?"
        ) from error


def _asked(connection: socket.socket, number: int, method: str, *arguments: object) -> Any:  # noqa: ANN401 - from the wire
    connection.sendall(msgpack.packb([0, number, method, [[False], *arguments]]))
    unpacker = msgpack.Unpacker(max_buffer_size=1 << 20, raw=False)
    while True:
        data = connection.recv(1 << 16)
        if not data:
            raise InputError("--server: the server closed the connection: is it a CARLA server?")
        unpacker.feed(data)
        try:
            for message in unpacker:
                match message:
                    case [1, _, None, [[1, value]]]:
                        return value
                    case [1, _, None, _]:
                        return None
                raise InputError(f"--server: the server refused {method}: {printable(str(message))[:200]}")
        except (ValueError, msgpack.UnpackException):
            raise InputError("--server: what answered there is no CARLA server") from None
