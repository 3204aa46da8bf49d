"""The main server of a simulated cluster: ``shell.py``, the outbox of ``main.py`` and the journal, on virtual time.

What one server would do is worked out beside it, and what comes of the cluster is held against that; see ``check``'s callers.
"""

import zlib
from collections import deque

import msgpack

from samepath.cluster import coordinator as c
from samepath.cluster import messages as m
from samepath.cluster.direct import TICKS_KEPT, DirectFrames
from samepath.cluster.link.wire import ArenaPart
from samepath.cluster.settings import SLOW_FACTOR
from samepath.simulator.carla.codec import CallError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.tickets import CallOutcome, Status, TicketId
from samepath.simulator.server.journal_files import (
    JournalFiles,
    RecordKind,
    cut,
    numbers_of,
    part_path,
    read_part,
    read_tail,
    snapshot_path,
)
from samepath.simulator.server.tickets import TicketStore
from tests.support.disk import FOLDER, SimulatedDisk
from tests.support.virtual_episode import (
    BOOT,
    FINGERPRINT,
    MAIN,
    NEVER_S,
    PICTURE,
    STEP_S,
    VERSION,
    Episode,
    Listener,
    Violation,
    check,
    digest,
    measured,
)

SYNC_EVERY_S = 1.0
SYNC_LIMIT_S = 10.0  # how long the coordinator lets nodes take in news
LIMITS = ServerLimits()
# What the coordinator may keep: of ticks, and what one node may owe of them; of those that were cut off.
TICKS_MOST = 65
FENCED_MOST = 4096
# How many nodes the heaviest frame may cost their place in a tick: each time the others have twice as long.
MAX_TAKEN_OUT = 6


class RunStopped(Exception):  # noqa: N818 - no error
    """There was no node for a minute: a cluster stops then, and says so."""


class VirtualMain:
    """The main server: carries out what the coordinator decides, as ``shell.py`` and the outbox of ``main.py`` do."""

    def __init__(self, world):
        self.world, self.alive = world, True
        self.state = c.ClusterState(
            c.ClusterConfig(VERSION, FINGERPRINT, BOOT, picture=PICTURE), Episode(False).map_facts, c.Balance(world.plan.policy)
        )
        self.episode = Episode(world.plan.real_time)
        self.tickets = TicketStore(LIMITS)
        self.files = None
        self.ran = {}  # by ticket, what came of a call in this world, as far as it is known
        self.work = deque()
        self.homes = {}  # by stream, who listens
        self.listeners = {}  # by stream, those at the main server itself
        self.asked = {}  # by frame and sensor, what one server would make of it
        self.is_busy = False
        self.arrived, self.paused_s, self._wakes_s = [], 0.0, None
        self._events, self._is_stepping = deque(), False
        self._over, self._is_synced, self._sync_began_s = None, True, 0.0
        self._ticked_s, self._taken_out = 0.0, 0
        self._met, self._cut, self._lost = set(), set(), set()
        self._asked_now = set()  # peers and sensors, in this step
        self._is_playing = False
        self._told = None
        self._given_back = set()
        self.direct = DirectFrames()
        self._neighbours = set()  # who may send to whom

    # Beginning, and going on from a journal.

    @property
    def is_durable(self):
        return self.world.plan.durable

    def begin(self):
        world = self.world
        found = recovered(world.disk, Episode(world.plan.real_time)) if world.plan.journal else None
        if found is not None:
            episode, tickets, records, start, tail = found
            self.episode = episode
            self.tickets.restore(tickets)
            for ticket, result in msgpack_pairs(tickets):
                self.ran[ticket] = result
            self._is_playing = True
            for record in records:
                if record.kind is RecordKind.CALL:
                    self._play(msgpack.unpackb(record.fields[0]))
            self._is_playing = False
            cut(FOLDER, start, tail, world.disk)
        elif world.plan.journal and world.disk.names(FOLDER):
            world.disk = SimulatedDisk()  # nothing of it can be read: nobody was told anything yet
            world.disk.before_each = world.before_disk
        self._check_nothing_forgotten()
        if world.plan.journal:
            self.files = JournalFiles(
                FOLDER, self._journal_line, durable=self.is_durable, sync_every_s=SYNC_EVERY_S, disk=world.disk,
                background=Background(world, self),
            )  # fmt: skip
            if found is None:
                self.files.begin(0, {"made_by": "a schedule"})
            else:
                self.files.begin(tail.part + 1, {"made_by": "a schedule"}, [(RecordKind.RESUMED,)], self._packed())
        self._told = self._news_key()
        self.feed(c.NewsMade((), self.episode.map_facts))
        world.note("main", self.episode.frame, len(self.ran))

    def _play(self, call):
        try:
            self._make(call)
        except CallError as error:
            raise Violation(f"the journal cannot be played: {error}") from error

    def _journal_line(self, line):
        raise Violation(f"the journal of a disk without errors says: {line}")

    def _check_nothing_forgotten(self):
        """Whatever a client was told is known, but for what a power cut may take."""
        world = self.world
        for ticket, (result, at_s) in world.answered.items():
            excused = not world.plan.durable and any(0.0 <= cut_s - at_s <= SYNC_EVERY_S + 0.2 for cut_s in world.lost_power_s)
            if ticket in self.ran:
                check(self.ran[ticket] == result, f"{ticket} has another outcome after a restart")
            else:
                check(excused, f"{ticket} was answered {world.now_s - at_s:.2f} s ago and is forgotten after a restart")

    def _packed(self):
        content = msgpack.packb([self.episode.plain(), self.tickets.state()])
        return zlib.crc32(content).to_bytes(4, "little") + content

    # What arrives.

    def arrive(self, connection, event):
        """Something has come over a connection; it is read when this server next looks."""
        if connection.is_broken and not isinstance(event, c.PeerLost):
            return
        self.arrived.append(event)
        self.look()

    def pause(self, seconds):
        self.paused_s = max(self.paused_s, self.world.now_s + seconds)

    def look(self):
        """Read everything that has come, then see whether it is late, as ``attend`` does."""
        now_s = self.world.now_s
        if not self.alive or self._is_stepping:
            return
        if now_s < self.paused_s:
            self._wake_at(self.paused_s)
            return
        batch, self.arrived = self.arrived, []
        for event in batch:
            # What was read in one go is fed in one go: also what a node said that is fenced by the first half of it.
            if isinstance(event, c.NodeMessage) and isinstance(event.message, m.Hello):
                self._look_for_ended()
            self._on_arrived(event)
        for event in batch:
            self._give_back(event)
        for late in self.direct.overdue(now_s):
            self._fetch_late(late)
        deadline_s = c.deadline_s(self.state)
        if deadline_s is not None and now_s >= deadline_s:
            self.feed(c.TimePassed())
            deadline_s = c.deadline_s(self.state)
            check(deadline_s is None or deadline_s > now_s, f"time passes and nothing comes of it: {self.words()}")
        for limit_s in (deadline_s, self.direct.deadline_s()):
            if limit_s is not None:
                self._wake_at(limit_s)

    def _on_arrived(self, event):
        """A result whose frames are under way to other nodes counts when they have arrived."""
        member = self.state.members.get(getattr(event, "peer", b""))
        if member is None or not isinstance(event, c.NodeMessage):
            self.feed(event)
            return
        homes = {other.number for other in c.followers(self.state)}
        for counted in self.direct.on_result(member, event, homes, self.world.now_s):
            self.feed(counted)

    def _give_back(self, event):
        """What a message left in its node's memory has been dealt with; of one that came twice only the first time counts."""
        parts = event.bulk if isinstance(event, c.NodeMessage) else ()
        for part in parts:
            if isinstance(part, ArenaPart) and part not in self._given_back:
                self._given_back.add(part)
                part.lease.release()

    def words(self):
        """How it stands, for whoever reads a violation."""
        members = "; ".join(
            f"{member.name} {member.state}{' suspected' if member.suspected else ''} owes {len(member.pending)}"
            for member in c.in_order(self.state)
        )
        tick = self.state.tick
        return (
            f"tick {tick and (tick.frame, len(tick.done), len(tick.due), tick.is_round_over, tick.no_node_since_s)}: {members}"
        )

    def _wake_at(self, time_s):
        if self._wakes_s is None or time_s < self._wakes_s or self._wakes_s <= self.world.now_s:
            self._wakes_s = time_s
            self.world.at_time(max(time_s, self.world.now_s), self._wake, time_s)

    def _wake(self, time_s):
        if self._wakes_s == time_s:
            self._wakes_s = None
        self.look()

    def _look_for_ended(self):
        for peer in tuple(self.state.members):
            node = self.world.peers[peer]
            if node.same_host and not node.alive:
                self.feed(c.PeerLost(peer, "its process ended"))

    # Events in, effects out.

    def feed(self, event):
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events:
                self._step(self._events.popleft())
        finally:
            self._is_stepping = False

    def _step(self, event):
        world, before = self.world, self.state
        self.state, effects = c.step(before, event, world.now_s)
        peer = getattr(event, "peer", None)
        message = event.message if isinstance(event, c.NodeMessage) else None
        world.note(type(event).__name__, peer.decode() if peer else "", type(message).__name__ if message else "", len(effects))
        if message is not None and (peer in self._cut or peer in before.refused):
            silent = self.state == before and all(isinstance(effect, c.Disconnect) for effect in effects)
            check(silent, f"{type(message).__name__} of {peer.decode()}, which was cut off or refused, leads to something")
        self._asked_now.clear()
        for effect in effects:
            self._carry_out(effect)
        self._check_last(before, effects)
        self._check_bounds()

    def _check_last(self, before, effects):
        """No node is taken out over a frame that is the last one to draw it, or that speaks while no other has drawn it."""
        able = [member.peer for member in c.renderers(before)]
        over_a_frame = False
        for effect in effects:
            if isinstance(effect, c.Problem):
                over_a_frame = "taken out: it has not drawn" in effect.line
                self._taken_out += "taken out: it has" in effect.line
            elif isinstance(effect, c.NodeLost) and effect.member.peer in able:
                able.remove(effect.member.peer)
                last = over_a_frame and effect.fenced and not able and before.tick is not None
                check(not last, f"{effect.member.name} was taken out over a frame, and was the last that could draw")
                slow = over_a_frame and effect.fenced and self._is_waited_for(before, effect.member)
                check(not slow, f"{effect.member.name} was taken out, it spoke, and no other node has drawn its frame")

        few = self._taken_out <= MAX_TAKEN_OUT or self._is_troubled()
        check(few, f"tick {self.state.frame} has cost {self._taken_out} nodes their place, and nothing was wrong with them")

    def _is_troubled(self):
        """Return True if a node is or was in trouble since this tick began."""
        world = self.world
        troubled = any(node.troubled_s is None for node in world.running.values())
        return troubled or world.last_trouble_s > self._ticked_s or world.plan.lossy > 0.0

    def _is_waited_for(self, before, member):
        """Does a tick wait for the first of what a node owes that was heard of a moment ago?"""
        tick, first = before.tick, member.pending[0]
        if tick is None or first.frame != tick.frame or self.world.now_s >= member.heard_s + 1.2:
            return False
        return any(sensor in tick.due and sensor not in tick.done for sensor in first.requests)

    def _check_bounds(self):
        state = self.state
        check(len(state.digests) <= TICKS_MOST and len(state.real_time) <= TICKS_MOST, "ticks of long ago are kept")
        check(len(state.refused) + len(state.members) <= len(self.world.peers), "who never came is kept")
        check(len(state.fenced) <= FENCED_MOST, "who was cut off is kept for ever")
        check(len(state.numbers) <= FENCED_MOST + len(state.members), "names of nodes are kept for ever")
        for member in state.members.values():
            check(len(member.pending) <= TICKS_MOST, f"{member.name} owes {len(member.pending)} answers, and is given more")
        sensors = self.episode.sensors
        for kept in (state.delivered, state.evictions, state.balance.where, state.balance.costs.sensor_s):
            if len(kept) > len(sensors) + 16 or not self.is_busy:
                gone = [sensor for sensor in kept if sensor not in sensors]
                check(not gone, f"sensors {gone} are gone and are kept")

    def _carry_out(self, effect):  # noqa: PLR0912 - one branch per effect
        match effect:
            case c.Send():
                self._send(effect.peer, effect.message, effect.bulk)
            case c.SendTick():
                self._send_tick(effect)
            case c.Deliver():
                self.deliver(effect)
            case c.Accepted():
                self._on_accepted(effect.member, effect.message, effect.bulk)
            case c.Remember():
                if effect.sensor in self.episode.sensors and effect.memory:
                    self.episode.memory[effect.sensor] = effect.memory
            case c.RoundOver():
                # Nodes that read slowly let frames wait here for a while.
                wait_s = self.world.chance["main"].pick((0.0, 0.0, 0.0, 0.0005, 0.03, 0.6))
                self.world.at(wait_s, self._drained)
            case c.TickOver():
                self._over = effect
            case c.TickFailed():
                self._check_failed(effect)
                raise RunStopped
            case c.SyncOver():
                self._check_synced()
                self._is_synced = True
            case c.Introduce():
                self._introduce(effect.peer)
            case c.Disconnect():
                self._cut.add(effect.peer)
                self.world.peers[effect.peer].connection.close_by_main()
            case c.NodeMet():
                self._met.add(effect.peer)
            case c.NodeLost():
                self._on_lost(effect)

    def _check_failed(self, effect):
        """A run may stop only if nodes were in trouble, or if no node can draw a frame in time."""
        world, plan = self.world, self.world.plan
        is_heavy = plan.heavy_s > 0.0 and self.state.frame == plan.heavy_tick
        if is_heavy and plan.heavy_s >= NEVER_S and not effect.no_node:
            check("no node has drawn sensor" in effect.why, f"the run stops, and no sensor is named: {effect.why}")
            return
        well = [node.name for node in world.running.values() if node.is_well_s() > 30.0 + (90.0 if is_heavy else 0.0)]
        check(not well, f"{well} are well, and the run stops: {effect.why}")
        check(self._is_troubled(), f"no node was in trouble, and the run stops: {effect.why}")

    def _drained(self):
        if self.alive:
            self.feed(c.SendsDrained())
            self.look()

    def _send(self, peer, message, bulk=()):
        node = self.world.peers[peer]
        node.connection.to_node(message, bulk)

    def _send_tick(self, effect):
        episode = self.episode
        for order in effect.orders:
            node, name = self.world.peers[order.peer], order.peer.decode()
            check(order.peer in self._met and order.peer not in self._cut, f"{name} is no member and is sent a tick")
            if order.requests:
                member = self.state.members.get(order.peer)  # None: it is taken out later in the same step
                check(member is None or not member.dismissed, f"{name} was told to go, and is given work")
                check(node.said_ready == episode.id, f"{name} has not built this map, and is given work")
            for request in order.requests:
                asked = (order.peer, request.sensor)
                check(asked not in self._asked_now, f"{name} is asked for sensor {request.sensor} twice in one breath")
                self._asked_now.add(asked)
            self._send(
                order.peer,
                m.TickMessage(effect.frame, effect.lockstep, b"", order.homes, order.timed, order.again),
                (episode.state, order.requests),
            )

    def deliver(self, found):
        request, payload = found.request, found.payload
        for home in sorted(self.homes.get(request.stream, ())):
            if home == MAIN and payload:
                self.hear(request, here(payload))
            elif home not in (MAIN, found.drawn_by):
                member = c.by_number(self.state, home)
                if member is None or not c.listens(member, request.frame):
                    continue
                if home in found.sent_to:
                    told = m.StreamData(request.stream, request.frame, self.episode.lockstep, found.sender)
                    self._send(member.peer, told)
                elif payload:
                    if not self.world.peers[member.peer].same_host:
                        payload = here(payload)
                    self._send(member.peer, m.StreamData(request.stream, request.frame, self.episode.lockstep), (payload,))

    def hear(self, request, payload):
        listener = self.listeners.get(request.stream)
        if listener is not None:
            self.check_frame(listener, request.stream, request.frame, payload, "the main server")

    def check_frame(self, listener, sensor, frame, payload, where):
        """A frame has reached somebody who listens: it is the one that must come now, with the bytes of one server."""
        what = f"frame {frame} of sensor {sensor} at {where}"
        wanted = self.asked.get((frame, sensor))
        check(wanted is not None and payload == wanted[0], f"{what} has other bytes than from one server")
        check(frame > listener.last, f"{what} came after frame {listener.last}")
        listener.last = frame
        if listener.due and frame >= listener.due[0]:
            check(frame == listener.due[0], f"{what} came, but frame {listener.due[0]} did not")
            listener.due.popleft()
        else:
            check(not wanted[2], f"{what} was not due there")

    # What clients ask for.

    def _on_accepted(self, member, message, bulk):
        if isinstance(message, m.ClientCall):
            self.work.append(("call", (member.peer, message.client), bulk[0]))
        elif isinstance(message, m.StreamUnused):
            self.work.append(("unheard", message.stream, member.number))
        elif isinstance(message, m.FramesHeld):
            is_known = any(other.membership == message.sender for other in self.state.members.values())
            if is_known and self.state.frame - TICKS_KEPT < message.frame <= self.state.frame:
                for counted in self.direct.on_held(member.number, message):
                    self.feed(counted)

    # Frames from node to node.

    def _acquaint(self, peer):
        """Tell who has joined, and the others, of each other, unless both are on this host."""
        member = self.state.members[peer]
        for other in c.followers(self.state):
            nodes = [self.world.peers[each.peer] for each in (member, other)]
            if other.peer == peer or all(node.same_host for node in nodes):
                continue
            for there, to in ((member, other), (other, member)):
                self._neighbours.add((there.peer, to.peer))
                self._send(there.peer, m.Neighbour(to.number, to.membership, to.peer.decode(), ""))

    def _fetch_late(self, late):
        if late.peer in self.state.members:
            for home in late.homes:
                other = c.by_number(self.state, home)
                if other is not None:
                    self._part(late.peer, other)
            self._send(late.peer, m.Resend(late.frame))

    def _part(self, peer, other):
        if (peer, other.peer) in self._neighbours:
            self._neighbours.discard((peer, other.peer))
            if peer in self.state.members:
                self._send(peer, m.NeighbourGone(other.number))

    def work_off(self):
        """Make the calls that have come, one after the other, as the episode's thread does."""
        while self.alive and self.work and not self.is_busy and self.world.now_s >= self.paused_s:
            self.is_busy = True
            item = self.work.popleft()
            if item[0] == "call":
                self._call(item[1], item[2])
            elif item[0] == "unheard":
                self.homes.get(item[1], set()).discard(item[2])
            else:
                for homes in self.homes.values():
                    homes.discard(item[1])
            self.is_busy = False

    def _call(self, caller, raw):
        call = msgpack.unpackb(raw)
        try:
            outcome = self._make(call, caller)
            self.journal(raw, call)
        except CallError as error:
            outcome = CallOutcome(Status.FAILED, str(error))
        if self.files is not None:
            self.files.flush()
        if self._publish():
            self._sync()
        self._answer(caller, call, outcome)

    def journal(self, raw, call):
        if self.files is None:
            return
        self.files.add(RecordKind.CALL, raw)
        if call[2] == "tick":
            self.files.add(RecordKind.TICK, self.episode.frame, b"", 0)
            self.files.flush()
            if self.episode.frame % 5 == 0 and not self.files.is_storing:
                self.files.store(self._packed(), f"frame {self.episode.frame}", {"made_by": "a schedule"})

    def _make(self, call, caller=None):
        """A call by ticket: it runs at most once."""
        ticket = TicketId(call[0], call[1])

        def run():
            check(ticket not in self.ran, f"{ticket} runs a second time")
            self.episode.change(call)
            if call[2] == "tick":
                self._tick()
            elif call[2] == "listen" and not self._is_playing:
                self._listen(caller, call[3])
            result = digest(self.episode.state, self.episode.frame)
            self.ran[ticket] = result
            return CallOutcome(Status.SUCCESS, "", result, self.episode.frame)

        return self.tickets.do(ticket, run)

    def _answer(self, caller, call, outcome):
        if caller[0] == MAIN:
            self.world.at(0.0005, self.world.clients[caller[1]].on_answer, self, call[1], outcome)
        elif caller[0] in self.state.members:
            self._send(caller[0], m.CallResult(caller[1], call[1]), (outcome,))

    def _listen(self, caller, sensor):
        if sensor not in self.episode.sensors or caller is None:
            return
        if caller[0] == MAIN:
            self.homes.setdefault(sensor, set()).add(MAIN)
            self.listeners.setdefault(sensor, Listener())
        elif caller[0] in self.state.members:
            self.homes.setdefault(sensor, set()).add(self.state.members[caller[0]].number)
            node = self.world.peers[caller[0]]
            node.expected.setdefault(sensor, Listener())
            self._send(caller[0], m.ExpectListener(sensor, self.episode.frame))

    # A tick.

    def _tick(self):
        episode, world = self.episode, self.world
        if self._is_playing:
            for request in episode.step():
                self._keep(request.sensor, measured(f"map {episode.id}", episode.state, request)[1])
            return
        if self._publish():
            self._sync()
        world.on_tick()
        requests = episode.step()
        frames = []
        for request in requests:
            homes = tuple(sorted(self.homes.get(request.stream, ())))
            payload, memory, _ = measured(f"map {episode.id}", episode.state, request)
            self.asked[episode.frame, request.sensor] = payload, memory, episode.lockstep
            if episode.lockstep and payload:
                self._expect(request, homes)
            if MAIN not in homes and world.chance["main"].happens(0.05):
                homes = (MAIN, *homes)  # somebody looks at a thumbnail
            frames.append(c.DueFrame(request, homes))
        self._over, self._ticked_s, self._taken_out = None, world.now_s, 0
        self.direct.on_tick(episode.frame)
        watch = ProgressWatch(self, requests)
        self.feed(c.TickDue(episode.frame, digest("tick", episode.state), tuple(frames), episode.lockstep, STEP_S))
        self.look()
        while self._over is None:
            world.next_event()
        watch.is_over = True
        self._check_over(self._over, requests if episode.lockstep else ())
        for result in self._over.results:
            self._keep(result.sensor, result.memory)
        world.ticks += 1

    def _keep(self, sensor, memory):
        if memory:
            self.episode.memory[sensor] = memory

    def _expect(self, request, homes):
        """Note who must get a frame: whoever listens now."""
        for home in homes:
            if home == MAIN:
                self.listeners[request.stream].due.append(request.frame)
            else:
                member = c.by_number(self.state, home)
                listener = self.world.peers[member.peer].expected.get(request.stream) if member is not None else None
                if listener is not None:
                    listener.due.append(request.frame)

    def _check_over(self, over, requests):
        frame = self.episode.frame
        check(over.frame == frame, f"tick {over.frame} is over while tick {frame} is drawn")
        asked, came = [request.sensor for request in requests], [result.sensor for result in over.results]
        check(came == asked, f"tick {frame} is over with sensors {came}, due were {asked}")
        for request, result in zip(requests, over.results, strict=True):
            memory, error = self.asked[frame, result.sensor][1], "it cannot be drawn" if request.type_id == "broken" else ""
            check(result.memory == memory, f"sensor {result.sensor} remembers something else after tick {frame}")
            check(result.error == error, f"sensor {result.sensor} has the error {result.error!r} in tick {frame}")
        if self.episode.lockstep:
            for sensor, listener in self.listeners.items():
                check(not listener.due, f"tick {frame} is over, and a frame of sensor {sensor} did not reach the main server")

    # News.

    def _news_key(self):
        return self.episode.id, self.episode.settings, tuple(self.episode.sensors)

    def _publish(self):
        """Tell nodes what is new; must somebody wait until they know?"""
        told, now = self._told, self._news_key()
        if told == now:
            return False
        self._told = now
        items = []
        if told[0] != now[0]:
            items.append((self.episode.map_facts.message, b"xodr"))
        if told[1] != now[1]:
            items.append((self._settings(), b""))
        gone = tuple(sensor for sensor in told[2] if sensor not in now[2])
        if told[2] != now[2]:
            items.append((m.NewActors((), gone, 0), b""))
        for sensor in gone:
            self.homes.pop(sensor, None)
            self.listeners.pop(sensor, None)
        self.feed(c.NewsMade(tuple(items), self.episode.map_facts))
        for sensor in gone:
            for member in c.followers(self.state):
                self._send(member.peer, m.StreamClosed(sensor))
        return told[:2] != now[:2]

    def _settings(self):
        return m.NewSettings(msgpack.packb([self.episode.id, self.episode.settings]), b"")

    def _sync(self):
        self._is_synced, self._sync_began_s = False, self.world.now_s
        self.feed(c.SyncWanted())
        self.look()
        while not self._is_synced:
            self.world.next_event()

    def _check_synced(self):
        waited_s = self.world.now_s - self._sync_began_s
        nodes = [self.world.peers[member.peer] for member in c.followers(self.state)]
        if waited_s < SYNC_LIMIT_S:
            behind = [node.name for node in nodes if node.is_open and node.knows < self.episode.settings]
            check(not behind, f"{behind} have not taken in what is new, and nobody waits for them")
        else:
            slow = [node for node in nodes if node.troubled_s is None or node.troubled_s > self._sync_began_s]
            pauses = self.paused_s >= self._sync_began_s
            spiky = self.world.plan.spikes or self.world.plan.builds_s > 1.0
            check(slow or pauses or spiky, f"{waited_s:.1f} s were waited for nodes of which none was behind")

    def _introduce(self, peer):
        self._send(peer, self._settings())
        self._send(peer, m.NewActors((), (), 0))
        self._send(peer, m.LatestState(self.episode.frame))
        self._send(peer, m.Joined(self.episode.frame))
        self._acquaint(peer)

    # Going.

    def drain(self, name):
        member = c.by_name(self.state, name)
        node = self.world.running.get(name)
        if member is not None:
            self.feed(c.DrainWanted(name))
            self.look()
        elif node is not None:
            node.end("it is not wanted")
        if node is not None:
            self.world.at(self.world.chance["clients"].between(0.0, 3.0), node.send_clients_away)

    def _on_lost(self, effect):
        member = effect.member
        check(member.peer not in self._lost, f"{member.name} is lost twice")
        self._lost.add(member.peer)
        for peer, other in sorted(self._neighbours):
            if other == member.peer:
                self._part(peer, member)
        self._neighbours = {pair for pair in self._neighbours if member.peer not in pair}
        for counted in self.direct.on_lost(member):
            self.feed(counted)
        self.work.append(("left", member.number))
        node = self.world.peers[member.peer]
        if effect.failed and member.name in self.world.placed:
            if self.world.running.get(member.name) is node:
                self.world.at(0.01, node.end, "its placement ends it")
            else:
                self.world.relaunch(member.name)

    def at_rest(self):
        """Nothing more is under way: whoever listens has everything that was due."""
        for name, node in sorted(self.world.running.items()):
            if (
                node.is_member
                and node.troubled_s is not None
                and node.troubled_s < self.world.now_s - 2.5
                and not self.world.plan.spikes
            ):
                for sensor, listener in node.heard.items():
                    check(not listener.due, f"frames {list(listener.due)} of sensor {sensor} never came to {name}")


def here(payload):
    """A payload, copied out of the memory of the node that drew it, if it lies there."""
    return payload.read() if isinstance(payload, ArenaPart) else payload


class ProgressWatch:
    """Whether a tick goes on: while somebody could draw who is well, it ends within a bound of virtual time.

    Looked at twice a second. A node *can* draw if nothing has befallen it and the coordinator may give it work. If the
    coordinator does not suspect it either, all that is missing must be with it as soon as everybody before it was late once.
    If it is suspected of being slow, others must first be fenced, which takes longer.
    """

    EVERY_S = 0.5

    def __init__(self, main, requests):
        self._main, self._requests = main, requests
        self._fresh_s, self._able_s = {}, {}
        self._expected_s, self._doublings = 0.0, 0
        self._began_pauses_s = main.paused_s
        self.is_over = False
        main.world.at(self.EVERY_S, self._look)

    def _look(self):
        main, world = self._main, self._main.world
        if self.is_over or not main.alive or main.state.tick is None:
            return
        now_s, state = world.now_s, main.state
        owed = [each.expected_s for member in state.members.values() for each in member.pending]
        self._expected_s = max([self._expected_s, *owed])
        doublings = [max(each.doublings, each.asked_again) for member in state.members.values() for each in member.pending]
        self._doublings = max([self._doublings, *doublings])
        able = [member for member in c.renderers(state) if world.peers[member.peer].is_well_s() > self.EVERY_S]
        if now_s < main.paused_s + 2 * self.EVERY_S:
            able = []
        self._able_s = {member.peer: self._able_s.get(member.peer, now_s) for member in able}
        fresh = [member.peer for member in able if not member.suspected]
        self._fresh_s = {peer: self._fresh_s.get(peer, now_s) for peer in fresh}
        times, others = state.config.timeouts, len(state.members)
        rounds = 1 + len(state.tick.rounds)
        draws_s = 3.0 * sum(main.episode.sensors[request.sensor].cost_s for request in self._requests)
        if world.plan.heavy_s and state.frame == world.plan.heavy_tick:
            draws_s += 2.0 * world.plan.heavy_s  # nodes are up to twice as slow
        late_s = times.reissue_s + times.reissue_factor * self._expected_s
        lag_s = 8.0 * world.plan.lag_s + (4.0 if world.plan.spikes else 0.0)
        bound_s = (1 + others) * late_s + rounds * (1.0 + lag_s) + draws_s
        # Each wait may be twice as long as the one before.
        fence_s = 2.0 ** (self._doublings + 1) * SLOW_FACTOR * times.fence_s + self._expected_s
        for since, limit_s, words in (
            (self._fresh_s, bound_s, "is well and free"),
            (self._able_s, bound_s + (1 + others) * fence_s, "is well"),
        ):
            for peer, from_s in since.items():
                check(
                    now_s - from_s <= limit_s,
                    f"tick {state.tick.frame} does not end, but {peer.decode()} {words} for {now_s - from_s:.1f} s "
                    f"(bound {limit_s:.1f} s): {main.words()}",
                )
        world.at(self.EVERY_S, self._look)


def recovered(disk, episode):
    """What a journal holds: the newest snapshot that can be read, and all since; None: there is no journal."""
    parts, snapshots = numbers_of(FOLDER, disk)
    if not any(read_part(part_path(FOLDER, number), disk).records for number in parts):
        return None
    for start in [*reversed(snapshots), *([0] if 0 in parts else [])]:
        tickets = [[], []]
        if start:
            packed = disk.read(snapshot_path(FOLDER, start))
            if len(packed) < 5 or zlib.crc32(packed[4:]).to_bytes(4, "little") != packed[:4]:
                continue
            plain, tickets = msgpack.unpackb(packed[4:], use_list=True)
            episode.restore(plain)
        tail = read_tail(FOLDER, start, disk=disk)
        return episode, tickets, tail.records, start, tail
    return None


def msgpack_pairs(tickets):
    """The outcomes of a ticket store's state, by ticket."""
    for client, number, _, _, result, _ in tickets[1]:
        yield TicketId(client, number), result


class Background:
    """The journal's second thread, on virtual time; it ends with its main server."""

    def __init__(self, world, main):
        self._world, self._main = world, main
        self._jobs, self._is_doing = deque(), False

    def submit(self, job, after_s=0.0):
        if after_s:
            self._world.at(after_s, self._fall_due, job)
        else:
            self._fall_due(job)

    def _fall_due(self, job):
        if self._main.alive:
            self._jobs.append(job)
            self._world.at(self._world.chance["disk"].between(0.0005, 0.02), self._next)

    def _next(self):
        if self._main.alive and self._jobs and not self._is_doing:
            self._is_doing = True
            try:
                self._jobs.popleft()()
            finally:
                self._is_doing = False

    def drain(self):
        while self._jobs:
            self._next()

    close = drain
