"""A server: two listening ports, an event loop, the episode's thread; started and stopped as one."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.network import listen
from samepath.simulator.sensors.renderer import check_renderer
from samepath.simulator.server.episode import Place
from samepath.simulator.server.limits import Limits
from samepath.simulator.server.maps import Atlas
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rendering import Studio, compile_all
from samepath.simulator.server.resume import Keeping, open_episode
from samepath.simulator.server.rpc import Call, Caller, Office
from samepath.simulator.server.runner import Answer, Expect, Gone, Mail, Message, Post, Prepared, Runner, Unheard
from samepath.simulator.server.streams import Hub, Listener

_WORTH_A_LINE_S: Final = 5.0


@dataclass(frozen=True)
class ServerSettings:
    """How a server is started. Port 0 takes a free one; the streams' port is the next one unless it is given."""

    host: str = "127.0.0.1"
    port: int = 2000
    stream_port: int | None = None
    map_name: str = "t-junction"
    aliases: Mapping[str, str] = field(default_factory=dict)
    data_folder: Path = Path("serve-data")
    limits: Limits = field(default_factory=Limits)
    draw_debug: bool = False
    keeping: Keeping | None = None
    renderer: str = "software"


class Server:
    """Serves one world to any number of clients."""

    def __init__(self, settings: ServerSettings, log: Callable[[str], None]) -> None:
        self.settings = settings
        self._log = log
        self._closing = False
        self._readers = ThreadPoolExecutor(max_workers=2, thread_name_prefix="samepath reader")
        self.port = 0
        self.stream_port = 0

    async def start(self) -> None:
        """Listen; returns when clients can connect."""
        self._hub = Hub(self.settings.limits, lambda stream_id: self._runner.submit(Unheard(stream_id)), self._log)
        self._streams = await listen(lambda: Listener(self._hub), self.settings.host, self._wanted_stream_port())
        try:
            self.stream_port = self._streams.sockets[0].getsockname()[1]
            self._runner = self._make_runner()
            self._office = Office(
                methods(),
                self._runner.submit,
                self._runner.answer_now,
                self._answer_aside,
                lambda caller: self._runner.submit(Gone(caller)),
                self._log,
                self.settings.limits,
            )
            self._calls = await listen(lambda: Caller(self._office), self.settings.host, self.settings.port)
        except BaseException:
            self._streams.close()
            raise
        self.port = self._calls.sockets[0].getsockname()[1]
        self._runner.start()
        await self._streams.start_serving()
        await self._calls.start_serving()

    def compile_early(self) -> None:
        """Compile the sensors that see, beside everything else, so that whoever spawns the first one need not wait for it."""
        loop = asyncio.get_running_loop()

        def work() -> None:
            start_s = SYSTEM_CLOCK.monotonic_s()
            compile_all()
            took_s = SYSTEM_CLOCK.monotonic_s() - start_s
            if took_s > _WORTH_A_LINE_S and not self._closing:
                loop.call_soon_threadsafe(self._log, f"cameras, LiDARs and radars are ready, after {took_s:.0f} s")

        threading.Thread(target=work, name="samepath compiler", daemon=True).start()

    def _make_runner(self) -> Runner:
        loop, settings = asyncio.get_running_loop(), self.settings

        def log(line: str) -> None:
            loop.call_soon_threadsafe(self._log, line)

        def deliver(posts: list[Post]) -> None:
            if not self._closing:
                loop.call_soon_threadsafe(self._send, posts)

        mail = Mail(deliver)
        atlas = Atlas(settings.aliases, log, settings.limits)
        studio = Studio(renderer=check_renderer(settings.renderer))
        place = Place(
            atlas, mail, settings.data_folder, self.stream_port, settings.limits, log, settings.draw_debug, workshop=studio
        )
        episode, journal = open_episode(place, settings.map_name, settings.keeping)
        runner = Runner(lambda: episode, mail, place)
        if journal is not None:
            runner.keep(journal)
        return runner

    def _answer_aside(self, call: Call) -> None:
        """Answer from files, in a thread beside the world's."""

        def done(answer: "asyncio.Future[bytes]") -> None:
            if not answer.cancelled():
                call.caller.answer(call.id, answer.result())

        asyncio.get_running_loop().run_in_executor(self._readers, self._runner.answer_now, call).add_done_callback(done)

    def _wanted_stream_port(self) -> int:
        if self.settings.stream_port is not None:
            return self.settings.stream_port
        return self.settings.port + 1 if self.settings.port else 0

    def _send(self, posts: list[Post]) -> None:
        """Send what the episode's thread made, in its order."""
        for post in posts:
            if isinstance(post, Answer):
                post.caller.answer(post.id, post.result)
            elif isinstance(post, Message):
                self._hub.send(post.stream_id, post.payload, lossless=post.lossless)
            elif isinstance(post, Prepared):
                self._hub.prepare(post.payload)
            elif isinstance(post, Expect):
                self._hub.expect(post.stream_id)
            else:
                self._hub.forget(post.stream_id)

    async def stop(self) -> None:
        """Close the ports, end the episode, disconnect everybody."""
        self._closing = True
        self._runner.episode.place.atlas.close()  # before the episode is waited for, which may be waiting for a map
        self._calls.close()
        self._streams.close()
        await asyncio.get_running_loop().run_in_executor(None, self._runner.stop)
        for caller in tuple(self._office.callers):
            caller.abort()
        self._hub.close()
        self._readers.shutdown(wait=False, cancel_futures=True)
