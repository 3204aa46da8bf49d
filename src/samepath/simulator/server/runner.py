"""The thread that owns the episode: takes calls in the order of their arrival, ticks by itself in real time, posts answers.

In synchronous mode nothing but a client's cue makes a tick, so that what happens depends on the order of calls alone. In
asynchronous mode a tick comes at every frame of the wall clock: as long as the time that passed, or as the client fixed it.
"""

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from samepath.core.clock import Clock
from samepath.simulator.server.episode import Episode, EpisodeContext
from samepath.simulator.server.rpc import Call, Caller
from samepath.simulator.server.ticking import prepare, tick

if TYPE_CHECKING:
    from samepath.simulator.server.journal import EpisodeJournal


# Frames per second where nobody has fixed a step.
FRAME_S: Final = 1.0 / 30.0
_CATCH_UP_S: Final = 0.25
_POST_AFTER: Final = 64
# How long a client has to read a state before it is told of an actor in it. Who spawns one after the other gets one per frame.
_READ_S: Final = FRAME_S / 2
# How long the world stands still after a load, in real time.
_REST_S: Final = 0.05


class AnswerEvent(NamedTuple):
    """The answer to a call, for the event loop to send."""

    caller: Caller
    id: int | None
    result: bytes


class StreamMessage(NamedTuple):
    """A message of a stream, for the event loop to send."""

    stream_id: int
    payload: bytes
    lossless: bool


class StatePrepared(NamedTuple):
    """A state for those who will connect."""

    payload: bytes


class ListenerExpected(NamedTuple):
    """Somebody at a home will listen to a stream."""

    stream_id: int
    home: int


class StreamEnded(NamedTuple):
    """A stream will send nothing more."""

    stream_id: int


OutboxEvent = AnswerEvent | StreamMessage | StatePrepared | ListenerExpected | StreamEnded


class StopRequested(NamedTuple):
    """The end."""


class StreamUnheard(NamedTuple):
    """Nobody at a home listens to a stream any more."""

    stream_id: int
    home: int = 0


class CallerGone(NamedTuple):
    """A client has gone."""

    caller: Caller


class CallAnswered(NamedTuple):
    """A call was answered by another thread."""

    caller: Caller
    id: int | None
    result: bytes


InboxEvent = Call | StopRequested | StreamUnheard | CallerGone | CallAnswered


class Inbox(Protocol):
    """Where the episode's thread finds what it is to do."""

    def put(self, work: InboxEvent) -> None:
        """Add something; from any thread."""
        ...

    def get(self, timeout_s: float | None) -> InboxEvent | None:
        """Wait for something; None: the time is over."""
        ...

    def empty(self) -> bool:
        """Is there nothing to do right now?"""
        ...


class LocalInbox:
    """An inbox for one process."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[InboxEvent] = queue.SimpleQueue()

    def put(self, work: InboxEvent) -> None:
        """Add something."""
        self._queue.put(work)

    def get(self, timeout_s: float | None) -> InboxEvent | None:
        """Wait for something."""
        try:
            return self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def empty(self) -> bool:
        """Is there nothing to do right now?"""
        return self._queue.empty()


class Outbox:
    """Collects what the event loop is to send and hands it over in one go, in order."""

    def __init__(self, deliver: Callable[[list[OutboxEvent]], None]) -> None:
        self._deliver = deliver
        self._posts: list[OutboxEvent] = []
        self.lossless = False
        self.before: Callable[[], None] = lambda: None

    def publish(self, stream_id: int, payload: bytes) -> None:
        """Send a message to all who listen to a stream."""
        self._posts.append(StreamMessage(stream_id, payload, self.lossless))

    def prepare(self, payload: bytes) -> None:
        """Keep a state for those who will listen."""
        self._posts.append(StatePrepared(payload))

    def expect(self, stream_id: int, home: int) -> None:
        """Somebody will listen: keep messages for them."""
        self._posts.append(ListenerExpected(stream_id, home))

    def forget(self, stream_id: int) -> None:
        """A stream will send nothing more."""
        self._posts.append(StreamEnded(stream_id))

    def answer(self, caller: Caller, call_id: int | None, result: bytes) -> None:
        """AnswerEvent a call."""
        self._posts.append(AnswerEvent(caller, call_id, result))

    def post(self) -> None:
        """Hand everything over."""
        if self._posts:
            self.before()
            posts, self._posts = self._posts, []
            self._deliver(posts)

    def __len__(self) -> int:
        return len(self._posts)


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

    def add(self, answer: AnswerEvent) -> None:
        """Hold an answer that names an actor which no state has shown yet."""
        self._unseen.append(answer)

    @property
    def is_waiting(self) -> bool:
        """Does somebody wait for a state?"""
        return bool(self._unseen)

    def sent(self) -> None:
        """A state with everybody in it was sent."""
        due_s = self._clock.monotonic_s() + _READ_S
        self._seen.extend((due_s, one) for one in self._unseen)
        self._unseen = []

    def wait_s(self) -> float | None:
        """Seconds until an answer is due; None: there is none, or it waits for a state."""
        return max(0.0, self._seen[0][0] - self._clock.monotonic_s()) if self._seen else None

    def due(self) -> list[AnswerEvent]:
        """Let go of the answers that are due."""
        found = []
        while self.wait_s() == 0.0:
            found.append(self._seen.popleft()[1])
        return found

    def all(self) -> list[AnswerEvent]:
        """Let go of all: the mode changes, or nothing will be sent any more."""
        found = [*(one for _, one in self._seen), *self._unseen]
        self._seen.clear()
        self._unseen = []
        return found


class EpisodeRunner:
    """Runs an episode in a thread of its own."""

    def __init__(
        self, make_episode: Callable[[], Episode], mail: Outbox, place: EpisodeContext, inbox: Inbox | None = None
    ) -> None:
        self._inbox = inbox if inbox is not None else LocalInbox()
        self._mail = mail
        self._place = place
        self._pace = TickPacer(place.clock)
        self._last_error = ""
        self._held = PendingSpawnAnswers(place.clock)
        self._journal: EpisodeJournal | None = None
        self.episode = make_episode()
        self._thread = threading.Thread(target=self._run, name="samepath episode", daemon=True)

    def keep(self, journal: "EpisodeJournal") -> None:
        """Keep a journal of what happens; before the beginning."""
        self._journal = journal
        self._mail.before = journal.flush

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def submit(self, work: InboxEvent) -> None:
        """Add to what is to be done; from any thread."""
        self._inbox.put(work)

    def stop(self) -> None:
        """End and wait for it."""
        self._inbox.put(StopRequested())
        self._thread.join()
        if self._journal is not None:
            self._journal.close()

    def leave(self, home: int) -> None:
        """A node has gone: nobody listens there any more; in the episode's thread."""
        self.episode.subscriptions.leave(home)
        if self._journal is not None:
            self._journal.left(home)

    def answer_now(self, call: Call) -> bytes:
        """AnswerEvent a quick call from what is published; in the caller's thread."""
        return call.method.run(self.episode, call.arguments, self._place.log)

    def _run(self) -> None:
        prepare(self.episode)
        self._mail.post()
        while True:
            waits_s = [one for one in (self._pace.wait_s(self.episode), self._held.wait_s()) if one is not None]
            work = self._inbox.get(min(waits_s, default=None))
            if isinstance(work, StopRequested):
                break
            if work is not None:
                self._do(work)
            self._answer_held(self._held.due())
            if self._pace.wait_s(self.episode) == 0.0:
                self._tick()
            if self._inbox.empty() or len(self._mail) >= _POST_AFTER:
                self._mail.post()
        if self.episode.recorder is not None:
            self.episode.recorder.close()
        self._answer_held(self._held.all())
        self._mail.post()

    def _answer_held(self, answers: list[AnswerEvent]) -> None:
        for one in answers:
            self._mail.answer(*one)

    def _tick(self) -> None:
        step_s = self._pace.step_s(self.episode)
        try:
            tick(self.episode, step_s)
        except Exception as error:
            text = f"error of ours in a tick: {type(error).__name__}: {error}"
            if text != self._last_error:
                self._place.log(text)
            self._last_error = text
        if self._journal is not None:
            self._journal.ticked(self.episode, step_s)
        if self._held.is_waiting:
            self._mail.post()
            self._held.sent()

    def _do(self, work: InboxEvent) -> None:
        episode = self.episode
        self._mail.lossless = episode.settings.synchronous_mode
        if isinstance(work, Call):
            episode.caller, before, next_actor_id = work.caller, episode.id, episode.next_actor_id
            result = work.method.run(episode, work.arguments, self._place.log)
            self._mail.lossless = episode.settings.synchronous_mode
            is_spawn = episode.id == before and episode.next_actor_id != next_actor_id
            if is_spawn and not episode.settings.synchronous_mode:
                self._held.add(AnswerEvent(work.caller, work.id, result))
            else:
                self._mail.answer(work.caller, work.id, result)
            if episode.id != before or episode.settings.synchronous_mode:
                self._answer_held(self._held.all())
            if episode.id != before:
                self._pace.rest(episode)
        elif isinstance(work, StreamUnheard):
            episode.subscriptions.discard(work.stream_id, work.home)
        elif isinstance(work, CallAnswered):
            self._mail.answer(work.caller, work.id, work.result)
        elif isinstance(work, CallerGone):
            for port in [port for port, (_, owner) in episode.traffic_managers.items() if owner is work.caller]:
                del episode.traffic_managers[port]
        if self._journal is not None:
            self._journal.did(episode, work)
