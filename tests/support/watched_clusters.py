"""Statuses of clusters as a main server would publish them, and pictures for their sensors."""

import struct
from dataclasses import replace
from math import sin

import numpy as np

from samepath.cluster.monitor.counters import CommandStats, ProblemLog, TickTimes
from samepath.cluster.monitor.status import ClusterStatus, CommandRecord, NodeStatus, SensorStatus
from samepath.cluster.monitor.thumbnails import thumbnail_png

SPEEDS = (1.0, 0.98, 0.52, 0.47)


def node(ordinal: int, **changes) -> NodeStatus:
    speed = SPEEDS[(ordinal - 1) % len(SPEEDS)]
    fields = NodeStatus(
        name=f"node-{ordinal}",
        ordinal=ordinal,
        host="render-host",
        pid=4200 + ordinal,
        state="working",
        address=f"127.0.0.1:{2000 + 10 * ordinal}",
        clients=ordinal % 3,
        sensors=round(6 * speed),
        speed=speed,
        busy=0.91 - 0.04 * ordinal,
        frames=round(14_000 * speed),
        frames_per_s=round(140 * speed, 1),
        step_s=0.0212 + 0.0004 * ordinal,
        compared=2345,
        silent_s=0.02,
    )
    return replace(fields, **changes)


def working(nodes: int = 4, frame: int = 2345) -> ClusterStatus:
    """All nodes work, in lockstep; every figure is possible."""
    members = tuple(node(ordinal) for ordinal in range(1, nodes + 1))
    ticks, commands = TickTimes(0.0), CommandStats()
    for tick in range(120):
        ticks.add(0.0235 + 0.003 * sin(tick / 7) + (0.011 if tick == 100 else 0.0), tick * 0.025)
    for number in range(1, 31):
        latency_s = 0.0011 + 0.0004 * (number % 5)
        record = CommandRecord(
            f"{1 + number % nodes}.1.{number}",
            101 + number % 4,
            "apply_control_to_vehicle",
            frame - 30 + number,
            latency_s,
            True,
        )
        commands.add(replace(record, winner=number % 10 != 0))
    kinds = ("rgb", "rgb", "semantic_segmentation", "depth")
    sensors = tuple(
        SensorStatus(
            id=200 + index,
            type=f"sensor.camera.{kinds[index % 4]}",
            node=members[index % nodes].name,
            width=360,
            height=240,
            cost_s=0.0032 + 0.0001 * index,
            frames=frame - 45,
            homes=(members[(index + index // 5) % nodes].name,) if index != 6 else (),
        )
        for index in range(11)
    )
    lidar = SensorStatus(230, "sensor.lidar.ray_cast", "node-1", cost_s=0.0061, frames=frame - 45, homes=("node-1",))
    return ClusterStatus(
        name="crossing",
        version="0.7.0",
        map_name="town",
        episode=1,
        frame=frame,
        mode="lockstep",
        ticks=frame - 40,
        tick_s=ticks.recent.last,
        tick_s_mean=ticks.recent.mean,
        ticks_per_s=39.8,
        frames_per_s=round(sum(member.frames_per_s for member in members), 1),
        frames=sum(member.frames for member in members),
        nodes=members,
        sensors=(*sensors, lidar),
        commands=commands.status(),
        moved=3,
        compared=sum(member.compared for member in members),
        recent_tick_s=ticks.recent.values,
        tick_times=ticks.buckets.histogram(),
    )


def one_fenced() -> ClusterStatus:
    """Node 2 froze, its frames were drawn elsewhere, another node comes in its place; a client sees real time go by."""
    status = working()
    problems = ProblemLog()
    problems.add(2301, "node-3 got sensor 204 from node-1: it was faster by 12 %")
    problems.add(2342, "node-2 did not answer for 3 tick times: 6 frames were ordered again from node-1, node-3")
    problems.add(2343, "node-2 is fenced; another node is being started")
    nodes = (
        status.nodes[0],
        node(2, state="fenced", busy=0.0, frames_per_s=0.0, sensors=0, clients=0, silent_s=4.2, late_frames=0),
        node(3, state="draining", late_frames=12, dropped_frames=2),
        node(4),
        node(
            5, state="joining", busy=0.0, frames=0, frames_per_s=0.0, step_s=None, speed=None, sensors=0, compared=0, clients=0
        ),
    )
    return replace(
        status,
        mode="real time",
        nodes=nodes,
        late_frames=12,
        dropped_frames=2,
        worst_lateness_s=0.031,
        reissued=6,
        moved=9,
        waiting_for=("node-3",),
        problems=problems.lines,
    )


def desynchronised() -> ClusterStatus:
    status = working()
    nodes = (*status.nodes[:3], replace(status.nodes[3], desynchronised=2))
    return replace(status, nodes=nodes, desynchronised=2)


def payload_of(kind: str, width: int = 360, height: int = 240) -> bytes:
    """A road into the distance, as a camera of this kind would send it."""
    rows, columns = np.mgrid[0:height, 0:width]
    sky = rows < height * 0.45
    road = ~sky & (abs(columns - width / 2) < (rows - height * 0.4) * 0.9)
    car = (abs(columns - width * 0.46) < 28) & (abs(rows - height * 0.58) < 18)
    pixels = np.zeros((height, width, 4), np.uint8)
    if kind.endswith("depth"):
        depth_m = np.where(sky, 1000.0, np.where(car, 14.0, 180.0 / np.maximum(rows - height * 0.44, 1.0)))
        code = (depth_m / 1000.0 * (2**24 - 1)).astype(np.int64)
        for channel, shift in ((2, 0), (1, 8), (0, 16)):
            pixels[..., channel] = code >> shift & 255
    elif kind.endswith("rgb"):
        pixels[:] = (96, 130, 108, 255)
        for where, colour in ((sky, (226, 196, 160)), (road, (88, 86, 84)), (car, (40, 44, 168))):
            pixels[where, :3] = colour
    else:
        pixels[..., 2] = np.where(car, 14, np.where(sky, 11, np.where(road, 1, 10)))
    return struct.pack("<IIf", width, height, 90.0) + pixels.tobytes()


def picture(sensor: int) -> bytes | None:
    kinds = {sensor.id: sensor.type for sensor in working().sensors}
    kind = kinds.get(sensor, "")
    return thumbnail_png(kind, payload_of(kind)) if kind.startswith("sensor.camera.") else None
