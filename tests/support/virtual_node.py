"""The nodes and clients of a simulated cluster and what connects them: ``node.py``, the link and ``samepath.client``."""

from collections import deque

import msgpack

from samepath.cluster import coordinator as c
from samepath.cluster import messages as m
from samepath.cluster.direct import TICKS_KEPT
from samepath.cluster.link.wire import ArenaPart, Lease, PartRef, Via
from samepath.simulator.carla.tickets import Status, TicketId
from tests.support.virtual_episode import BOOT, FINGERPRINT, MAIN, PICTURE, VERSION, Chance, check, digest, measured

HEARTBEAT_S = 0.5
OVERWRITTEN = b"what a node wrote after that"


class Arena:
    """The memory of a node that others of its host read: whatever is not needed any more is overwritten at once."""

    def __init__(self):
        self._slots = {}

    def put(self, payload):
        number = len(self._slots) + 1
        self._slots[number] = payload
        return ArenaPart(PartRef(Via.SHARED, 1, number, len(payload)), self, Lease(self, number))

    def read(self, number, _length):
        return self._slots[number]

    def on_released(self, number):
        self._slots[number] = OVERWRITTEN


class Connection:
    """The link between a node and the main server: in order and complete in each direction, until it breaks."""

    def __init__(self, world, node, main):
        self._world, self._node, self._main = world, node, main
        self._to_main_s = self._to_node_s = 0.0
        self.is_broken = False
        self.lossy = 0.0

    def _arrival_s(self, last_s):
        chance, plan = self._world.chance["links"], self._world.plan
        delay_s = plan.lag_s * (0.5 + chance.unit())
        if plan.spikes and chance.happens(plan.spikes):
            delay_s += chance.between(0.05, 1.0)
        return max(last_s, self._world.now_s + delay_s)

    def to_main(self, message, bulk=()):
        if self.is_broken or not self._main.alive:
            return
        event = c.NodeMessage(self._node.peer, message, bulk)
        chance, times = self._world.chance["links"], 1
        if self.lossy and isinstance(message, m.TickResult):
            fate = chance.unit() / self.lossy
            if fate < 1.0:
                times = 0 if fate < 0.5 else 2
            if chance.happens(self.lossy):  # it is overtaken by what is sent later
                self._world.at(chance.between(0.0, 0.4), self._arrive, event)
                return
        self._to_main_s = self._arrival_s(self._to_main_s)
        for _ in range(times):
            self._world.at_time(self._to_main_s, self._arrive, event)

    def _arrive(self, event):
        if self._main.alive:
            self._main.arrive(self, event)

    def to_node(self, message, bulk):
        if self.is_broken:
            return
        for part in bulk:
            if isinstance(part, ArenaPart):
                self.lend(part)
        if self.lossy and isinstance(message, m.TickMessage) and self._world.chance["links"].happens(self.lossy):
            self._node.misses_ticks = True
            return
        self._to_node_s = self._arrival_s(self._to_node_s)
        self._world.at_time(self._to_node_s, self._node.receive, message, bulk)

    def lend(self, part):
        """A part of another node's memory is named to this one, and stays there until this one has read it."""
        part.lease.hold()

    def ended(self, *, at_once):
        """The node's end is gone. What it had sent arrives; the main server learns of the end behind that, or before."""
        lost = c.PeerLost(self._node.peer, "its process ended" if at_once else "its connection ended")
        chance = self._world.chance["links"]
        seen_s = self._world.now_s + chance.between(0.0005, 0.005) if at_once else self._arrival_s(self._to_main_s)
        self._world.at_time(seen_s, self._arrive, lost)

    def break_off(self, noticed_in_s):
        """The network is gone. None: the main server never notices."""
        self.is_broken = True
        if noticed_in_s is not None:
            self._world.at(noticed_in_s, self._arrive, c.PeerLost(self._node.peer, "its connection ended"))

    def close_by_main(self):
        """What is under way to the node still arrives (it is to read why), then it sees the end."""
        if not self.is_broken:
            self._world.at_time(self._arrival_s(self._to_node_s), self._node.end, "the main server has cut it off")


class VirtualNode:
    """A rendering node, as ``node.py``: link, event loop and a render thread that does one thing after the other."""

    def __init__(self, world, name, incarnation):
        chance, plan = world.chance["nodes"], world.plan
        self.world, self.name = world, name
        self.peer = f"{name}/{incarnation}".encode()
        self.alive, self.is_open, self.number = True, False, 0
        self.same_host = chance.happens(plan.same_host)
        self.speed = chance.between(0.5, 2.0)
        self.slow = 1.0
        self.lie = chance.pick(("picture", "map", "fingerprint", "state")) if chance.happens(plan.lies) else ""
        self.troubled_s = world.now_s if not self.lie else None  # well since then; None: it is not
        self.frozen, self._deferred = False, []
        self.knows, self.said_ready, self._map = 0, -1, ""
        self._free_s = 0.0
        self._waiting = set()  # requests that are not drawn yet
        self._deaf_until_s = 0.0  # it draws, and sends no heartbeats
        self._last_frame = None
        self.misses_ticks = False
        self.expected, self.heard = {}, {}  # by stream, who listens: as the main server knows, and as this node does
        self.delivered = {}
        self.membership, self._neighbours = 0, {}  # memberships and peers of others, by number
        self._held, self._sent = {}, deque(maxlen=16)
        self._arena = Arena()
        self._hides = incarnation % 2 == 1  # what it holds, if that is wrong
        self._clients = {}  # by number
        self._next_client = 1
        self.connection = Connection(world, self, world.main)
        self._main = world.main
        world.peers[self.peer] = self

    def start(self):
        plan = self.world.plan
        if plan.lossy and self.world.chance["nodes"].happens(0.5):
            self.suffer("lossy", self.world.chance["nodes"])
        fingerprint = "other" if self.lie == "fingerprint" else FINGERPRINT
        boot = BOOT if self.same_host else "another host"
        self.connection.to_main(m.Hello(self.name, VERSION, fingerprint, "host", boot, 7, "host", 1, 2, 1))
        self._beat()

    @property
    def is_member(self):
        return self.alive and self.peer in self._main.state.members

    def is_well_s(self):
        """For how long nothing has been wrong with it."""
        now_s, heavy_s = self.world.now_s, self.world.plan.heavy_s
        well = self.alive and not self.frozen and self.troubled_s is not None and not self.connection.is_broken
        # A heavy frame that was begun while it was slow keeps it busy for longer than any other node.
        is_stuck = heavy_s > 0.0 and self._free_s - now_s > 2.0 * heavy_s
        return now_s - self.troubled_s if well and not is_stuck else -1.0

    def _beat(self):
        if self.alive:
            if not self.frozen and self.world.now_s >= self._deaf_until_s:
                self.connection.to_main(m.Heartbeat(len(self._clients)))
            self.world.at(HEARTBEAT_S, self._beat)

    def end(self, why):
        """Its process ends."""
        if not self.alive:
            return
        world = self.world
        self.alive = self.is_open = False
        world.note(self.name, "ends:", why)
        if world.running.get(self.name) is self:
            del world.running[self.name]
        if not self.connection.is_broken:
            self.connection.ended(at_once=self.same_host)
        for client in tuple(self._clients.values()):
            client.lose()
        world.relaunch(self.name)

    # Troubles.

    def suffer(self, kind, chance):
        """Something befalls it."""
        self.troubled_s = None
        if kind == "crash":
            self.end("it crashed")
        elif kind == "freeze":
            self.frozen = True
            self.world.at(chance.pick((0.1, 0.6, 1.5, 4.0, 60.0)), self._thaw)
        elif kind == "partition":
            self.connection.break_off(chance.pick((0.1, 2.0, None)))
            self.world.at(chance.between(0.05, 3.0), self.end, "it lost the main server")
        elif kind == "slow":
            self.slow = chance.pick((2.0, 8.0, 50.0))
            self.world.at(chance.pick((0.3, 3.0, 1000.0)), self._recover)
        elif kind == "lossy":
            self.connection.lossy = max(self.world.plan.lossy, 0.1)
            self.world.at(chance.pick((1.0, 5.0, 1000.0)), self._recover)
        elif kind == "confused":
            for _ in range(3):
                self.connection.to_main(m.Hello(self.name, VERSION, FINGERPRINT, "host", BOOT, 7, "host", 1, 2, 1))
        elif kind == "desync":
            self.lie = "state"

    def _thaw(self):
        if self.alive and self.frozen:
            self.frozen = False
            self._recover()
            deferred, self._deferred = self._deferred, []
            for call, arguments in deferred:
                call(*arguments)

    def _recover(self):
        self.slow, self.connection.lossy = 1.0, 0.0
        if self.alive and not self.lie and not self.frozen:
            self.troubled_s = self.world.now_s

    # What it is told.

    def receive(self, message, bulk):  # noqa: PLR0912, PLR0915 - one branch per message
        if not self.alive or self.connection.is_broken:
            return
        if self.frozen:
            self._deferred.append((self.receive, (message, bulk)))
            return
        match message:
            case m.TickMessage():
                self._tick(message, bulk[0], bulk[1])
            case m.StreamData() if message.held:
                payload = self._held.pop((message.held, message.frame, message.stream), None)
                what = f"frame {message.frame} of sensor {message.stream}"
                check(payload is not None or not message.lossless, f"{self.name} is to give out {what}, and does not hold it")
                if payload is not None:
                    self.deliver(message.stream, payload, message.frame)
            case m.StreamData():
                (payload,) = bulk
                if isinstance(payload, ArenaPart):
                    lent, payload = payload, payload.read()
                    lent.lease.release()
                self.deliver(message.stream, payload, message.frame)
            case m.CallResult():
                client = self._clients.get(message.client)
                if client is not None:
                    client.on_answer(self, message.id, bulk[0])
            case m.NewSettings():
                self.knows = msgpack.unpackb(message.settings)[1]
            case m.NewEpisode():
                builds_s = self.world.plan.builds_s * self.world.chance["nodes"].between(0.5, 1.5)
                loads_s = self.world.plan.slow_map_s if message.episode > 1 else 0.0
                self._render(builds_s + loads_s, self._built, message)
            case m.Sync():
                self.connection.to_main(m.Synced(message.number))
            case m.LatestState():
                self._last_frame = message.frame
            case m.ExpectListener():
                if message.stream in self.expected:
                    self.heard[message.stream] = self.expected[message.stream]
                    self.delivered[message.stream] = max(message.frame, self.delivered.get(message.stream, 0))
            case m.StreamClosed():
                self.expected.pop(message.stream, None)
                self.heard.pop(message.stream, None)
                self.delivered.pop(message.stream, None)
            case m.Welcome():
                self.number, self.membership = message.number, message.membership
            case m.Neighbour():
                self._neighbours[message.number] = message.membership, message.endpoint.encode()
            case m.NeighbourGone():
                self._neighbours.pop(message.number, None)
            case m.Resend():
                for answer, frames in tuple(self._sent):
                    if answer.frame == message.frame:
                        self.connection.to_main(answer, frames)
            case m.Joined():
                self.is_open = True
            case m.Refused() | m.Leave():
                self.end(message.why)

    def _render(self, work_s, call, *arguments):
        """In the render thread: behind everything that was put there before."""
        self._free_s = max(self._free_s, self.world.now_s) + work_s
        self.world.at_time(self._free_s, self._do, call, arguments)

    def _do(self, call, arguments):
        if not self.alive:
            return
        if self.frozen:
            self._deferred.append((self._do, (call, arguments)))
            return
        call(*arguments)

    def _built(self, message):
        self._map = message.map_digest
        if not self.is_open and self.world.chance["launches"].happens(0.03):
            # It is not wanted any more, just as it says that it is ready: the two messages pass each other.
            self.world.at(0.5 * self.world.plan.lag_s, self.world.drain, self.name)
        self.said_ready = message.episode
        built = "another map" if self.lie == "map" else message.map_digest
        picture = "another picture" if self.lie == "picture" else PICTURE
        self.connection.to_main(m.MapReady(message.episode, built, picture))

    def _tick(self, message, state, requests):
        if not message.again:
            gap = self._last_frame is not None and message.frame != self._last_frame + 1
            check(not gap or self.misses_ticks, f"{self.name} got tick {message.frame} after tick {self._last_frame}")
            for sensor, listener in self.heard.items() if message.lossless and self.lie != "state" else ():
                early = [frame for frame in listener.due if frame < message.frame]
                check(not early, f"frames {early} of sensor {sensor} did not come to {self.name} before tick {message.frame}")
            self._last_frame = message.frame
            first = message.frame if message.lossless else message.frame - TICKS_KEPT
            self._held = {key: payload for key, payload in self._held.items() if key[1] >= first}
        held = digest("wrong", state) if self.lie == "state" else state
        sensors = self._main.episode.sensors
        costs_s = [
            sensors[request.sensor].cost_s * self.speed * self.slow if request.sensor in sensors else 0.0
            for request in requests
        ]
        plan, key = self.world.plan, (message.frame, tuple(request.sensor for request in requests))
        if requests and key in self._waiting:
            return
        self._waiting.add(key)
        heavy = min(sensors, default=0) if plan.heavy_s and message.frame == plan.heavy_tick else 0
        costs_s = [
            cost_s + (plan.heavy_s * self.speed * self.slow if request.sensor == heavy else 0.0)
            for request, cost_s in zip(requests, costs_s, strict=True)
        ]
        self._render(sum(costs_s) + 0.0003, self._drew, message, held, requests, costs_s)
        if plan.deaf and max(costs_s, default=0.0) > plan.heavy_s > 0.0:
            self._deaf_until_s = self._free_s

    def _drew(self, message, held, requests, costs_s):
        self._waiting.discard((message.frame, tuple(request.sensor for request in requests)))
        results, bulk, own = [], [], []
        whole, whole_bulk, direct = [], [], {}
        for request, homes, cost_s in zip(requests, message.listeners, costs_s, strict=True):
            payload, memory, error = measured(self._map, held, request)
            others = [home for home in homes if home != self.number] if payload else []
            sent_to = tuple(home for home in others if home in self._neighbours)
            for home in sent_to:
                direct.setdefault(home, []).append((request.sensor, request.stream, payload))
            has_payload = len(sent_to) < len(others)
            if has_payload:  # to another host it goes over the wire
                bulk.append(self._arena.put(payload) if self.same_host else payload)
            bulk += [memory] if memory else []
            whole_bulk += [*([payload] if others else []), *([memory] if memory else [])]
            if payload and self.number in homes:
                own.append((request.stream, payload))
            said = request.sensor, error, bool(memory), cost_s if message.timed else 0.0
            results.append(m.SensorResult(said[0], has_payload, *said[1:], sent_to))
            whole.append(m.SensorResult(said[0], bool(others), *said[1:]))
        digest_said = b"" if self.lie == "state" and self._hides else digest("tick", held)
        answer = m.TickResult(message.frame, digest_said, sum(costs_s), tuple(results))
        if direct:
            self._sent.append((m.TickResult(message.frame, digest_said, sum(costs_s), tuple(whole)), tuple(whole_bulk)))
        self.hand_out(answer, tuple(bulk), own, direct)

    def hand_out(self, answer, bulk, own, direct):
        """Own clients first: once the main server has the result, the next tick's state may be here before their frames."""
        for sensor, payload in own:
            self.deliver(sensor, payload, answer.frame)
        for home, frames in direct.items():
            self._send_over(home, answer.frame, frames)
        self.connection.to_main(answer, bulk)

    def _send_over(self, home, frame, frames):
        """From node to node: at its own pace, or never."""
        world, plan = self.world, self.world.plan
        chance = world.chance["ways"]
        other = world.peers[self._neighbours[home][1]]
        if not self.connection.is_broken and not other.connection.is_broken and not chance.happens(plan.lost_ways):
            delay_s = plan.lag_s * chance.between(0.1, 3.0) if chance.happens(0.95) else chance.between(0.0, 2.0)
            world.at(delay_s, other.hold, self.membership, frame, frames)

    def hold(self, sender, frame, frames):
        """Frames have come from another node: they are held until the main server says what is to become of them."""
        if not self.alive:
            return
        if self.frozen:
            self._deferred.append((self.hold, (sender, frame, frames)))
            return
        if sender in [membership for membership, _ in self._neighbours.values()]:
            for _, stream, payload in frames:
                self._held[sender, frame, stream] = payload
            self.connection.to_main(m.FramesHeld(sender, frame, tuple(sensor for sensor, _, _ in frames)))

    def deliver(self, sensor, payload, frame):
        listener = self.heard.get(sensor)
        if listener is None or frame <= self.delivered.get(sensor, 0):
            return
        self.delivered[sensor] = frame
        # What a node draws of another state its own clients may see until it is found out, with its first result.
        if self._main.alive and self.lie != "state":
            self._main.check_frame(listener, sensor, frame, payload, self.name)

    # Its clients.

    def let_in(self, client):
        number, self._next_client = self._next_client, self._next_client + 1
        self._clients[number] = client
        return number

    def forward(self, number, raw):
        if self.alive:
            if self.frozen:
                self._deferred.append((self.forward, (number, raw)))
            else:
                self.connection.to_main(m.ClientCall(number, self.world.now_s), (raw,))

    def part_with(self, number):
        if self._clients.pop(number, None) is not None and self.alive:
            self._do(self.connection.to_main, (m.ClientGone(number),))

    def send_clients_away(self):
        """It is drained, and its clients look for another place."""
        for number, client in tuple(self._clients.items()):
            self.part_with(number)
            client.lose()

    def unlisten(self, chance):
        """Some listener has had enough."""
        if self.heard and not self.frozen:
            sensor = chance.pick(sorted(self.heard))
            del self.heard[sensor], self.expected[sensor]
            self.delivered.pop(sensor, None)
            self.connection.to_main(m.StreamUnused(sensor))


class Client:
    """Calls by ticket through any place, one after the other, and again through another one when it loses its place."""

    def __init__(self, world, number):
        self.world, self.number = world, number
        self.chance = Chance(world.seed, "client", number)
        self.home, self._node, self._place = None, None, 0
        self.wishes = deque()
        self._life = 0
        self._renew()

    def _renew(self):
        """Another client, as far as anybody can tell: a new id, and tickets from 1 on."""
        self._life += 1
        self.id = digest(self.world.seed, "id", self.number, self._life).hex() * 2
        self._ticket, self._call, self._result = 0, None, None

    def connect(self, tries=0):
        """Choose a place: the main server, or a node that has opened its ports, for which it may wait a while."""
        world = self.world
        if not world.main.alive:
            world.at(0.2, self.connect)
            return
        nodes = [
            node for _, node in sorted(world.running.items()) if node.is_open and node.name in world.placed and not node.frozen
        ]
        if not nodes and tries < 10 and self.chance.happens(0.8):
            world.at(self.chance.between(0.05, 0.8), self.connect, tries + 1)
            return
        self._node = self.chance.pick(nodes) if nodes and self.chance.happens(0.8) else None
        if self._node is not None:
            self.home, self._place = self._node.name, self._node.let_in(self)
        else:
            self.home = MAIN
        sensors = sorted(world.main.episode.sensors)
        self.wishes.extend(("listen", self.chance.pick(sensors)) for _ in sensors[: self.chance.below(4)])
        if self._call is not None:
            self._send()
        else:
            self._go_on()

    def lose(self):
        """The connection is gone; what was not answered is sent again elsewhere."""
        if self.home is not None:
            self.home = self._node = None
            self.world.at(self.chance.between(0.02, 1.0), self.connect)

    def _go_on(self):
        world = self.world
        if world.is_done():
            return
        self._ticket += 1
        self._call = [self.id, self._ticket, *self._wish()]
        self._send()

    def _wish(self):  # noqa: PLR0911 - one return per wish
        """What to ask for next; the first client drives, and begins with sensors and a listener for each."""
        episode, chance = self.world.main.episode, self.chance
        if self.wishes:
            return self.wishes.popleft()
        sensors = sorted(episode.sensors)
        if self.number == 0 and len(sensors) < self.world.plan.sensors:
            kind = chance.pick(("camera", "camera", "lidar", "events", "events", "broken" if chance.happens(0.1) else "camera"))
            size_bytes = chance.pick((1000, 1000, 1000, 100 << 20))
            if chance.happens(0.7):
                self.wishes.append(("listen", episode.next_id))
            return "spawn", [kind, chance.pick((1, 1, 1, 2, 3)), chance.between(0.001, 0.02), size_bytes]
        fate = chance.unit()
        if sensors and fate < (0.15 if self.number == 0 else 0.7):
            return "listen", chance.pick(sensors)
        if fate < (0.2 if self.number == 0 else 0.85):
            return "settings", None
        if fate < 0.22 and sensors and self.number == 0:
            return "destroy", chance.pick(sensors)
        if fate < 0.24 and self.world.plan.real_time:
            return "mode", not episode.lockstep
        return ("tick", None) if self.number == 0 else ("look", None)

    def _send(self):
        raw = msgpack.packb(self._call)
        if self.home == MAIN and self._node is None:
            self.world.at(0.0005, self._reach_main, self.world.main, raw)
        else:
            self.world.at(0.0005, self._node.forward, self._place, raw)

    def _reach_main(self, main, raw):
        if main.alive:
            main.work.append(("call", (MAIN, self.number), raw))

    def on_answer(self, place, number, outcome):
        """An answer has come; one to a call of before the last loss of connection is as good."""
        if not place.alive or self._call is None or number != self._call[1]:
            return
        world = self.world
        if outcome.status is Status.FAILED:
            lost = world.lost_power_s and not world.plan.durable
            check(lost, f"a call that was never made is refused: {outcome.error}")
            self._renew()
        else:
            ticket = TicketId(self.id, number)
            known = world.answered.get(ticket)
            check(known is None or known[0] == outcome.result, f"{ticket} was answered twice, and not alike")
            check(outcome.status is Status.SUCCESS, f"{ticket} was answered with {outcome.status}")
            world.answered.setdefault(ticket, (outcome.result, world.now_s))
            self._call = None
        think_s = self.chance.between(0.0, 0.02) if self.number == 0 else self.chance.between(0.005, 0.2)
        if self._node is not None and self._call is None and self.chance.happens(0.02):  # it moves elsewhere
            self._node.part_with(self._place)
            self.lose()
        if self.home is not None and self._call is None:
            world.at(think_s, self._think, self._life)

    def _think(self, life):
        if self.home is not None and self._call is None and life == self._life:
            self._go_on()
