"""``samepath serve``: CARLA's own client connects to our world."""

import asyncio
import gc
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samepath.cli.live_view import ViewToken
from samepath.core.errors import EpisodeFailedError, InputError, SamepathError, printable
from samepath.core.network import is_loopback
from samepath.core.processes import ShutdownSignals, shutdown_signals
from samepath.core.service import LineLimiter

if TYPE_CHECKING:
    from samepath.simulator.server.resume import JournalConfig
    from samepath.simulator.server.server import ServerSettings


Host = Annotated[str, typer.Option("--host", help="Address to listen on; anything but loopback lets others in.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65534, help="RPC port; streams use the next one. 0: any two.")]
StreamPort = Annotated[
    int | None, typer.Option("--stream-port", min=0, max=65535, help="Port of the streams, if not the next one. 0: any.")
]
Map = Annotated[str, typer.Option("--map", metavar="NAME|FILE", help="The map to begin with: a name, or a file FILE.xodr.")]
Maps = Annotated[
    list[Path] | None,
    typer.Option("--maps", metavar="FOLDER", help="Offer the OpenDRIVE files of a folder, each as NAME and NAME_Opt."),
]
Alias = Annotated[
    list[str] | None,
    typer.Option("--alias", metavar="NAME=MAP", help="Serve a map under another name, such as Town03=town or 'Town*=town'."),
]
Data = Annotated[Path, typer.Option("--data", help="The only folder clients can write recordings to and read them from.")]
Debug = Annotated[bool, typer.Option("--draw-debug", help="Draw clients' debug shapes into the pictures of colour cameras.")]
Renderer = Annotated[
    str,
    typer.Option(
        "--renderer", help="Who draws: software, cuda (an NVIDIA card, the same bytes), auto (cuda if it can), or opengl."
    ),
]
Journal = Annotated[
    Path | None, typer.Option("--journal", help="Keep a journal here, from which a server that died can be continued.")
]
JournalDurable = Annotated[
    bool,
    typer.Option(
        "--journal-durable",
        help="Wait for the disk before every answer: a power cut then takes nothing that a client was told. Without it a power "
        "cut may take about the last second; the death of the process alone takes nothing in either case.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the world of --journal; its map and data folder are known.")]
Record = Annotated[
    Path | None,
    typer.Option("--record", help="Write all that happens to this recording; samepath replay plays it without the clients."),
]
MapSeconds = Annotated[
    float, typer.Option("--map-seconds", min=1.0, max=86400.0, help="Processor time that building a client's own map may take.")
]
ProbePort = Annotated[
    int | None,
    typer.Option("--probe-port", min=0, max=65535, help="Answer GET /healthz here: 200, or 503 and what is wrong. 0: any."),
]
Stall = Annotated[
    float, typer.Option("--stall-seconds", min=1.0, help="How long one call or tick may take before the server counts as hung.")
]
Restart = Annotated[
    bool,
    typer.Option(
        "--restart", help="Go on from --journal, now if it holds something, and whenever the server has failed or hangs."
    ),
]
Source = Annotated[
    list[str] | None,
    typer.Option("--source", help="Make this world non-deterministic on purpose, such as unseeded-random; to try tools on it."),
]
MapMemory = Annotated[int, typer.Option("--map-mib", min=64, max=1 << 20, help="Memory that building it may take, in MiB.")]
Memory = Annotated[
    int,
    typer.Option(
        "--memory-mib",
        min=64,
        max=1 << 20,
        help="Memory for all that waits for slow clients, in MiB; beyond it whoever has most is cut off.",
    ),
]
Recordings = Annotated[
    int,
    typer.Option(
        "--recordings-mib", min=512, max=1 << 30, help="Disk space for all recordings of clients in --data together, in MiB."
    ),
]
Protocol = Annotated[
    str,
    typer.Option("--protocol", metavar="VERSION", help="The version of CARLA's client to serve: 0.9.16, 0.9.15 or 0.9.14."),
]
TrafficOption = Annotated[
    str | None,
    typer.Option(
        "--traffic",
        metavar="vehicles=N,walkers=N",
        help="Traffic of the server's own: cars and walkers; also routes=destinations, seed=N.",
    ),
]
View = Annotated[
    bool, typer.Option("--view", help="Also serve a page on this machine that shows the world as it runs, and only looks.")
]
ViewPort = Annotated[int, typer.Option("--view-port", min=0, max=65535, help="Port of that page; 0 takes a free one.")]
WeatherFelt = Annotated[
    bool,
    typer.Option("--weather-felt", help="Tyres hold less on wet roads, LiDARs see less in rain and fog; not so in CARLA."),
]
TimeScale = Annotated[
    float,
    typer.Option(
        "--time-scale",
        min=0.1,
        max=100.0,
        help="World seconds per second in asynchronous mode: 2 is twice as fast as real time, 0.5 slow motion.",
    ),
]
WalkAnywhere = Annotated[
    bool,
    typer.Option("--walk-anywhere", help="AI walkers may be sent onto roads, too; CARLA's client keeps them off since 0.9.7."),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="After every tick, compare what snapshots, bones, images, LiDAR, collisions and recordings say about every actor; "
        "stop at the first difference. Slow.",
    ),
]
SensorsLater = Annotated[
    bool,
    typer.Option(
        "--sensors-later",
        help="Serve before the code of cameras, LiDARs and radars is built, which takes about a minute, once on a machine. The "
        "first of them waits for it.",
    ),
]
DATA_FOLDER = Path("serve-data")
MAP_SECONDS = 60.0
MAP_MIB = 1024
MEMORY_MIB = 1024
RECORDINGS_MIB = 8192
STALL_SECONDS = 60.0


def serve(
    host: Host = "127.0.0.1",
    port: Port = 2000,
    stream_port: StreamPort = None,
    map_name: Map = "t-junction",
    maps: Maps = None,
    alias: Alias = None,
    data: Data = DATA_FOLDER,
    draw_debug: Debug = False,
    renderer: Renderer = "software",
    protocol: Protocol = "0.9.16",
    journal: Journal = None,
    journal_durable: JournalDurable = False,
    resume: Resume = False,
    record: Record = None,
    map_seconds: MapSeconds = MAP_SECONDS,
    map_mib: MapMemory = MAP_MIB,
    memory_mib: Memory = MEMORY_MIB,
    recordings_mib: Recordings = RECORDINGS_MIB,
    probe_port: ProbePort = None,
    stall_seconds: Stall = STALL_SECONDS,
    restart: Restart = False,
    source: Source = None,
    traffic: TrafficOption = None,
    weather_felt: WeatherFelt = False,
    time_scale: TimeScale = 1.0,
    walk_anywhere: WalkAnywhere = False,
    check: Check = False,
    sensors_later: SensorsLater = False,
    view: View = False,
    view_port: ViewPort = 0,
    view_token: ViewToken = None,
) -> None:
    """Serve a world that repeats itself to CARLA 0.9.16's Python client. Ctrl-C ends it, a second one at once."""
    from samepath.simulator.carla.limits import ServerLimits
    from samepath.simulator.server.resume import origin_of
    from samepath.simulator.server.server import ServerSettings
    from samepath.simulator.traffic.traffic import TrafficSettings

    if view_token is not None and not view:
        raise InputError("--view-token: a page to be steered from was wanted, but none is served: give --view")
    wanted = None if traffic is None else TrafficSettings.read(traffic)
    aliases = read_aliases(alias or [])
    map_name, map_files = read_maps(map_name, maps or [])
    if record is not None:
        check_record(record, going_on=resume or restart)
    if restart:
        if journal is None or not port or stream_port == 0:
            what = "a journal to go on from (--journal FOLDER)" if journal is None else "a port that stays the same (--port)"
            what = what if journal is None or not port else "a port that stays the same (--stream-port)"
            raise InputError(f"--restart: {what} was wanted, but none came")
        given = [argument for argument in sys.argv[1:] if argument != "--restart"]
        raise typer.Exit(run_supervised(given, [*given, "--resume"], journal, stall_seconds, _log))
    if resume:
        if journal is None:
            raise InputError("--resume: the journal to go on with was wanted, but none came: give --journal FOLDER")
        begun = origin_of(journal)
        map_name, aliases, data, draw_debug = begun.map_name, dict(begun.aliases), begun.data_folder, begun.draw_debug
        map_files = dict(begun.map_files)
        wanted, weather_felt = begun.traffic, begun.weather_felt
    settings = ServerSettings(
        host=host,
        port=port,
        stream_port=stream_port,
        map_name=map_name,
        aliases=aliases,
        map_files=map_files,
        data_folder=data,
        limits=ServerLimits(
            map_s=map_seconds,
            map_bytes=map_mib << 20,
            memory_bytes=memory_mib << 20,
            recordings_bytes=recordings_mib << 20,
        ),
        draw_debug=draw_debug,
        renderer=renderer,
        protocol=protocol,
        journal=journal_config(journal, durable=journal_durable, resume=resume, record=record),
        sources=tuple(source or ()),
        traffic=wanted,
        weather_felt=weather_felt,
        time_scale=time_scale,
        walk_anywhere=walk_anywhere,
        check=check,
    )
    with shutdown_signals() as end:
        page_port = view_port if view else None
        serving = _serve(settings, end, probe_port, stall_seconds, record, page_port, view_token, sensors_later=sensors_later)
        asyncio.run(serving)


def check_record(record: Path, *, going_on: bool) -> None:
    """Refuse a recording that could not be written when the server ends, before it begins."""
    if going_on:
        raise InputError("--record: a server that begins was wanted, but this one goes on: leave out --resume and --restart")
    if record.exists():
        raise InputError(f"--record: a file that is not there yet was wanted, but {record} is: choose another")
    if not record.absolute().parent.is_dir():
        raise InputError(f"--record: {record.absolute().parent} is no folder: make it first")


def finish_record(folder: Path, record: Path, log: Callable[[str], None], *, keep_folder: bool) -> None:
    """Pack a journal that kept everything into the recording; one that cannot be packed stays where it is."""
    from samepath.simulator.replay.served import pack_journal

    try:
        name = pack_journal(folder, record)
    except SamepathError as error:
        log(f"nothing was recorded: {error}")
        return
    log(f"recorded to {record} ({name}); samepath replay {record} plays it")
    if not keep_folder:
        shutil.rmtree(folder, ignore_errors=True)


def run_supervised(first: list[str], again: list[str], journal: Path, stall_s: float, log: Callable[[str], None]) -> int:
    """Run samepath in a child with these arguments, and with ``again`` to go on from the journal. Returns its exit code."""
    from samepath.core.service import RestartPolicy, supervise
    from samepath.simulator.server.journal_files import numbers_of

    begin, go_on = ([sys.executable, "-m", "samepath", *arguments] for arguments in (first, again))
    has_begun = journal.is_dir() and any(numbers_of(journal))
    with shutdown_signals() as end:
        return supervise(go_on if has_begun else begin, go_on, end, log, RestartPolicy(silent_s=stall_s))


def journal_config(
    folder: Path | None, *, durable: bool, resume: bool = False, record: Path | None = None
) -> "JournalConfig | None":
    """Read ``--journal``, ``--journal-durable`` and ``--record``; None: no journal is kept."""
    from samepath.simulator.server.journal import JournalSettings
    from samepath.simulator.server.resume import JournalConfig

    if record is not None:
        # Without a journal of the user's own nobody resumes from it, and snapshots would only take room.
        every_s = JournalSettings().every_s if folder is not None else None
        place = folder or record.with_name(f"{record.name}.journal")
        return JournalConfig(place, JournalSettings(every_s=every_s, durable=durable, keep_all=True))
    if folder is not None:
        return JournalConfig(folder, JournalSettings(durable=durable), resume=resume)
    if durable:
        raise InputError("--journal-durable: a journal to wait for was wanted, but none came: give --journal FOLDER")
    return None


def read_aliases(given: list[str]) -> dict[str, str]:
    """Read ``--alias``."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, target = text.partition("=")
        if not (name and equals and target):
            raise InputError(f"--alias: NAME=MAP was wanted, such as Town03=town, but {text!r} came")
        if name in found:
            raise InputError(f"--alias: {name} was given twice")
        found[name] = target
    return found


def read_maps(map_name: str, folders: list[Path]) -> tuple[str, dict[str, Path]]:
    """Read ``--map`` and ``--maps``: the name to begin with, and the user's files by name."""
    from samepath.simulator.maps import available_maps
    from samepath.simulator.maps.files import chosen_maps

    return chosen_maps(map_name, folders, available_maps())


async def _serve(
    settings: "ServerSettings",
    end: ShutdownSignals,
    probe_port: int | None,
    stall_s: float,
    record: Path | None = None,
    view_port: int | None = None,
    view_token: Path | None = None,
    *,
    sensors_later: bool = False,
) -> None:
    from samepath.core.service import PATH, Pulse, serve_probe
    from samepath.simulator.sensors.building import start_build
    from samepath.simulator.server.server import SimulatorServer

    over, failures = asyncio.Event(), list[str]()
    loop = asyncio.get_running_loop()
    end.call_on_first(lambda: loop.call_soon_threadsafe(over.set))

    def failed(words: str) -> None:
        failures.append(words)
        loop.call_soon_threadsafe(over.set)

    server = SimulatorServer(settings, _log, failed)
    drawn_by = _driver(settings.renderer)
    if not sensors_later:
        building, stopped = asyncio.ensure_future(server.build_code()), asyncio.ensure_future(over.wait())
        await asyncio.wait({building, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if over.is_set():
            _log("stopping")
            return
        await building
    await server.start()
    # What is there now stays to the end. Large batches make many objects, and for each so many of them the garbage collector
    # would look through all of it: a third of the time of 20,000 commands.
    gc.freeze()

    def complaint() -> str:
        return server.health().complaint(stall_s)

    Pulse(complaint)
    if probe_port is not None:
        probe = await serve_probe(complaint, settings.host, probe_port, _log, lambda: server.health().notes())
        _log(f"probe: http://{settings.host}:{probe.port}{PATH}")
    _log(f"serving map {settings.map_name} on {settings.host}:{server.port}, streams on {server.stream_port}")
    if drawn_by:
        _log(drawn_by)
    if not is_loopback(settings.host):
        _log(
            f"{settings.host} is not loopback: anybody who reaches it can drive this world, fill its data folder "
            "and use its processor; there is no password, so keep it behind a firewall"
        )
    builder = start_build(is_urgent=False) if sensors_later else None
    viewer = None
    if view_port is not None:
        from samepath.cli.live_view import start_beside

        viewer = start_beside(settings.host, server.port, view_port, view_token)
    await over.wait()
    _log("stopping")
    if viewer is not None:
        viewer.terminate()
        await asyncio.to_thread(viewer.wait)
    if builder is not None:
        builder.kill()
        builder.wait()
    await server.stop()
    if record is not None and settings.journal is not None:
        ours = record.with_name(f"{record.name}.journal")
        finish_record(settings.journal.folder, record, _log, keep_folder=settings.journal.folder != ours)
    if failures:
        raise EpisodeFailedError(failures[0])


def _driver(renderer: str) -> str:
    """Who draws, unless it is the software; refuses a renderer that cannot be opened here, before anybody connects."""
    from samepath.simulator.sensors.renderer import SAME_BYTES, check_renderer, create_renderer

    if check_renderer(renderer) == "software":
        return ""
    made = create_renderer(renderer)
    made.close()
    if renderer in SAME_BYTES:
        told = getattr(made, "told", "")
        return f"cameras are {told}" if renderer == "auto" else f"cameras are drawn by {renderer} ({told})"
    driver = ", ".join(made.facts[name] for name in ("gl_renderer", "gl_version") if name in made.facts)
    return f"cameras are drawn by {renderer} ({driver}): pictures depend on the driver"


def _write(line: str) -> None:
    # Names in it may come from clients: nothing that moves a terminal's cursor.
    plain = printable(line)
    print(f"samepath serve: {plain}", file=sys.stderr, flush=True)


_log = LineLimiter(_write)
