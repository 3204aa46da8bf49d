"""The main server's way in and out: one inbox for its own clients and those of nodes, one mail to both."""

from collections import deque
from collections.abc import Callable
from typing import Final

from samepath.base.clock import SYSTEM_CLOCK
from samepath.sim.cluster import messages as m
from samepath.sim.cluster.conductor import Conductor
from samepath.sim.cluster.members import RemoteCaller
from samepath.sim.cluster.roster import Roster
from samepath.sim.server.audience import HERE
from samepath.sim.server.frames import WORLD_STREAM
from samepath.sim.server.rpc import Call
from samepath.sim.server.runner import Answer, Expect, Forget, Mail, Message, Post, Prepared, Work
from samepath.sim.server.viewing.order import Order

_POLL_S: Final = 0.1


class LinkInbox:
    """What the episode's thread is to do: this server's own calls, and what comes over the link."""

    def __init__(self, roster: Roster, conductor: Conductor, attend: Callable[[], None]) -> None:
        self._roster = roster
        self._conductor = conductor
        self._attend = attend
        self._own: deque[tuple[Work, float]] = deque()

    def put(self, work: Work) -> None:
        """Add something; from any thread."""
        self._own.append((work, SYSTEM_CLOCK.monotonic_s()))
        self._roster.link.wake()

    def get(self, timeout_s: float | None) -> Work | None:
        """Wait for something; meanwhile nodes come, go and answer."""
        found = self._get(timeout_s)
        self._conductor.began_s = SYSTEM_CLOCK.monotonic_s()
        return found

    def _get(self, timeout_s: float | None) -> Work | None:
        clock = SYSTEM_CLOCK
        deadline_s = None if timeout_s is None else clock.monotonic_s() + timeout_s
        while True:
            self._attend()
            found = self._next()
            if found is not None:
                return found
            left_s = None if deadline_s is None else deadline_s - clock.monotonic_s()
            if left_s is not None and left_s <= 0.0:
                self._roster.attend(0.0)
                return self._next()
            self._roster.attend(_POLL_S if left_s is None else min(left_s, _POLL_S))

    def _next(self) -> Work | None:
        queues = [one for one in (self._own, self._roster.work) if one]
        if not queues:
            return None
        work, at_s = min(queues, key=_came_s).popleft()
        if isinstance(work, Call):
            self._roster.commands.begin(work, at_s)
        return work

    def empty(self) -> bool:
        """Is there nothing to do right now?"""
        return not self._own and not self._roster.work


def _came_s(queue: deque[tuple[Work, float]]) -> float:
    return queue[0][1]


class ClusterMail(Mail):
    """Sends to this server's own clients through the event loop, to those of nodes over the link."""

    def __init__(self, deliver: Callable[[list[Post]], None], roster: Roster, conductor: Conductor) -> None:
        super().__init__(deliver)
        self._here = deliver
        self._deliver = self._parted
        self._roster = roster
        self._conductor = conductor
        self._delivered: dict[int, int] = {}
        conductor.flush = self.post
        conductor.deliver = self.frame

    def publish(self, stream_id: int, payload: bytes) -> None:
        """Send a message to all who listen to a stream; nodes are shown the state with the tick."""
        if stream_id == WORLD_STREAM:
            self._conductor.state = self._roster.last_state = payload
        super().publish(stream_id, payload)

    def prepare(self, payload: bytes) -> None:
        """Keep a state for those who will listen."""
        self._roster.last_state = payload
        super().prepare(payload)

    def post(self) -> None:
        """Hand everything over, news first: an answer must not name what a node does not know yet."""
        if self._roster.publish_news():
            self._roster.await_hearing()
        super().post()

    def frame(self, order: Order, payload: bytes, drawn_by: int) -> None:
        """Send a frame to where it is listened to; a node that drew it for its own listeners has given it to them."""
        message, frame = order.head + payload, order.frame
        homes = self._roster.episode.listened.homes(order.stream)
        if homes:
            if frame <= self._delivered.get(order.stream, 0):
                self._conductor.overtaken()
                return
            self._delivered[order.stream] = frame
        for home in homes:
            if home == HERE:
                self._here([Message(order.stream, message, self.lossless)])
            elif home != drawn_by:
                member = self._roster.by_number(home)
                if member is not None:
                    self._roster.tell(member, m.Streamed(order.stream, frame, self.lossless), message)
        self._conductor.keep(order, payload)

    def _parted(self, posts: list[Post]) -> None:
        here: list[Post] = []
        for post in posts:
            if isinstance(post, Answer) and isinstance(post.caller, RemoteCaller):
                post.caller.answer(post.id, post.result)
            elif isinstance(post, Message) and post.stream_id != WORLD_STREAM:
                self._stream(post, here)
            elif isinstance(post, Expect) and post.home != HERE:
                member = self._roster.by_number(post.home)
                if member is not None:
                    self._roster.tell(member, m.Expected(post.stream_id))
            else:
                here.append(post)
                if isinstance(post, Forget):
                    self._delivered.pop(post.stream_id, None)
                    for member in self._roster.listening():
                        self._roster.tell(member, m.Forgotten(post.stream_id))
                elif isinstance(post, Prepared):
                    for member in self._roster.listening():
                        self._roster.tell(member, m.Prepared(self._roster.episode.frame), post.payload)
        if here:
            self._here(here)

    def _stream(self, post: Message, here: list[Post]) -> None:
        """An event or a measurement that was made here."""
        homes = self._roster.episode.listened.homes(post.stream_id)
        for home in homes:
            member = self._roster.by_number(home) if home != HERE else None
            if member is not None:
                self._roster.tell(member, m.Streamed(post.stream_id, 0, post.lossless), post.payload)
        if HERE in homes or not homes:
            here.append(post)
