"""Building the code of all sensors ahead, so that no call of a client waits for a compiler.

Functions are built when they are first used, with the types of what they are given. So they are built by use: one small
measurement of each kind. Code that is on disk is merely loaded, which takes a third of a second.

``python -m samepath.simulator.sensors.building`` builds what is not on disk, for an installation or an image.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.processes import die_with_parent
from samepath.core.states import Pose, Vector
from samepath.simulator.sensors.sensor import NoiseKey

if TYPE_CHECKING:
    from samepath.simulator.sensors.cameras import RigRenderer
    from samepath.simulator.sensors.rays.caster import RayCaster
    from samepath.simulator.sensors.renderer import RenderScene


def use_code(scene: "RenderScene", caster: "RayCaster", cameras: "RigRenderer") -> None:
    """Make a small measurement of each kind: what was never built is built, what is on disk is loaded."""
    from samepath.simulator.sensors.lidar import Lidar
    from samepath.simulator.sensors.radar import Radar
    from samepath.simulator.sensors.renderer import Camera, Channel

    pose, step_s = Pose(z_m=2.0), 0.05
    every = Channel.COLOUR | Channel.DEPTH | Channel.LABEL | Channel.INSTANCE | Channel.NORMAL | Channel.FLOW
    cameras.draw(scene, [Camera(pose, 16, 16, 90.0, every, pose)])
    few = {"points_per_second": 1000}
    for semantic in (False, True):
        Lidar.from_attributes(few, semantic=semantic).scan(caster, scene, pose, 0.0, step_s, NoiseKey())
    Radar.from_attributes(few).begin(caster, scene, pose, Vector(), {}, step_s, NoiseKey())()


def build_code(log: Callable[[str], None]) -> None:
    """Build or load the code of all sensors; ``log`` gets lines only where something has to be built.

    Does nothing where the compiler is not installed.
    """
    if find_spec("numba") is None:
        return
    from samepath.simulator.sensors.auto import ray_caster_of
    from samepath.simulator.sensors.cameras import RigRenderer
    from samepath.simulator.sensors.raster.compiled import PROGRESS
    from samepath.simulator.sensors.scene_builder import box_scene

    start_s, before, PROGRESS.log = SYSTEM_CLOCK.monotonic_s(), PROGRESS.log, log
    try:
        caster, cameras = ray_caster_of("software", 1), RigRenderer(1, "software")
        try:
            use_code(box_scene(), caster, cameras)
        finally:
            caster.close()
            cameras.close()
        if PROGRESS.has_built:
            log(f"the code of sensors is built, after {SYSTEM_CLOCK.monotonic_s() - start_s:.0f} s")
    finally:
        PROGRESS.log = before


def start_build(*, is_urgent: bool = True) -> "subprocess.Popen[bytes]":
    """Build what is not on disk in a process of its own, which ends with this one; its lines go to stderr.

    One that is not urgent leaves the processor to others.
    """
    command = [sys.executable, "-m", __name__, str(os.getpid()), "" if is_urgent else "nice"]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2)  # noqa: S603 - our own interpreter


def main(arguments: list[str]) -> None:
    """Build; ``arguments`` are the number of the parent process, and whether to leave the processor to others."""
    if arguments:
        die_with_parent(int(arguments[0]))
        if arguments[1:] == ["nice"]:
            os.nice(5)  # not more: where all cores are busy a camera may come to wait for it
    build_code(lambda line: print(f"samepath: {line}", file=sys.stderr, flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
