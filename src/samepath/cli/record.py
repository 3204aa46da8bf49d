"""``samepath record``: write a dataset of what sensors see of a scenario."""

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from samepath.cli.common import name_values
from samepath.core.clock import SYSTEM_CLOCK
from samepath.instrument.progress import progress_bar, stderr_console

# Where there is no terminal to draw a bar on, a line now and then.
_LINE_S: Final = 10.0


def record(
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO", help="A scenario of the embedded simulator, or a file.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the dataset; one that was interrupted goes on.")],
    rig: Annotated[str, typer.Option("--rig", help="Which sensors: default, small, or a YAML file.")] = "default",
    every: Annotated[int, typer.Option("--every", help="Ticks from one frame to the next.")] = 10,
    frames: Annotated[int | None, typer.Option("--frames", help="At most so many frames.", show_default=False)] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the scenario's chance; sensors have their own.")] = 0,
    images: Annotated[str, typer.Option("--images", help="Pictures of colour as png (lossless) or jpeg.")] = "png",
    layout: Annotated[
        str,
        typer.Option(
            "--format", help="A folder per frame (files), one file for viewers (mcap), or the layout of coco or kitti."
        ),
    ] = "files",
    weather: Annotated[
        list[str] | None,
        typer.Option(
            "--weather",
            metavar="NAME=VALUE|random",
            help="CARLA's weather, such as cloudiness=80; may be repeated. random: another one for every run.",
        ),
    ] = None,
    weather_felt: Annotated[
        bool, typer.Option("--weather-felt", help="Tyres hold less on wet roads, LiDARs see less in rain and fog.")
    ] = False,
    runs: Annotated[
        int, typer.Option("--runs", help="Run the scenario so often, each time with a seed drawn from --seed.")
    ] = 1,
    renderer: Annotated[
        str,
        typer.Option(
            "--renderer", help="Who draws: software, cuda (an NVIDIA card, the same bytes), auto (cuda if it can), or opengl."
        ),
    ] = "software",
    at_once: Annotated[
        int,
        typer.Option("--at-once", help="So many of the runs side by side; a card draws them in one launch. Changes no byte."),
    ] = 1,
    threads: Annotated[int, typer.Option("--threads", help="Threads to draw and cast rays with; they change no byte.")] = 1,
) -> None:
    """Write images, points and the truth behind them, frame by frame. The same command writes the same bytes.

    The renderers software, cuda and auto write the same pictures. With opengl that is not promised: the dataset then says which
    driver drew it.
    """
    from samepath.simulator.sensors.sensor import require_sensors

    require_sensors()
    from samepath.core.processes import keep_freed_memory
    from samepath.scenarios.model import load_scenario
    from samepath.simulator.dataset.files import RecordSettings, weather_of
    from samepath.simulator.dataset.recording import HEADER, INDEX
    from samepath.simulator.dataset.runs import DatasetSettings, record_runs
    from samepath.simulator.sensors.building import build_code
    from samepath.simulator.sensors.rig import load_rig

    is_random = weather == ["random"]
    recording = RecordSettings(
        scenario=load_scenario(scenario),
        rig=load_rig(rig),
        every=every,
        most=frames,
        seed=seed,
        images=images,
        format=layout,
        weather=weather_of({} if is_random else name_values("--weather", weather, "cloudiness=80")),
        weather_felt=weather_felt,
        renderer=renderer,
    )
    settings = DatasetSettings(recording, runs, random_weather=is_random)
    # Here and not in the library: it is a setting of the whole process, which is ours. With pictures of 1920 x 1080 a tenth of
    # the time went into pages that the system cleared anew; with small ones nothing changes.
    keep_freed_memory()
    build_code(lambda line: typer.echo(f"samepath: {line}", err=True))
    console, last_s = stderr_console(), SYSTEM_CLOCK.monotonic_s()
    with progress_bar("recording", settings.frames_most) as advance:

        def on_frame(tick: int, done: int) -> None:
            nonlocal last_s
            advance(f"tick {tick}", done)
            if not console.is_terminal and SYSTEM_CLOCK.monotonic_s() - last_s >= _LINE_S:
                last_s = SYSTEM_CLOCK.monotonic_s()
                typer.echo(f"samepath: recording, {done} of at most {settings.frames_most} frames", err=True)

        result = record_runs(settings, out, threads=threads, at_once=at_once, on_frame=on_frame)
    if renderer == "auto":
        index = json.loads((out / INDEX).read_text("utf-8"))
        header = json.loads((out / HEADER).read_text("utf-8"))
        drawn_by = index["runs"][0]["renderer"] if "runs" in index else header["renderer"]["name"]
        typer.echo(f"samepath: drawn by {drawn_by}", err=True)
    known = result.frames - result.written
    there = f" ({known} were there)" if known else ""
    typer.echo(f"{out}: {result.frames} frames{there}, until: {result.reason}; digest {result.digest}")
