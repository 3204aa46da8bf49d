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

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from samepath.core.clock import Clock
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.rpc import Call, Caller
from samepath.simulator.server.ticking import prepare, tick

if TYPE_CHECKING:
    from samepath.simulator.server.journal import EpisodeJournal

# The frame in real time where no client has fixed a step.
FRAME_S: Final = 1.0 / 30.0
# A server that was held up catches up with at most so much: else one long pause would be followed by a burst of ticks.
_CATCH_UP_S: Final = 0.25
# The outbox is handed over when there is nothing left to do, or after so many events: a client that sends calls without
# pause must not keep all others from their answers.
_POST_AFTER: Final = 64
# How long a client has to read a state before it is told of an actor in it. Who spawns one after the other gets one per frame.
_READ_S: Final = FRAME_S / 2
# How long the world stands still after a load, in real time: the client that loaded is changing its streams.
_REST_S: Final = 0.05


class EpisodeRunner:
    """Runs an episode in a thread of its own. ``inbox`` is where its work comes from, ``journal`` what is kept of it."""

    def __init__(
        self, episode: Episode, outbox: "Outbox", inbox: "Inbox | None" = None, journal: "EpisodeJournal | None" = None
    ) -> None:
        self.episode = episode
        self._inbox = inbox if inbox is not None else LocalInbox()
        self._outbox = outbox
        self._journal = journal
        if journal is not None:
            outbox.before = journal.flush
        self._log = episode.context.log
        self._pacer = TickPacer(episode.context.clock)
        self._spawned = PendingSpawnAnswers(episode.context.clock)
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name="samepath episode", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, event: "InboxEvent") -> None:
        """Have something done in the episode's thread; from any thread."""
        self._inbox.put(event)

    def stop(self) -> None:
        """End the thread and wait for it. What was submitted before is done, what comes after is not."""
        self._inbox.put(StopRequested())
        self._thread.join()
        if self._journal is not None:
            self._journal.close()

    def leave(self, home: int) -> None:
        """A node has gone, and its clients' subscriptions with it; called in the episode's thread."""
        self.episode.subscriptions.leave(home)
        if self._journal is not None:
            self._journal.left(home)

    def answer_now(self, call: Call) -> bytes:
        """Answer a ``quick`` or ``aside`` call in the caller's thread, see the top of this module."""
        return call.method.run(self.episode, call.arguments, self._log)

    def _run(self) -> None:
        prepare(self.episode)
        self._outbox.post()
        while True:
            waits_s = [wait_s for wait_s in (self._pacer.wait_s(self.episode), self._spawned.wait_s()) if wait_s is not None]
            event = self._inbox.get(min(waits_s, default=None))
            if isinstance(event, StopRequested):
                break
            if event is not None:
                self._do(event)
            self._send_answers(self._spawned.due())
            if self._pacer.wait_s(self.episode) == 0.0:
                self._tick_by_clock()
            if self._inbox.empty() or len(self._outbox) >= _POST_AFTER:
                self._outbox.post()
        if self.episode.recorder is not None:
            self.episode.recorder.close()
        self._send_answers(self._spawned.all())
        self._outbox.post()

    def _send_answers(self, answers: "list[AnswerEvent]") -> None:
        for answer in answers:
            self._outbox.answer(*answer)

    def _tick_by_clock(self) -> None:
        step_s = self._pacer.step_s(self.episode)
        try:
            tick(self.episode, step_s)
        except Exception as error:
            text = f"error of ours in a tick: {type(error).__name__}: {error}"
            if text != self._last_error:  # 30 times a second the same line helps nobody
                self._log(text)
            self._last_error = text
        if self._journal is not None:
            self._journal.ticked(self.episode, step_s)
        if self._spawned.is_waiting:
            # The state must be on its way before its time to be read is counted.
            self._outbox.post()
            self._spawned.state_sent()

    def _do(self, event: "InboxEvent") -> None:
        episode = self.episode
        # What a call publishes is delivered under the mode it was made in; its answer's mode is set again below.
        self._outbox.lossless = episode.settings.synchronous_mode
        if isinstance(event, Call):
            self._call(event)
        elif isinstance(event, StreamUnheard):
            episode.subscriptions.discard(event.stream_id, event.home)
        elif isinstance(event, CallAnswered):
            self._outbox.answer(event.caller, event.id, event.result)
        elif isinstance(event, CallerGone):
            for port in [port for port, (_, owner) in episode.traffic_managers.items() if owner is event.caller]:
                del episode.traffic_managers[port]
        if self._journal is not None:
            self._journal.did(episode, event)

    def _call(self, call: Call) -> None:
        episode = self.episode
        episode.caller, episode_id, next_actor_id = call.caller, episode.id, episode.next_actor_id
        result = call.method.run(episode, call.arguments, self._log)
        synchronous = self._outbox.lossless = episode.settings.synchronous_mode
        is_new_episode = episode.id != episode_id
        is_spawn = not is_new_episode and episode.next_actor_id != next_actor_id
        if is_spawn and not synchronous:
            self._spawned.add(AnswerEvent(call.caller, call.id, result))
        else:
            self._outbox.answer(call.caller, call.id, result)
        if is_new_episode or synchronous:
            # No state by the clock will come that could show those actors.
            self._send_answers(self._spawned.all())
        if is_new_episode:
            self._pacer.rest(episode)


class TickPacer:
    """When the next tick is due by the wall clock, and how long it is to be."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_s = clock.monotonic_s()

    def wait_s(self, episode: Episode) -> float | None:
        """Seconds until the next tick; None: it waits for a client."""
        if episode.settings.synchronous_mode:
            self._last_s = self._clock.monotonic_s()
            return None
        return max(0.0, self._last_s + self._frame_s(episode) - self._clock.monotonic_s())

    def rest(self, episode: Episode) -> None:
        """Wait a little with the next tick: whoever loaded a map is changing streams."""
        self._last_s = self._clock.monotonic_s() + _REST_S - self._frame_s(episode)

    @staticmethod
    def _frame_s(episode: Episode) -> float:
        return episode.settings.fixed_delta_seconds or FRAME_S

    def step_s(self, episode: Episode) -> float:
        """Take the time that has passed; a server that cannot keep up falls behind instead of hurrying for ever."""
        now_s, frame_s = self._clock.monotonic_s(), self._frame_s(episode)
        passed_s = now_s - self._last_s
        if episode.settings.fixed_delta_seconds is None:
            self._last_s = now_s
            return min(passed_s, _CATCH_UP_S)
        self._last_s = max(self._last_s + frame_s, now_s - _CATCH_UP_S)
        return frame_s


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


class StopRequested(NamedTuple):
    """The thread is to end."""


class StreamUnheard(NamedTuple):
    """No client at ``home`` (the number of a node, 0: this server) listens to a stream any more."""

    stream_id: int
    home: int = 0


class CallerGone(NamedTuple):
    """A client has disconnected."""

    caller: Caller


class CallAnswered(NamedTuple):
    """A call was answered by another thread; its answer goes out in order with all others."""

    caller: Caller
    id: int | None
    result: bytes


InboxEvent = Call | StopRequested | StreamUnheard | CallerGone | CallAnswered


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


class LocalInbox:
    """The inbox of a server without nodes."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[InboxEvent] = queue.SimpleQueue()

    def put(self, event: InboxEvent) -> None:
        self._queue.put(event)

    def get(self, timeout_s: float | None) -> InboxEvent | None:
        try:
            return self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def empty(self) -> bool:
        return self._queue.empty()


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
    """A client at ``home`` has asked for a stream and is about to connect."""

    stream_id: int
    home: int


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
        self.lossless = False
        self.before: Callable[[], None] = lambda: None  # called before each hand-over

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

    def post(self) -> None:
        """Hand everything over."""
        if self._events:
            self.before()
            events, self._events = self._events, []
            self._deliver(events)

    def __len__(self) -> int:
        return len(self._events)
