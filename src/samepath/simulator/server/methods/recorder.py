"""Recording to a file in CARLA's format, describing it, playing it again. Names are those of files in the data folder."""

from dataclasses import replace
from typing import Final

from samepath.core.errors import InputError
from samepath.simulator.carla import records as r
from samepath.simulator.carla.codec import flag, number, text, u8, u32
from samepath.simulator.carla.recorder import (
    LogRecording,
    LogReplay,
    blocked_text,
    collisions_text,
    info_text,
    inside,
    is_absolute,
    replay_text,
)
from samepath.simulator.carla.recorder_file import Log, open_log
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.maps import shown_path
from samepath.simulator.server.methods.table import Table
from samepath.simulator.server.recorder import EpisodePlayer, EpisodeRecorder, unix_s

TABLE: Final = Table()
# The least that a recording counts for: a disk holds so many files only.
_FILE_BYTES: Final = 1 << 20


def _log(episode: Episode, name: str) -> Log:
    path = inside(episode.context.data_folder, name)
    if not path.is_file():
        raise InputError(f"File {name[:100]} not found on server")
    if path.stat().st_size > episode.context.limits.recording_bytes:
        raise InputError(f"{name[:100]} is larger than {episode.context.limits.recording_bytes} bytes")
    return open_log(path)


def _check_room(episode: Episode, name: str) -> None:
    """Refuse a recording for which there may be no room beside the others of this server that are on disk."""
    limits, sizes_bytes = episode.context.limits, {}
    for other in episode.recordings:
        path = inside(episode.context.data_folder, other)
        if other != name and path.is_file():
            sizes_bytes[other] = max(path.stat().st_size, _FILE_BYTES)
    episode.recordings = list(sizes_bytes)
    if sum(sizes_bytes.values()) + limits.recording_bytes > limits.recordings_bytes:
        raise InputError(
            f"expected room for a recording of {limits.recording_bytes >> 20} MiB, got {len(sizes_bytes)} recordings of "
            f"{sum(sizes_bytes.values()) >> 20} MiB, of {limits.recordings_bytes >> 20} that all may take (--recordings-mib): "
            "delete some of them, or use one of their names again"
        )


@TABLE.value(text, flag)
def start_recorder(episode: Episode, name: str, additional: bool) -> str:
    """Begin a recording."""
    path = inside(episode.context.data_folder, name)
    if episode.player is not None and not episode.player.is_over and episode.player.replay.log.path == path:
        raise InputError(f"{name[:100]} is being replayed: stop the replay, or choose another name")
    episode.end_recording()
    _check_room(episode, name)
    started_s = unix_s(episode.context.clock.utc_iso())
    recording = LogRecording(path, shown_path(episode.map), started_s, rehearsed=episode.rehearsed)
    episode.recordings.append(name)
    episode.recorder = EpisodeRecorder(recording, additional=additional, most_bytes=episode.context.limits.recording_bytes)
    dropped = f": of the absolute path {name[:200]!r} only the last part counts" if is_absolute(name) else ""
    episode.context.log(f"recording to {path}{dropped}")
    return str(path)


@TABLE.void()
def stop_recorder(episode: Episode) -> None:
    """End it."""
    episode.end_recording()


@TABLE.aside(text, flag)
def show_recorder_file_info(episode: Episode, name: str, everything: bool) -> str:
    """What is in a recording."""
    return info_text(_log(episode, name), everything=everything)


@TABLE.aside(text, u8, u8)
def show_recorder_collisions(episode: Episode, name: str, first: int, second: int) -> str:
    """Who met whom; the categories come as the numbers of letters."""
    return collisions_text(_log(episode, name), chr(first), chr(second))


@TABLE.aside(text, number, number)
def show_recorder_actors_blocked(episode: Episode, name: str, least_s: float, least_cm: float) -> str:
    """Who stood still for long."""
    return blocked_text(_log(episode, name), least_s, least_cm)


@TABLE.value(text, number, number, u32, flag, r.transform)
def replay_file(
    episode: Episode,
    name: str,
    start_s: float,
    duration_s: float,
    follow: int,
    sensors: bool,
    offset: r.Transform,
) -> str:
    """Play a recording, on its map, from the next tick on."""
    log = _log(episode, name)
    options = replace(episode.replaying, start_s=start_s, duration_s=duration_s, follow_actor=follow, replay_sensors=sensors)
    replay = LogReplay(log, options)
    first = replay.begin()  # all of it is read before anything is changed: a file that cannot be played changes nothing
    halt(episode, keep=False)
    map_name = log.header.map_name.rsplit("/", 1)[-1]
    if map_name != episode.map.name:
        episode.load(map_name, reset_settings=False, layers=0xFFFF)
    episode.player = EpisodePlayer(replay, follow, r.pose_of(offset))
    episode.player.begin(episode, first)
    episode.context.log(f"replaying {log.path.name}")
    return replay_text(log, options)


def halt(episode: Episode, *, keep: bool) -> None:
    """Stop playing, if something is played."""
    if episode.player is not None:
        episode.player.stop(episode, keep=keep)
        episode.player = None


@TABLE.void(flag)
def stop_replayer(episode: Episode, keep: bool) -> None:
    """Stop; the actors stay or go."""
    halt(episode, keep=keep)


@TABLE.void(number)
def set_replayer_time_factor(episode: Episode, factor: float) -> None:
    """How fast time passes in a replay."""
    if not 0.0 <= factor <= 1000.0:
        raise InputError(f"a time factor of 0 to 1000 was wanted, but {factor:g} came")
    episode.replaying = replace(episode.replaying, time_factor=factor)
    if episode.player is not None:
        episode.player.replay.time_factor = factor


@TABLE.void(flag)
def set_replayer_ignore_hero(episode: Episode, on: bool) -> None:
    """Leave the hero out of replays."""
    episode.replaying = replace(episode.replaying, ignore_hero=on)


@TABLE.void(flag)
def set_replayer_ignore_spectator(episode: Episode, on: bool) -> None:
    """Leave the spectator where it is in replays."""
    episode.replaying = replace(episode.replaying, ignore_spectator=on)
