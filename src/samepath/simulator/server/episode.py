"""The world behind the wire: the map that is loaded, the world on it, its actors, settings and everything clients can set.

One thread owns an episode and does one thing after the other: calls in the order in which they arrived, and ticks between
them. Nothing in here knows sockets; what is to be sent goes through the :class:`Publisher`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from samepath.core.clock import SYSTEM_CLOCK, Clock
from samepath.core.errors import InputError
from samepath.core.states import Collision, Pose, Vector
from samepath.simulator.carla import blueprints
from samepath.simulator.carla.codec import CallError, stream_of, token
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.recorder import ReplayOptions
from samepath.simulator.carla.records import Actor, BoundingBox, Description, Settings, StreetLight, WeatherParameters
from samepath.simulator.carla.streams import FrameTime
from samepath.simulator.physics.engine import PhysicsSettings
from samepath.simulator.sensors.labels import ActorAppearance, Colour, Odometer, paint_of, usual_paint
from samepath.simulator.sensors.renderer import Lamp
from samepath.simulator.sensors.weather import SceneWeather, tyre_grip
from samepath.simulator.server.actors import ActorEntry, ActorRegistry, SignEntry, VehicleEntry, WalkerEntry
from samepath.simulator.server.debug import DebugShapes
from samepath.simulator.server.maps import MapLibrary, ServedMap, served_map
from samepath.simulator.server.rendering import LocalRenderer, SceneView, SensorRenderer
from samepath.simulator.server.rpc import Caller, Sender
from samepath.simulator.server.streams import MAIN_SERVER, Subscriptions
from samepath.simulator.server.tickets import TicketStore
from samepath.simulator.traffic.traffic import Traffic, TrafficSettings
from samepath.simulator.world.signals import PrioritySign, Signals, TrafficLight, actor_yaw_deg, sign_type, trigger_box
from samepath.simulator.world.world import World

if TYPE_CHECKING:
    from samepath.core.states import Pose
    from samepath.simulator.server.recorder import EpisodePlayer, EpisodeRecorder


# The lamps that clients can switch.
_LAMPS: Final = (Lamp.SPECIAL_2 << 1) - 1
_WEATHER_MOST: Final = 1e6

Places = tuple[tuple[int, "Pose"], ...]
# The step in synchronous mode where a client has not fixed one: the world must repeat itself, so the clock has no say.
DEFAULT_STEP_S: Final = 0.05
SPECTATOR: Final = "spectator"
_GRAVITY_MPS2: Final = 9.81
RECENT_MAPS: Final = 4
_SPECTATOR_UID: Final = 0


class Publisher(Protocol):
    """Where an episode puts what is to be sent."""

    def publish(self, stream_id: int, payload: bytes) -> None:
        """Send a message to all who listen to a stream."""
        ...

    def prepare(self, payload: bytes) -> None:
        """Keep a state for those who will listen; who listens already gets the next one."""
        ...

    def expect(self, stream_id: int, home: int) -> None:
        """Somebody will listen there: keep messages for them."""
        ...

    def forget(self, stream_id: int) -> None:
        """A stream will send nothing more."""
        ...


def no_check(_episode: Episode, _collisions: tuple[Collision, ...]) -> None:
    """Check nothing after a tick."""


@dataclass(frozen=True)
class EpisodeContext:
    """What is given to a server when it starts. ``on_command`` is told of every command for an actor, and its rank.

    ``weather_felt``: tyres and LiDARs feel the weather. ``before_step`` may push the world before physics steps: a server that
    is not to repeat itself, see ``--source``. ``after_tick`` checks every tick, see ``consistency.py``.
    """

    maps: MapLibrary
    outbox: Publisher
    data_folder: Path
    stream_port: int
    limits: ServerLimits
    log: Callable[[str], None]
    draw_debug: bool = False
    clock: Clock = SYSTEM_CLOCK
    renderer: SensorRenderer = field(default_factory=LocalRenderer)
    on_command: Callable[[int, int], None] = lambda _actor, _rank: None
    before_step: Callable[[World], None] = lambda _world: None
    traffic: TrafficSettings | None = None
    weather_felt: bool = False
    after_tick: Callable[[Episode, tuple[Collision, ...]], None] = no_check


@dataclass
class StreetLights:
    """The street lights as clients set them, and which clients have not yet been told."""

    states: dict[int, StreetLight] = field(default_factory=dict)
    told: dict[str, bool] = field(default_factory=dict)

    @property
    def is_news(self) -> bool:
        """Does some client not know the latest?"""
        return not all(self.told.values())

    def forget(self, client: str) -> None:
        """Drop a client that has disconnected: else all later states would carry the flag of news."""
        self.told.pop(client, None)


class ConnectionState:
    """What the episode knows of who is connected; it is gone when they are, and no snapshot brings it back to life.

    It belongs to the episode all the same, and changes by commands alone: which sensors measure depends on who listens, and so
    does what an event camera remembers.
    """

    def __init__(self) -> None:
        self.subscriptions = Subscriptions()
        self.traffic_managers: dict[int, tuple[str, Caller]] = {}  # by port: their host, and whose they are
        self.callers: dict[int, str] = {}  # who has called, by identity: the name, for people
        self._loading: dict[int, tuple[Caller, int | None]] = {}  # who has loaded a map; the episode before it
        # The latest maps, this one first: a client may fetch a file of one while another client loads the next.
        self.recent_maps: deque[ServedMap] = deque(maxlen=RECENT_MAPS)
        self.pace = 1.0  # how fast time passes where nobody else sets its pace; 0: the world stands, but for these steps
        self.steps_asked = 0
        self.paced_by: int | None = None  # who has set the pace, by identity
        self._names: dict[str, set[int]] = {}  # of clients as they call themselves: their callers, by identity

    def connect(self, caller: Caller) -> None:
        """A client calls; at its first call it is new."""
        if id(caller) not in self.callers:
            self.callers[id(caller)] = str(getattr(caller, "name", "") or f"a client of node {caller.home}")

    def has_loaded(self, caller: Caller, before: int) -> None:
        """A client has loaded a map; ``before`` is the episode until then."""
        self._loading[id(caller)] = caller, before

    def loaded_from(self, caller: Caller) -> int | None:
        """The episode before the one that a client has loaded; told once, since some ask until it is another."""
        before = self._loading.get(id(caller), (caller, None))[1]
        if before is not None:
            self._loading[id(caller)] = caller, None
        return before

    def listens_anew(self, caller: Caller) -> bool:
        """A client asks where states come from; has it loaded a map since it last did?"""
        return self._loading.pop(id(caller), None) is not None

    def name(self, caller: Caller, name: str) -> None:
        """Note the name that a client gives; several clients may give the same one."""
        self._names.setdefault(name, set()).add(id(caller))

    def forget_name(self, name: str) -> None:
        """Drop a name, of whichever clients."""
        self._names.pop(name, None)

    def disconnect(self, caller: Caller) -> tuple[str, ...]:
        """A client has gone, and its traffic managers with it; returns the names that no other client has."""
        self.callers.pop(id(caller), None)
        self._loading.pop(id(caller), None)
        if self.paced_by == id(caller):  # or the world would stand for ever
            self.pace, self.paced_by = 1.0, None
        for port in [port for port, (_, owner) in self.traffic_managers.items() if owner is caller]:
            del self.traffic_managers[port]
        gone = tuple(name for name, callers in self._names.items() if callers == {id(caller)})
        self._names = {name: callers - {id(caller)} for name, callers in self._names.items() if name not in gone}
        return gone

    def clear(self) -> None:
        """All clients have gone, as they do when a server dies."""
        self.traffic_managers.clear()
        self.callers.clear()
        self._loading.clear()
        self._names.clear()
        self.pace, self.paced_by, self.steps_asked = 1.0, None, 0
        self.subscriptions = Subscriptions()


def scene_weather(weather: WeatherParameters) -> SceneWeather:
    """The weather as sensors take it; numbers that no weather has are at their bounds."""
    return SceneWeather(*(min(max(value, -_WEATHER_MOST), _WEATHER_MOST) for value in weather))


class Episode:
    """Everything there is between two loads of a map, and what outlives them: frames, ids, settings.

    It is the state of the world, which a snapshot holds, and in ``connections`` who is connected. Both change by commands
    (``commands.py``) and ticks; nobody else sets anything in here.
    """

    def __init__(self, context: EpisodeContext, map_name: str) -> None:
        self.context = context
        self.settings = Settings()
        self.frame = 1
        self.id = 0
        self.overruled = 0  # commands that another one of the same tick stood above
        self.rehearsed = False  # what happens has happened before: files hold it already
        self.next_actor_id = 1
        self.next_stream_id = 2
        self.connections = ConnectionState()
        self.tickets = TicketStore(context.limits)
        self.gravity_mps2 = _GRAVITY_MPS2
        self.replaying = ReplayOptions()
        self.recorder: EpisodeRecorder | None = None
        self.recordings: list[str] = []  # names of all that were begun and may be on disk
        self.player: EpisodePlayer | None = None
        self.actors = ActorRegistry()
        self.viewer = ViewBuilder(self)
        self.load(map_name, reset_settings=True, layers=blueprints.ALL_LAYERS)

    def load(self, map_name: str, *, reset_settings: bool, layers: int) -> None:
        """Begin a new episode on a map; actors are gone, frames and ids go on."""
        shown, road_map = self.context.maps.open(map_name)
        self.end_recording()
        self.player = None
        for entry in self.actors:
            if entry.stream_id:
                self.context.outbox.forget(entry.stream_id)
        served = served_map(shown, road_map, walk_anywhere=self.context.maps.walk_anywhere)
        served.work_out()
        self.world = World(PhysicsSettings(step_s=DEFAULT_STEP_S), served.statics, place=road_map.name)
        self.map = served
        self.viewer = ViewBuilder(self)
        self.id += 1
        self.elapsed_s = 0.0
        self.delta_s = 0.0
        self.map_changed = True
        self.first_actor_id = self.next_actor_id
        self.first_tick = 0  # of the world, from which rain is counted
        self.actors = ActorRegistry()
        self.connections.subscriptions = Subscriptions()
        self.connections.recent_maps.appendleft(served)
        self.ranks: dict[int, int] = {}  # who has commanded an actor since the last tick
        self.signals = Signals(served.signals)
        self.traffic: Traffic | None = None
        self.traffic_due = self.context.traffic is not None  # comes with the first tick that counts
        self.lights_set = False  # by a client
        self.weather = WeatherParameters()
        self.lamps = StreetLights({light.id: light for light in served.lamps})
        self.debug = DebugShapes(self.context.limits.debug_shapes, self.context.limits.debug_text_characters)
        self.hidden: set[int] = set()
        if reset_settings:
            self.settings = Settings()
        self._put_signs()
        self.spectator = self._put_spectator()
        for bit, label in blueprints.LAYERS.items():
            if not layers & bit:
                self.show_label(label, on=False)

    def set_weather(self, weather: WeatherParameters) -> None:
        """Change the weather: cameras see it, and where it is felt, roads are as wet as it says."""
        self.weather = weather
        if self.context.weather_felt:
            self.world.set_grip(tyre_grip(scene_weather(weather)))

    @property
    def recent_maps(self) -> Iterable[ServedMap]:
        """The maps that were loaded last; clients may still ask for their files."""
        return self.connections.recent_maps

    @property
    def moment(self) -> FrameTime:
        """Now."""
        return FrameTime(self.frame, self.elapsed_s)

    def advance(self, step_s: float, sent_s: float) -> None:
        """Time has passed: ``step_s`` for physics, ``sent_s`` as clients are told (32 bits)."""
        self.frame += 1
        self.delta_s = step_s
        self.elapsed_s += sent_s

    def state_sent(self) -> None:
        """Clients have been told of everything that is new."""
        self.map_changed = False

    def end_recording(self) -> None:
        """Close the recording, if there is one."""
        if self.recorder is not None:
            self.recorder.close()
            self.recorder = None

    def go_live(self, context: EpisodeContext) -> None:
        """End the rehearsal of an episode: what happens from now on is sent and written. Nobody is connected."""
        self.context, self.rehearsed = context, False
        self.connections.clear()

    def token(self, stream_id: int, sender: Sender) -> bytes:
        """The token of a stream for whoever is calling."""
        port = sender.caller.stream_port
        return token(stream_id, self.context.stream_port if port is None else port)

    def shown(self, record: Actor, sender: Sender) -> Actor:
        """An actor as whoever is calling is to know it: with the port at which they fetch its stream."""
        if not record.stream_token or sender.caller.stream_port is None:
            return record
        return record._replace(stream_token=self.token(stream_of(record.stream_token), sender))

    def obeys(self, actor_id: int, sender: Sender) -> bool:
        """Does an actor take a command of whoever is calling?

        Of the commands between two ticks those that came through the node with the highest number stand above the others,
        whichever came first; among those of one node the last one counts.
        """
        self.context.on_command(actor_id, sender.rank)
        if sender.rank < self.ranks.get(actor_id, MAIN_SERVER):
            self.overruled += 1
            return False
        if sender.rank:
            self.ranks[actor_id] = sender.rank
        return True

    def count_anew(self) -> None:
        """Number actors and ticks as in a new episode; only the map's own actors are left, which come first.

        Chance, paint and rain depend on these numbers. A client must get the same ones whether or not an earlier client had
        actors here.
        """
        self.first_actor_id = self.next_actor_id - len(self.actors)
        self.first_tick = self.world.tick_count

    def ordinal(self, actor_id: int) -> int:
        """Return the number of an actor in its episode, from 0; it names the chance of a sensor."""
        return actor_id - self.first_actor_id

    def new_actor_id(self) -> int:
        """The next id; ids are never used twice while the server lives."""
        number, self.next_actor_id = self.next_actor_id, self.next_actor_id + 1
        return number

    def new_stream_id(self) -> int:
        """The next stream."""
        number, self.next_stream_id = self.next_stream_id, self.next_stream_id + 1
        return number

    def _put_signs(self) -> None:
        plan = self.map.signals
        lights = {light.signal.id: number for number, light in enumerate(plan.lights)}
        heeded: tuple[TrafficLight | PrioritySign, ...] = (*plan.lights, *plan.signs)
        by_signal = {thing.signal: thing for thing in heeded}
        for signal in self.map.road_map.signals:
            number = self.new_actor_id()
            kind, light = sign_type(signal), lights.get(signal.id)
            box, yaw_deg, thing = BoundingBox(), signal.yaw_deg, by_signal.get(signal)
            if thing is not None:
                middle, half = trigger_box(thing)
                box, yaw_deg = BoundingBox(Vector(*middle), Vector(*half)), actor_yaw_deg(thing)
            tag = blueprints.TRAFFIC_LIGHT if light is not None else blueprints.TRAFFIC_SIGNS
            record = Actor(number, 0, Description(0, kind), box, bytes([tag]), b"")
            pose = Pose(signal.x_m, signal.y_m, signal.z_m, yaw_deg=yaw_deg)
            self.actors.add(SignEntry(record, None, pose, signal_id=signal.id, light=light))

    def _put_spectator(self) -> ActorEntry:
        record = Actor(self.new_actor_id(), 0, Description(_SPECTATOR_UID, SPECTATOR), BoundingBox(), b"", b"")
        entry = ActorEntry(record, None, self.map.spectator_pose)
        self.actors.add(entry)
        return entry

    def pose(self, entry: ActorEntry) -> Pose:
        """Where an actor is now."""
        return self.world.state(entry.id).pose if entry.has_body else entry.pose

    def body(self, actor_id: int) -> ActorEntry:
        """An actor that physics knows."""
        entry = self.actors.get(actor_id, ActorEntry, "an actor")
        if not entry.has_body:
            raise CallError(f"actor {actor_id} is a {entry.type_id}: it has no body to move")
        return entry

    def actor(self, actor_id: int) -> Actor:
        """An actor as clients know it; one that is gone is nobody."""
        entry = self.actors.find(actor_id)
        return entry.record if entry is not None else self.scenery("")

    def scenery(self, name: str) -> Actor:
        """A piece of scenery as events name it: an actor without an id."""
        label = self.map.label_of(name)
        return Actor(0, 0, Description(0, blueprints.word_of(label)), BoundingBox(), bytes([label]), b"")

    def show_label(self, label: int, *, on: bool) -> None:
        """Put all scenery of a label back, or take it away."""
        self.show_objects({thing.id for thing in self.map.objects if thing.label == label}, on=on)

    def show_objects(self, ids: set[int], *, on: bool) -> None:
        """Put pieces of scenery back, or take them away; what has no body merely counts as hidden."""
        known = {thing.id: thing.name for thing in self.map.objects if thing.id in ids}
        self.hidden = self.hidden - set(known) if on else self.hidden | set(known)
        solid = frozenset(mesh.name for mesh in self.map.statics if not mesh.ground)
        names = frozenset(known.values()) & solid
        if names:
            self.world.show_scenery(names, on=on)


class ViewBuilder:
    """Builds the :class:`SceneView` of each tick: everything there is to see, as plain data.

    It remembers two things from tick to tick: how far walkers have walked (their legs swing with it), and where bodies were in
    the last tick that anybody looked at (optical flow is motion since then).
    """

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._odometer = Odometer()
        self._seen: tuple[int, Places] | None = None
        self._past: Places | None = None

    def follow(self) -> None:
        """Follow a tick: walkers have walked on."""
        world = self._episode.world
        self._odometer.advance(world.state(walker.id) for walker in self._episode.actors.all(WalkerEntry))
        frame = self._episode.frame
        self._past = self._seen[1] if self._seen is not None and self._seen[0] == frame - 1 else None

    def walked_m(self, actor_id: int) -> float | None:
        """How far a walker has walked; None while it stands."""
        return self._odometer.walked_m(self._episode.world.state(actor_id))

    def mark_seen(self) -> None:
        """Somebody looks at this tick: where things are now is what they will have moved from in the next one."""
        episode = self._episode
        if self._seen is None or self._seen[0] != episode.frame:
            bodies = [entry.id for entry in episode.actors if entry.has_body]
            self._seen = (episode.frame, tuple((number, episode.world.state(number).pose) for number in bodies))

    def view(self) -> SceneView:
        """Everything as it is after this tick; if the tick before was looked at, with where things were then."""
        episode = self._episode
        bodies = [entry for entry in episode.actors if entry.has_body]
        return SceneView(
            episode=episode.id,
            frame=episode.frame,
            # Not the frame: how long a server stood idle leaves no trace.
            tick=episode.world.tick_count - episode.first_tick,
            looks=tuple(self._look(entry) for entry in bodies),
            velocities=tuple(episode.world.state(entry.id).velocity_mps for entry in bodies),
            weather=scene_weather(episode.weather),
            lights=tuple(int(episode.signals.shows(number)) for number in range(len(episode.map.signals.lights))),
            hidden=self._hidden(),
            past=self._past,
            shapes=episode.debug.shapes if episode.context.draw_debug else (),
        )

    def _hidden(self) -> tuple[str, ...]:
        """What clients have taken away, by the names of the street; there a tree is one thing, and goes with its crown."""
        hidden = self._episode.hidden
        if not hidden:
            return ()
        return tuple(sorted({thing.name.removesuffix(" crown") for thing in self._episode.map.objects if thing.id in hidden}))

    def _look(self, entry: ActorEntry) -> ActorAppearance:
        state = self._episode.world.state(entry.id)
        body = entry.blueprint.body if entry.blueprint is not None else entry.type_id
        lamps = Lamp(entry.lights & _LAMPS) if isinstance(entry, VehicleEntry) else Lamp(0)
        walked_m = self._odometer.walked_m(state) if isinstance(entry, WalkerEntry) else None
        return ActorAppearance(entry.id, body, state.pose, self._paint(entry), lamps, walked_m)

    def _paint(self, entry: ActorEntry) -> Colour:
        """The colour a client has chosen; without one, the default of the actor's number in the episode."""
        try:
            return paint_of(entry.record.description.get("color", ""))
        except InputError:
            return usual_paint(self._episode.ordinal(entry.id) + 1)  # ids begin with 1

    def state(self) -> list[Any]:
        """Everything the future depends on, as plain data."""
        seen = None if self._seen is None else [self._seen[0], [[number, list(pose)] for number, pose in self._seen[1]]]
        return [self._odometer.state(), seen]

    def restore(self, data: list[Any]) -> None:
        """Take up what :meth:`state` gave."""
        from samepath.core.states import Pose

        walked, seen = data
        self._odometer = Odometer.restore(walked)
        self._seen = None if seen is None else (seen[0], tuple((number, Pose(*pose)) for number, pose in seen[1]))
