"""Connection, episode, settings, time, the registry of traffic managers; and calls by ticket, a family of our own."""

from typing import TYPE_CHECKING, Final

from samepath.simulator.carla import blueprints
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import CallError, WireError, came, flag, pack, struct_of, text, u16, u32
from samepath.simulator.carla.records import VehicleControl
from samepath.simulator.carla.streams import GBUFFERS_BIT, GBUFFERS_COUNT, WORLD_STREAM, gbuffer_number
from samepath.simulator.carla.tickets import CallOutcome, Status, TicketId, client_id, number, packed
from samepath.simulator.server.actors import VehicleEntry
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.maps import SENT, requested_file, required_files, shown_path
from samepath.simulator.server.methods.table import VOID, Table
from samepath.simulator.server.rendering import COLOUR
from samepath.simulator.server.rpc import MalformedCallError, Sender, checked_call, parse
from samepath.simulator.server.sensors import SensorEntry
from samepath.simulator.server.ticking import LONGEST_STEP_S, SHORTEST_STEP_S, SHORTEST_SUBSTEP_S, prepare, step_of, tick

if TYPE_CHECKING:
    from samepath.simulator.server.commands import MapReceived

TABLE: Final = Table()
VERSION: Final = "0.9.16"

_address: Final = struct_of(lambda host, port: (host, port), text, u16)


def _pace(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and (value == 0 or 0.01 <= value <= 1.0):
        return float(value)
    raise WireError(f"a pace of 0, or from 0.01 to 1, was wanted, but {came(value)} came")


@TABLE.query(quick=True)
def version(_: Episode) -> str:
    """CARLA's version that we speak."""
    return VERSION


@TABLE.query(quick=True)
def get_available_maps(episode: Episode) -> tuple[str, ...]:
    """All maps."""
    return episode.context.maps.paths()


@TABLE.query(sender=True)
def get_episode_info(episode: Episode, sender: Sender) -> tuple[object, ...]:
    """The episode and the token of its state.

    CARLA answers a load before it has begun, so who loads a map and asks is told of the episode before. CARLA's client counts
    on it: when it then sees the id change it resets its traffic managers, which otherwise go on by the map before.
    """
    before = episode.connections.loaded_from(sender.caller)
    return episode.id if before is None else before, (episode.token(WORLD_STREAM, sender),)


@TABLE.value(u32, sender=True)
def get_sensor_token(episode: Episode, sender: Sender, stream_id: int) -> tuple[bytes]:
    """The token of a stream; from now on its messages are kept until the listener arrives."""
    if stream_id == WORLD_STREAM and episode.connections.listens_anew(sender.caller):
        episode.map_changed = True  # the state that said so may have gone to its listener of before
        prepare(episode)
    if stream_id != WORLD_STREAM and any(entry.stream_id == stream_id for entry in episode.actors.all(SensorEntry)):
        episode.connections.subscriptions.add(stream_id, sender.home)
        episode.context.outbox.expect(stream_id, sender.home)
    return (episode.token(stream_id, sender),)


@TABLE.value(u32, u32, sender=True)
def get_gbuffer_token(episode: Episode, sender: Sender, actor_id: int, gbuffer: int) -> bytes:
    """The token of the stream of a camera's G-buffer. CARLA's client asks for it also to stop listening."""
    entry = episode.actors.get(actor_id, SensorEntry, "a sensor")
    if entry.type_id != COLOUR:
        raise CallError(f"actor {actor_id} is a {entry.type_id}: only {COLOUR} has G-buffers")
    if gbuffer >= GBUFFERS_COUNT:
        raise CallError(f"a G-buffer below {GBUFFERS_COUNT} was wanted, but {gbuffer} came")
    if max(episode.next_stream_id, episode.next_actor_id) >= 1 << GBUFFERS_BIT:
        raise CallError("there were too many actors for G-buffers: load the map anew")
    stream_id, subscriptions = gbuffer_number(entry.stream_id, gbuffer), episode.connections.subscriptions
    if sender.home not in subscriptions.homes(stream_id):
        subscriptions.add(stream_id, sender.home)
        episode.context.outbox.expect(stream_id, sender.home)
    return episode.token(stream_id, sender)


@TABLE.void(u32, flag, idle="a G-buffer is drawn for whoever listens to it")
def enable_gbuffers(_: Episode, actor_id: int, enabled: bool) -> None:
    pass


@TABLE.query(u32)
def are_gbuffers_enabled(episode: Episode, actor_id: int) -> bool:
    """Has an actor G-buffers?"""
    entry = episode.actors.find(actor_id)
    return isinstance(entry, SensorEntry) and entry.type_id == COLOUR


@TABLE.query(quick=True)
def get_episode_settings(episode: Episode) -> tuple[object, ...]:
    """The settings."""
    return r.write_settings(episode.settings)


@TABLE.value(r.settings)
def set_episode_settings(episode: Episode, settings: r.Settings) -> int:
    """Change the settings from the next tick on."""
    step_s = settings.fixed_delta_seconds
    if step_s and not SHORTEST_STEP_S <= step_s <= LONGEST_STEP_S:
        wanted = f"none, or a step of at least {SHORTEST_STEP_S:g} and at most {LONGEST_STEP_S:g} s"
        raise CallError(f"fixed_delta_seconds: expected {wanted}, got {step_s:g}")
    substep_s = settings.max_substep_delta_time
    if substep_s < SHORTEST_SUBSTEP_S:
        wanted = f"at least {SHORTEST_SUBSTEP_S:g} s"
        raise CallError(f"substepping: max_substep_delta_time: expected {wanted}, got {substep_s:g}")
    if settings.max_substeps < 1:
        raise CallError(f"substepping: max_substeps: expected at least 1, got {settings.max_substeps}")
    if settings.synchronous_mode != episode.settings.synchronous_mode:
        episode.context.log(f"time: {'synchronous, ticks come from clients' if settings.synchronous_mode else 'real time'}")
        if settings.synchronous_mode and not episode.lights_set:
            # How long the world ran by itself before must not matter from now on.
            episode.signals.reset_all()
    # A step of 0 is CARLA's way to say: none.
    episode.settings = settings._replace(fixed_delta_seconds=step_s or None)
    return episode.frame


@TABLE.value()
def tick_cue(episode: Episode) -> int:
    """Tick, and answer with the frame to wait for; in real time the next tick comes by itself."""
    if not episode.settings.synchronous_mode:
        return episode.frame + 1
    tick(episode, step_of(episode))
    return episode.frame


@TABLE.void(text, flag, u16, sender=True)
def load_new_episode(episode: Episode, sender: Sender, name: str, reset: bool, layers: int) -> None:
    """Load a map; no name: the same one again."""
    before = episode.id
    episode.load(name or episode.map.name, reset_settings=reset, layers=layers)
    episode.context.log(f"map {episode.map.name} loaded: episode {episode.id}, {len(episode.map.spawn_points)} spawn points")
    episode.connections.has_loaded(sender.caller, before)
    prepare(episode)


@TABLE.aside(r.map_text, r.opendrive_parameters, shape=VOID)
def copy_opendrive_to_file(episode: Episode, xodr: str, _: r.OpenDriveParameters) -> "MapReceived":
    """Keep a client's map for the load that follows; nothing is written to a file."""
    from samepath.simulator.server.commands import MapReceived

    road_map = episode.context.maps.read(xodr)
    episode.context.log(f"a client sent a map of {len(xodr)} characters: {SENT}")
    return MapReceived(road_map)


@TABLE.query()
def get_map_info(episode: Episode) -> tuple[object, ...]:
    """The map's name and spawn points."""
    return shown_path(episode.map), episode.map.spawn_points


@TABLE.query()
def get_map_data(episode: Episode) -> str:
    """The map as OpenDRIVE."""
    return episode.map.road_map.xodr


@TABLE.query(text)
def get_required_files(episode: Episode, folder: str) -> tuple[str, ...]:
    """The files a client should fetch."""
    return required_files(episode.map, folder)


@TABLE.query(text)
def request_file(episode: Episode, name: str) -> bytes:
    """One of those files."""
    return requested_file(episode.map, episode.recent_maps, name)


@TABLE.query()
def get_navigation_mesh(episode: Episode) -> bytes:
    """The mesh for walkers."""
    return episode.map.navigation[1]


@TABLE.void(u16)
def load_map_layer(episode: Episode, layers: int) -> None:
    """Put parts of the scenery back."""
    _show(episode, layers, on=True)


@TABLE.void(u16)
def unload_map_layer(episode: Episode, layers: int) -> None:
    """Take parts of the scenery away."""
    _show(episode, layers, on=False)


def _show(episode: Episode, layers: int, *, on: bool) -> None:
    for bit, label in blueprints.LAYERS.items():
        if layers & bit:
            episode.show_label(label, on=on)


@TABLE.query(u16)
def is_traffic_manager_running(episode: Episode, port: int) -> bool:
    """Is a traffic manager registered for a port?"""
    return port in episode.connections.traffic_managers


@TABLE.query(u16)
def get_traffic_manager_running(episode: Episode, port: int) -> tuple[str, int]:
    """Where it runs."""
    found = episode.connections.traffic_managers.get(port)
    return ("", 0) if found is None else (found[0], port)


@TABLE.value(_address, sender=True)
def add_traffic_manager_running(episode: Episode, sender: Sender, address: tuple[str, int]) -> bool:
    """Register one; it is forgotten when the client that registered it goes."""
    host, port = address
    if (
        port in episode.connections.traffic_managers
        or len(episode.connections.traffic_managers) >= episode.context.limits.connections
    ):
        return False
    episode.connections.traffic_managers[port] = (host, sender.caller)
    return True


@TABLE.value(u16)
def destroy_traffic_manager(episode: Episode, port: int) -> bool:
    """Forget one."""
    return episode.connections.traffic_managers.pop(port, None) is not None


_REQUEST_HEAD: Final = b"\x94\x00\x00"


@TABLE.value(client_id, number, text, packed, sender=True)
def samepath_call(
    episode: Episode, sender: Sender, client: str, number: int, name: str, arguments: bytes
) -> tuple[object, ...]:
    """Call a method once; asked again, tell what came of it. ``arguments`` is packed as in a call without a ticket."""
    tickets = episode.tickets

    def run() -> CallOutcome:
        ranked = Sender(sender.caller, tickets.rank(client, sender.home, episode.frame))
        error, result = _attempt(episode, ranked, name, arguments)
        if error is not None:
            return CallOutcome(Status.FAILED, error, frame=episode.frame)
        return CallOutcome(Status.SUCCESS, result=result, frame=episode.frame)

    return tickets.do(TicketId(client, number), run).plain()


@TABLE.query(client_id, number, quick=True)
def samepath_ticket(episode: Episode, client: str, number: int) -> tuple[object, ...]:
    """How it stands with a call; it may be asked while the world is busy with it."""
    return episode.tickets.find(TicketId(client, number)).plain()


@TABLE.query(u32)
def samepath_control(episode: Episode, actor_id: int) -> VehicleControl:
    """A vehicle's pedals as they were last set; CARLA's own client reads them from the state."""
    return episode.actors.get(actor_id, VehicleEntry, "a vehicle").control


@TABLE.query(sender=True)
def samepath_watch(episode: Episode, sender: Sender) -> tuple[object, ...]:
    """For who looks on: do clients tick, at which pace does time pass, who else is connected, which streams are listened to."""
    connections = episode.connections
    others = tuple(name for caller, name in connections.callers.items() if caller != id(sender.caller))
    return episode.settings.synchronous_mode, connections.pace, others, tuple(connections.subscriptions)


@TABLE.void(_pace, u16, sender=True)
def samepath_pace(episode: Episode, sender: Sender, pace: float, steps: int) -> None:
    """Let time pass so much slower in a world that ticks by itself; at a pace of 0 it stands, and makes so many steps.

    When the client goes that asked for it, time passes as before.
    """
    if episode.settings.synchronous_mode:
        raise CallError("samepath_pace: in synchronous mode a client ticks this world, and it alone sets the pace")
    if steps and pace:
        raise CallError("samepath_pace: a world that stands was wanted for single steps, but its pace is to be above 0")
    connections = episode.connections
    if pace != connections.pace:
        episode.context.log(
            "time: stands still" if not pace else f"time: {pace:g} of its pace" if pace != 1.0 else "time: goes on"
        )
    connections.pace, connections.paced_by = pace, id(sender.caller)
    connections.steps_asked += steps


def _attempt(episode: Episode, sender: Sender, name: str, arguments: bytes) -> tuple[str | None, bytes]:
    """Do it, now and in this thread, also what is otherwise answered beside the world: order counts."""
    from samepath.simulator.server.commands import MapReceived, apply
    from samepath.simulator.server.methods import methods

    if name in (samepath_call.__name__, samepath_ticket.__name__):
        return f"{name} cannot be called by ticket", b""
    try:
        request = parse(_REQUEST_HEAD + pack(name) + arguments, episode.context.limits)
        call = checked_call(methods(), request, sender.caller, b"")
    except MalformedCallError as error:
        return f"{name}: its arguments are {error}", b""
    except WireError as error:
        return str(error), b""

    try:
        value = call.method.call(episode, sender, call.arguments)
        if isinstance(value, MapReceived):
            apply(episode, value)
        # Without CARLA's wrapping: whether it worked is said beside it.
        return None, pack(None if call.method.shape == VOID else value)
    except Exception as error:
        return call.method.words(error, episode.context.log), b""
