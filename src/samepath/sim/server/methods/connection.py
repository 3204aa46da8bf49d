"""Connection, episode, settings, time, and the registry of traffic managers."""

from typing import Final

from samepath.sim.server import labels
from samepath.sim.server import records as r
from samepath.sim.server.atlas import SENT, shown_path
from samepath.sim.server.codec import flag, long_text, struct_of, text, u16, u32
from samepath.sim.server.episode import Episode
from samepath.sim.server.errors import CallError
from samepath.sim.server.files import requested_file, required_files
from samepath.sim.server.frames import WORLD_STREAM
from samepath.sim.server.methods.table import VOID, Table
from samepath.sim.server.sensing import SensorEntry
from samepath.sim.server.ticking import prepare, step_of, tick

TABLE: Final = Table()
VERSION: Final = "0.9.16"

_address: Final = struct_of(lambda host, port: (host, port), text, u16)


@TABLE.value(quick=True)
def version(_: Episode) -> str:
    """CARLA's version that we speak."""
    return VERSION


@TABLE.value(quick=True)
def get_available_maps(episode: Episode) -> tuple[str, ...]:
    """All maps."""
    return episode.place.atlas.paths()


@TABLE.value()
def get_episode_info(episode: Episode) -> tuple[object, ...]:
    """The episode and the token of its state."""
    return episode.id, (episode.token(WORLD_STREAM),)


@TABLE.value(u32)
def get_sensor_token(episode: Episode, stream_id: int) -> tuple[bytes]:
    """The token of a stream; from now on its messages are kept until the listener arrives."""
    if stream_id != WORLD_STREAM and any(one.stream_id == stream_id for one in episode.actors.all(SensorEntry)):
        episode.listened.add(stream_id, episode.caller.home)
        episode.place.outbox.expect(stream_id, episode.caller.home)
    return (episode.token(stream_id),)


@TABLE.value(quick=True)
def get_episode_settings(episode: Episode) -> tuple[object, ...]:
    """The settings."""
    return r.write_settings(episode.settings)


@TABLE.value(r.settings)
def set_episode_settings(episode: Episode, settings: r.Settings) -> int:
    """Change the settings from the next tick on."""
    step_s = settings.fixed_delta_seconds
    if step_s is not None and not 0.0 <= step_s <= 1.0:
        raise CallError(f"fixed_delta_seconds: a step of at most 1 s was wanted, but {step_s:g} came")
    if not (settings.max_substep_delta_time > 0.0 and settings.max_substeps >= 1):
        raise CallError("substepping: max_substep_delta_time above 0 and at least 1 of max_substeps were wanted")
    if settings.synchronous_mode != episode.settings.synchronous_mode:
        episode.place.log(f"time: {'synchronous, ticks come from clients' if settings.synchronous_mode else 'real time'}")
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


@TABLE.void(text, flag, u16)
def load_new_episode(episode: Episode, name: str, reset: bool, layers: int) -> None:
    """Load a map; no name: the same one again."""
    episode.load(name or episode.scene.name, reset_settings=reset, layers=layers)
    episode.place.log(f"map {episode.scene.name} loaded: episode {episode.id}, {len(episode.scene.spawn_points)} spawn points")
    prepare(episode)


@TABLE.aside(long_text, r.opendrive_parameters, shape=VOID)
def copy_opendrive_to_file(episode: Episode, xodr: str, _: r.OpenDriveParameters) -> None:
    """Keep a client's map for the load that follows; nothing is written to a file."""
    episode.place.atlas.receive(xodr)
    episode.place.log(f"a client sent a map of {len(xodr)} characters: {SENT}")


@TABLE.value()
def get_map_info(episode: Episode) -> tuple[object, ...]:
    """The map's name and spawn points."""
    return shown_path(episode.scene.name), episode.scene.spawn_points


@TABLE.value()
def get_map_data(episode: Episode) -> str:
    """The map as OpenDRIVE."""
    return episode.scene.road_map.xodr


@TABLE.value(text)
def get_required_files(episode: Episode, folder: str) -> tuple[str, ...]:
    """The files a client should fetch."""
    return required_files(episode.scene, folder)


@TABLE.value(text)
def request_file(episode: Episode, name: str) -> bytes:
    """One of those files."""
    return requested_file(episode.scene, name)


@TABLE.value()
def get_navigation_mesh(episode: Episode) -> bytes:
    """The mesh for walkers."""
    return episode.scene.navigation[1]


@TABLE.void(u16)
def load_map_layer(episode: Episode, layers: int) -> None:
    """Put parts of the scenery back."""
    _show(episode, layers, on=True)


@TABLE.void(u16)
def unload_map_layer(episode: Episode, layers: int) -> None:
    """Take parts of the scenery away."""
    _show(episode, layers, on=False)


def _show(episode: Episode, layers: int, *, on: bool) -> None:
    for bit, label in labels.LAYERS.items():
        if layers & bit:
            episode.show_label(label, on=on)


@TABLE.value(u16)
def is_traffic_manager_running(episode: Episode, port: int) -> bool:
    """Is a traffic manager registered for a port?"""
    return port in episode.traffic_managers


@TABLE.value(u16)
def get_traffic_manager_running(episode: Episode, port: int) -> tuple[str, int]:
    """Where it runs."""
    found = episode.traffic_managers.get(port)
    return ("", 0) if found is None else (found[0], port)


@TABLE.value(_address)
def add_traffic_manager_running(episode: Episode, address: tuple[str, int]) -> bool:
    """Register one; it is forgotten when the client that registered it goes."""
    host, port = address
    if port in episode.traffic_managers or len(episode.traffic_managers) >= episode.place.limits.connections:
        return False
    episode.traffic_managers[port] = (host, episode.caller)
    return True


@TABLE.value(u16)
def destroy_traffic_manager(episode: Episode, port: int) -> bool:
    """Forget one."""
    return episode.traffic_managers.pop(port, None) is not None
