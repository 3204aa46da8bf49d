"""The thread that owns the episode: it makes calls in the order of their arrival, ticks, and sends what comes of it.

Two threads, two queues, no locks. The event loop owns sockets, connections and streams; the episode's thread owns the episode
and everything reached from it (world, actors, subscriptions, recorder, journal). What the event loop wants done goes through
the :class:`Inbox`, what the episode wants sent through the :class:`Outbox`; neither side touches the other's objects. The one
exception is :meth:`EpisodeRunner.answer_now`: methods marked ``quick`` only read what is replaced as a whole, never changed in
place (settings, the list of maps, outcomes of tickets), so they may be answered while a tick is being computed; those marked
``aside`` read files or build a map, which takes long and touches no world.

Order is the whole point. In synchronous mode only a client's ``tick_cue`` makes a tick, so that what happens depends on the
order of calls alone, and that order is the inbox's. In asynchronous mode a tick comes at every frame of the wall clock, as
long as the time that has passed or as the client fixed it; nothing is promised to repeat.

The journal is written in this thread too, and handed to the kernel before the outbox is (``Outbox.before``): a client must
never hold an answer to something that a resumed server would not know.
"""

import math
import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from samepath.core.clock import Clock
from samepath.core.processes import ends_process_if_it_fails
from samepath.simulator.server.commands import CallerGone, Command, NodeLeft, WorldStep, apply, describe, perform
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.rpc import Call, Caller
from samepath.simulator.server.ticking import TickAbandonedError, prepare

if TYPE_CHECKING:
    from samepath.simulator.server.journal import EpisodeJournal

# The frame in real time where no client has fixed a step.
FRAME_S: Final = 1.0 / 30.0
# A server that was held up catches up with at most so much: else one long pause would be followed by a burst of ticks.
_CATCH_UP_S: Final = 0.25
# How much faster or slower than the wall clock a world may be, and how often its pace is looked at.
TIME_SCALES: Final = (0.1, 100.0)
_LOOK_EVERY_S: Final = 10.0
# A world that is slower than it should be says so once in this time; windows end with a tick, so a little less is no slip.
_SLIP_EVERY_S: Final = 60.0
_KEEPS_UP: Final = 0.97
# The outbox is handed over when there is nothing left to do, or as soon as it holds the answer of a client that has sent no
# further call: it waits for that one, and must not wait for others' calls as well. Of a client that sends calls without pause
# answers are handed over together, up to so many, or so many bytes, of which nobody knows yet that the client fetches them.
_POST_AFTER: Final = 64
_POST_AFTER_BYTES: Final = 4 << 20
# How long a client has to read a state before it is told of an actor in it. Who spawns one after the other gets one per frame.
_READ_S: Final = FRAME_S / 2
# How long the end of a server may wait for the world: SIGTERM ends it within 5 s.
_STOP_S: Final = 3.0
# Kept free for the end: where memory has run out, saying so takes some too.
_RESERVE_BYTES: Final = 4 << 20
# How long the world stands still after a load, in real time: the client that loaded is changing its streams.
_REST_S: Final = 0.05


class EpisodeRunner:
    """Runs an episode in a thread of its own. ``inbox`` is where its work comes from, ``journal`` what is kept of it."""

    def __init__(
        self,
        episode: Episode,
        outbox: "Outbox",
        failed: Callable[["EpisodeFailure"], None],
        inbox: "Inbox | None" = None,
        journal: "EpisodeJournal | None" = None,
        *,
        time_scale: float = 1.0,
    ) -> None:
        self.episode = episode
        self._inbox = inbox if inbox is not None else LocalInbox()
        self._outbox = outbox
        self._journal = journal
        if journal is not None:
            outbox.before = journal.flush
        self._log = episode.context.log
        self._failed = failed
        self._stopping = False
        self._clock = episode.context.clock
        self._command: Command | None = None  # that is being applied
        self._busy_since_s: float | None = None
        self._last_tick_s = self._clock.monotonic_s()
        self.failure: EpisodeFailure | None = None
        self._pacer = TickPacer(episode.context.clock, time_scale, episode.context.log)
        self._spawned = PendingSpawnAnswers(episode.context.clock)
        self._reserve: bytearray | None = bytearray(_RESERVE_BYTES)
        self._thread = threading.Thread(target=self._run, name="samepath episode", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, event: "InboxEvent") -> None:
        """Have something done in the episode's thread; from any thread."""
        self._inbox.put(event)

    def stop(self) -> bool:
        """End the thread, and wait for it; was it at an end in time?

        What is being done is finished, what waits is not begun: nobody would be there for the answers, and a backlog of ticks
        may take minutes. A call that takes longer than we may wait (a large map) is left to the end of the process: the journal
        holds everything that was answered, and is whole without a word of farewell.
        """
        self._stopping = True
        self._inbox.put(StopRequested())
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            self._log(f"what the world is busy with did not end within {_STOP_S:g} s: the process ends without it")
            return False
        if self._journal is not None:
            self._journal.close()
        return True

    def answer_now(self, call: Call) -> bytes:
        """Answer a ``quick`` call in the caller's thread, see the top of this module."""
        return perform(self.episode, call)[0]

    def answer_aside(self, call: Call) -> None:
        """Answer an ``aside`` call in the caller's thread; its answer goes out in order with all others."""
        try:
            result, command = perform(self.episode, call)
        except BaseException as error:
            # A thread that ends without a word would leave the client waiting for ever.
            with ends_process_if_it_fails():
                self._log(f"error of ours in {call.method.name}: {error!r}")
                result, command = call.method.error(f"internal error of samepath in {call.method.name}: {error!r}"), None
        if command is not None:
            self.submit(command)
        self.submit(CallAnswered(call.caller, call.id, result))

    def keep_busy(self) -> None:
        """Restart the time of the present command: it waits for something that has a limit of its own, so it does not hang."""
        if self._busy_since_s is not None:
            self._busy_since_s = self._clock.monotonic_s()

    def health(self) -> "EpisodeHealth":
        """Is the episode alive, and how old is its last tick? From any thread, also when the episode's hangs."""
        now_s, busy_since_s = self._clock.monotonic_s(), self._busy_since_s
        return EpisodeHealth(
            frame=self.episode.frame,
            synchronous=self.episode.settings.synchronous_mode,
            last_tick_age_s=now_s - self._last_tick_s,
            busy_s=0.0 if busy_since_s is None else now_s - busy_since_s,
            has_ended=not self._thread.is_alive(),
            failure="" if self.failure is None else self.failure.words,
            frame_s=self._pacer.frame_s(self.episode),
            pace=self._pacer.pace,
        )

    def _run(self) -> None:
        try:
            self._work()
        except TickAbandonedError as error:
            self._log(str(error))
            self._end_at(str(error))
        except BaseException as error:  # whatever it is: nothing more may happen to this episode
            self._reserve = None
            with ends_process_if_it_fails():  # a server whose world has ended unheard would leave every client waiting
                self._stop_at(error)

    def _work(self) -> None:
        prepare(self.episode)
        self._outbox.post()
        while True:
            waits_s = [wait_s for wait_s in (self._pacer.wait_s(self.episode), self._spawned.wait_s()) if wait_s is not None]
            self._busy_since_s = None
            event = self._inbox.get(min(waits_s, default=None))
            self._busy_since_s = self._clock.monotonic_s()
            if self._stopping or isinstance(event, StopRequested):
                break
            if event is not None:
                self._do(event)
            self._send_answers(self._spawned.due())
            if self._pacer.wait_s(self.episode) == 0.0:
                self._tick_by_clock()
            is_awaited = isinstance(event, Call) and not self._inbox.has_more(event.caller)
            if is_awaited or self._outbox.is_full or self._inbox.empty():
                self._outbox.post()
        self.episode.end_recording()
        self._send_answers(self._spawned.all())
        self._outbox.post()

    def _stop_at(self, error: BaseException) -> None:
        """The episode is over: undo what half a command has put into the outbox, write it all down, tell whoever runs this.

        Answers to earlier commands still go out, because their effects are in the journal; the one that failed is answered with
        the error, so that its client need not guess.
        """
        command, words = self._command, f"{type(error).__name__}: {error}"
        self.failure = EpisodeFailure(
            f"the episode has ended at frame {self.episode.frame} in {describe(command)}: {words}",
            tuple("".join(traceback.format_exception(error)).splitlines()),
        )
        for line in (self.failure.words, *self.failure.traceback):
            self._log(line)
        try:
            if self._journal is not None:
                self._journal.failed(command, "\n".join((self.failure.words, *self.failure.traceback)))
            self._end_at(self.failure.words)
        except BaseException as second:  # the cause counts, and it must be reported
            self._log(f"and while that was written down: {type(second).__name__}: {second}")
        self._failed(self.failure)

    def _end_at(self, words: str) -> None:
        """Take back half of a command, tell whoever made it, send what came before it, and close what is open."""
        self._outbox.roll_back()
        if isinstance(self._command, Call):
            self._outbox.answer(self._command.caller, self._command.id, self._command.method.error(words))
        self._outbox.post()
        self.episode.end_recording()

    def _send_answers(self, answers: "list[AnswerEvent]") -> None:
        for answer in answers:
            self._outbox.answer(*answer)

    def _tick_by_clock(self) -> None:
        self._apply(WorldStep(self._pacer.step_s(self.episode)))
        if self._spawned.is_waiting:
            # The state must be on its way before its time to be read is counted.
            self._outbox.post()
            self._spawned.state_sent()

    def _do(self, event: "InboxEvent") -> None:
        # What a call publishes is delivered under the mode it was made in; its answer's mode is set again below.
        self._outbox.lossless = self.episode.settings.synchronous_mode
        if isinstance(event, CallAnswered):
            self._outbox.answer(event.caller, event.id, event.result)
        elif isinstance(event, Call):
            self._call(event)
        elif not isinstance(event, StopRequested):
            self._apply(event)

    def _apply(self, command: Command) -> bytes:
        """Apply a command and write it down; :meth:`_stop_at` is where one that fails leads to."""
        self._command = command
        self._outbox.mark()
        frame = self.episode.frame
        result = apply(self.episode, command)
        if self._journal is not None:
            self._journal.applied(self.episode, command)
        if self.episode.frame != frame:
            self._last_tick_s = self._clock.monotonic_s()
        self._command = None
        return result

    def _call(self, call: Call) -> None:
        episode = self.episode
        episode_id, next_actor_id = episode.id, episode.next_actor_id
        result = self._apply(call)
        synchronous = self._outbox.lossless = episode.settings.synchronous_mode
        is_new_episode = episode.id != episode_id
        is_spawn = not is_new_episode and episode.next_actor_id != next_actor_id
        if is_spawn and not synchronous and episode.connections.pace:
            self._spawned.add(AnswerEvent(call.caller, call.id, result))
        else:
            self._outbox.answer(call.caller, call.id, result)
        if is_new_episode or synchronous or not episode.connections.pace:
            # No state by the clock will come that could show those actors.
            self._send_answers(self._spawned.all())
        if is_new_episode:
            self._pacer.rest(episode)


class RealTimePace(NamedTuple):
    """How much simulated time passed in some time of the wall clock, and how much should have passed."""

    simulated_s: float = 0.0
    wall_s: float = 0.0
    due_s: float = 0.0

    @property
    def ratio(self) -> float:
        """Simulated seconds per second of the wall clock."""
        return self.simulated_s / self.wall_s

    def words(self) -> str:
        """The figures in a line."""
        return (
            f"{self.simulated_s:.1f} s simulated in {self.wall_s:.1f} s, simulated/wall {self.ratio:.2f}, "
            f"expected {self.due_s / self.wall_s:.2g}"
        )


class TickPacer:
    """When the next tick is due by the wall clock, and how long it is to be.

    ``scale`` is how many seconds pass in the world while one passes by the wall clock. Where no client has fixed a step, a
    world that is faster than real time ticks more often, so that its steps stay as short as they are; one that is slower ticks
    as often as ever, with shorter steps: slow motion is no slide show. A world that cannot keep up is logged once a minute.

    ``pace`` is the pace of the last 10 s; None where a client sets it, and at the beginning.

    Whoever watches may slow this world down, or let it stand and step it (``samepath_pace``): that is a factor to the scale.
    """

    def __init__(self, clock: Clock, scale: float = 1.0, log: Callable[[str], None] = lambda _: None) -> None:
        self._clock = clock
        self._scale = scale
        self._log = log
        self._last_s = clock.monotonic_s()
        self._looked_s, self._played_s = self._last_s, 0.0
        self.pace: RealTimePace | None = None
        self._minute = RealTimePace()
        self._steps_made = 0  # of those that were asked for while the world stands

    def wait_s(self, episode: Episode) -> float | None:
        """Seconds until the next tick; None: it waits for a client."""
        connections = episode.connections
        if episode.settings.synchronous_mode or not connections.pace:
            self._last_s = self._looked_s = self._clock.monotonic_s()
            self._played_s = 0.0
            self.pace, self._minute = None, RealTimePace()
            self._steps_made = min(self._steps_made, connections.steps_asked)  # they count anew when all have gone
            is_asked = not episode.settings.synchronous_mode and self._steps_made < connections.steps_asked
            return 0.0 if is_asked else None
        self._steps_made = connections.steps_asked
        return max(0.0, self._last_s + self.frame_s(episode) - self._clock.monotonic_s())

    def rest(self, episode: Episode) -> None:
        """Wait a little with the next tick: whoever loaded a map is changing streams."""
        self._last_s = self._clock.monotonic_s() + _REST_S - self.frame_s(episode)

    def frame_s(self, episode: Episode) -> float:
        """How long one tick is from the next by the wall clock."""
        fixed_s, scale = episode.settings.fixed_delta_seconds, self._scale * episode.connections.pace
        if not scale:
            return math.inf
        return fixed_s / scale if fixed_s else FRAME_S / max(scale, 1.0)

    def step_s(self, episode: Episode) -> float:
        """Take the time that has passed; a server that cannot keep up falls behind instead of hurrying for ever."""
        now_s, fixed_s = self._clock.monotonic_s(), episode.settings.fixed_delta_seconds
        scale = self._scale * episode.connections.pace
        if not scale:
            self._steps_made += 1
            return fixed_s or FRAME_S
        if fixed_s is None:
            step_s = min((now_s - self._last_s) * scale, _CATCH_UP_S)
            self._last_s = now_s
        else:
            step_s = fixed_s
            self._last_s = max(self._last_s + self.frame_s(episode), now_s - _CATCH_UP_S / scale)
        self._count(step_s, now_s, scale)
        return step_s

    def _count(self, step_s: float, now_s: float, scale: float) -> None:
        """Measure the pace of the world, and log a minute in which it was slower than it should be."""
        self._played_s += step_s
        over_s = now_s - self._looked_s
        if over_s < _LOOK_EVERY_S:
            return
        self.pace = RealTimePace(self._played_s, over_s, over_s * scale)
        self._minute = RealTimePace(*(a + b for a, b in zip(self._minute, self.pace, strict=True)))
        self._looked_s, self._played_s = now_s, 0.0
        if self._minute.wall_s < _SLIP_EVERY_S:
            return
        if self._minute.simulated_s < _KEEPS_UP * self._minute.due_s:
            self._log(f"the world is slower than the clock: {self._minute.words()}")
        self._minute = RealTimePace()


class PendingSpawnAnswers:
    """Answers to spawns that wait until clients have seen the actor; for asynchronous mode.

    CARLA's client knows where an actor is from the state alone: asked before, it says 0, 0, 0, and a walker's controller that
    starts there crashes the client. So a spawn is answered behind the next state, which comes by itself; and a little behind,
    because answers and states come on different connections and the client says nothing when it has read a state.
    In synchronous mode the next state comes when a client asks for it, who may be the very one that waits: nothing is held.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unseen: list[AnswerEvent] = []
        self._seen: deque[tuple[float, AnswerEvent]] = deque()

    def add(self, answer: "AnswerEvent") -> None:
        """Hold an answer that names an actor which no state has shown yet."""
        self._unseen.append(answer)

    @property
    def is_waiting(self) -> bool:
        """Does an answer wait for a state?"""
        return bool(self._unseen)

    def state_sent(self) -> None:
        """A state with everybody in it was sent: from now on clients have time to read it."""
        due_s = self._clock.monotonic_s() + _READ_S
        self._seen.extend((due_s, answer) for answer in self._unseen)
        self._unseen = []

    def wait_s(self) -> float | None:
        """Seconds until an answer is due; None: there is none, or it waits for a state."""
        return max(0.0, self._seen[0][0] - self._clock.monotonic_s()) if self._seen else None

    def due(self) -> "list[AnswerEvent]":
        """Take out the answers that are due."""
        found = []
        while self.wait_s() == 0.0:
            found.append(self._seen.popleft()[1])
        return found

    def all(self) -> "list[AnswerEvent]":
        """Take out all: the mode changes, or nothing will be sent any more."""
        found = [*(answer for _, answer in self._seen), *self._unseen]
        self._seen.clear()
        self._unseen = []
        return found


class EpisodeFailure(NamedTuple):
    """Why an episode has ended: one line, and those of the traceback."""

    words: str
    traceback: tuple[str, ...]


class EpisodeHealth(NamedTuple):
    """How an episode stands, for probes.

    In real time a tick comes by itself, so an old one means that something hangs. In synchronous mode the world waits for its
    clients for as long as they like; there what hangs shows as a command that does not end.
    """

    frame: int
    synchronous: bool
    last_tick_age_s: float
    busy_s: float  # with the command that is being applied
    has_ended: bool
    failure: str = ""
    loop_age_s: float = 0.0  # since the event loop, which serves the clients, has run
    frame_s: float = 0.0  # from one tick to the next in real time
    pace: RealTimePace | None = None  # of the last 10 s in real time

    def notes(self) -> str:
        """Figures for a probe that finds nothing wrong; empty where there are none."""
        return "" if self.pace is None else f"real time: {self.pace.words()}"

    def complaint(self, stall_s: float) -> str:
        """What is wrong, if something takes longer than ``stall_s``; empty: all is well."""
        if self.failure or self.has_ended:
            return self.failure or "the episode's thread has ended"
        if self.loop_age_s > stall_s:
            return f"the event loop has not run for {self.loop_age_s:.0f} s"
        if self.busy_s > stall_s:
            return f"the episode has been busy for {self.busy_s:.0f} s at frame {self.frame}"
        if not self.synchronous and self.last_tick_age_s > stall_s + self.frame_s:
            return f"the last tick, frame {self.frame}, is {self.last_tick_age_s:.0f} s old"
        return ""


class StopRequested(NamedTuple):
    """The thread is to end."""


class CallAnswered(NamedTuple):
    """A call was answered by another thread; its answer goes out in order with all others."""

    caller: Caller
    id: int | None
    result: bytes


InboxEvent = Command | StopRequested | CallAnswered


class Inbox(Protocol):
    """Where the episode's thread finds what it is to do. A cluster's also watches the links to its nodes."""

    def put(self, event: InboxEvent) -> None:
        """Add an event; from any thread."""
        ...

    def get(self, timeout_s: float | None) -> InboxEvent | None:
        """Wait for an event; None: the time is over."""
        ...

    def empty(self) -> bool:
        """Is there nothing to do right now?"""
        ...

    def has_more(self, caller: Caller) -> bool:
        """Do further calls of this client wait here? One that has arrived in this very moment need not count."""
        ...


class FairQueue:
    """What is to be done, in turn: clients take turns, and each client's calls keep their order.

    The next call is one of the client that was served longest ago. So at most one call of each other client is done before a
    client's next one, however many they send ahead. A call is done as a whole, a batch of 20,000 commands too: its users rely
    on all of it being there in the same tick. A client that has just come counts as served at that moment; else whoever
    connects anew for every call would always be first. What is no client's call is short, and is done at once; but a node that
    has left leaves behind the calls that its clients have made, or one of those could begin to listen there after that.

    The order that is chosen here is what the journal keeps: a resumed world does not choose again. Belongs to one thread.
    """

    def __init__(self) -> None:
        self._at_once: deque[tuple[InboxEvent, float]] = deque()
        self._waiting: dict[Caller, deque[tuple[InboxEvent, float]]] = {}
        self._served: dict[Caller, int] = {}  # at which turn, for every client that is there
        self._turn = 0
        self._next: list[tuple[int, int, Caller]] = []  # a heap of who waits: when served, a number of its own, the client
        self._numbers = count()
        self._stop: tuple[InboxEvent, float] | None = None

    def __bool__(self) -> bool:
        return bool(self._next or self._at_once or self._stop)

    def __contains__(self, caller: Caller) -> bool:
        return caller in self._waiting

    def add(self, event: InboxEvent, at_s: float = 0.0) -> None:
        """Add an event, with the time at which it came. What comes after the request to stop is not done."""
        if self._stop is not None:
            return
        if isinstance(event, StopRequested):
            self._stop = event, at_s
        elif isinstance(event, NodeLeft) and (
            left := [at for caller, at in self._waiting.items() if caller.home == event.home]
        ):
            for calls in left:
                calls.append((event, at_s))
        elif not isinstance(event, Call | CallerGone):
            self._at_once.append((event, at_s))
        elif (waiting := self._waiting.get(event.caller)) is not None:
            waiting.append((event, at_s))
        else:
            self._waiting[event.caller] = deque([(event, at_s)])
            self._line_up(event.caller, self._served.setdefault(event.caller, self._turn))

    def _line_up(self, caller: Caller, served: int) -> None:
        heappush(self._next, (served, next(self._numbers), caller))

    def served(self, caller: Caller) -> None:
        """A call of this client is done now."""
        self._turn += 1
        self._served[caller] = self._turn

    def pop(self) -> tuple[InboxEvent, float] | None:
        """Take out what is next, and when it came; the request to stop comes last."""
        if self._at_once:
            return self._at_once.popleft()
        if not self._next:
            return self._stop
        caller = heappop(self._next)[2]
        waiting = self._waiting[caller]
        found = waiting.popleft()
        self.served(caller)
        if waiting:
            self._line_up(caller, self._turn)
        else:
            del self._waiting[caller]
            if isinstance(found[0], CallerGone | NodeLeft):
                del self._served[caller]
        return found


class LocalInbox:
    """The inbox of a server without nodes: other threads leave events in a queue, the episode's thread sorts them."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[InboxEvent] = queue.SimpleQueue()
        self._fair = FairQueue()

    def put(self, event: InboxEvent) -> None:
        self._queue.put(event)

    def get(self, timeout_s: float | None) -> InboxEvent | None:
        if not self._fair:
            try:
                event = self._queue.get(timeout=timeout_s)
            except queue.Empty:
                return None
            if isinstance(event, Call) and self._queue.empty():
                self._fair.served(event.caller)  # there is nobody to take turns with
                return event
            self._fair.add(event)
        for _ in range(self._queue.qsize()):
            self._fair.add(self._queue.get())
        found = self._fair.pop()
        return None if found is None else found[0]

    def empty(self) -> bool:
        return not self._fair and self._queue.empty()

    def has_more(self, caller: Caller) -> bool:
        return caller in self._fair


class AnswerEvent(NamedTuple):
    """The answer to a call."""

    caller: Caller
    id: int | None
    result: bytes


class StreamMessage(NamedTuple):
    """A message of a stream; ``lossless``: for every listener, also for those that are slow to read."""

    stream_id: int
    payload: bytes
    lossless: bool


class StatePrepared(NamedTuple):
    """A state for clients that connect before the next one is sent."""

    payload: bytes


class ListenerExpected(NamedTuple):
    """A client at ``home`` has asked for a stream and is about to connect; ``frame`` was the last tick then."""

    stream_id: int
    home: int
    frame: int = 0


class StreamEnded(NamedTuple):
    """A stream will send nothing more."""

    stream_id: int


OutboxEvent = AnswerEvent | StreamMessage | StatePrepared | ListenerExpected | StreamEnded


class Outbox:
    """Collects what the event loop is to send, and hands it over in one piece and in order.

    In one piece because each hand-over wakes the event loop: a tick with 40 sensors wakes it once, not 41 times. In order
    because a client may rely on it: the state of a tick and its sensors are written before the tick is answered.
    """

    def __init__(self, deliver: Callable[[list[OutboxEvent]], None]) -> None:
        self._deliver = deliver
        self._events: list[OutboxEvent] = []
        self._marked = 0
        self._answers_bytes = 0
        self.lossless = False
        self.before: Callable[[], None] = lambda: None  # called before each hand-over

    def mark(self) -> None:
        """What comes from now on belongs to one command, see :meth:`roll_back`."""
        self._marked = len(self._events)

    def roll_back(self) -> None:
        """Take back what the command that began last has put in: it failed, and half of it must not be sent."""
        del self._events[self._marked :]

    def publish(self, stream_id: int, payload: bytes) -> None:
        self._events.append(StreamMessage(stream_id, payload, self.lossless))

    def prepare(self, payload: bytes) -> None:
        self._events.append(StatePrepared(payload))

    def expect(self, stream_id: int, home: int) -> None:
        self._events.append(ListenerExpected(stream_id, home))

    def forget(self, stream_id: int) -> None:
        self._events.append(StreamEnded(stream_id))

    def answer(self, caller: Caller, call_id: int | None, result: bytes) -> None:
        self._events.append(AnswerEvent(caller, call_id, result))
        self._answers_bytes += len(result)

    @property
    def is_full(self) -> bool:
        """Is there enough in it to be handed over?"""
        return len(self._events) >= _POST_AFTER or self._answers_bytes >= _POST_AFTER_BYTES

    def post(self) -> None:
        """Hand everything over."""
        if self._events:
            self.before()
            events, self._events, self._marked, self._answers_bytes = self._events, [], 0, 0
            self._deliver(events)

    def __len__(self) -> int:
        return len(self._events)
