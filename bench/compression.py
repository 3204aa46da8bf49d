"""Which lossless codec suits the bytes of our cameras: how much smaller, and how many MB/s on one core, both ways.

Real frames: ``town`` at noon with 40 cars, a camera on a roof, six kinds at four sizes, each with the frame before it (the car
and the camera have moved by half a metre). What counts is the time of a frame on a link of some rate: compressing, sending and
decompressing, one after the other. The last table says which codec is fastest there, beside sending as it is.
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import lz4.block as lz4_block
import numpy as np
import pyarrow as pa

from bench.cameras import CARS, NOON, traffic
from bench.tools import best_s, save, show
from samepath.core.states import Pose, Vector
from samepath.simulator.maps import load_map
from samepath.simulator.sensors.cameras import CAMERA_KINDS
from samepath.simulator.server.rendering import LocalRenderer, RenderRequest, SceneView

SIZES = ((180, 120), (360, 240), (720, 480), (1440, 960))
RATES_MBIT = (50.0, 100.0, 200.0, 1000.0, 10_000.0)
STEP_M = 0.5


@dataclass(frozen=True)
class Codec:
    """``pack`` and ``unpack`` get the frame before as well; most have no use for it."""

    name: str
    pack: Callable[[bytes, bytes], bytes]
    unpack: Callable[[bytes, int, bytes], bytes]


def _arrow(name: str, level: int | None = None) -> Codec:
    codec = pa.Codec(name) if level is None else pa.Codec(name, compression_level=level)
    return Codec(
        f"{name} {level}" if level is not None else name,
        lambda data, _: codec.compress(data, asbytes=True),
        lambda data, size, _: codec.decompress(data, size, asbytes=True),
    )


def _difference(inner: Codec) -> Codec:
    """The difference to the frame before: both sides must keep it."""

    def differ(data: bytes, before: bytes) -> bytes:
        return (np.frombuffer(data, np.uint8) ^ np.frombuffer(before, np.uint8)).tobytes()

    return Codec(
        f"difference, {inner.name}",
        lambda data, before: inner.pack(differ(data, before), b""),
        lambda data, size, before: differ(inner.unpack(data, size, b""), before),
    )


def _planes(inner: Codec) -> Codec:
    """All first bytes of the pixels, then all second ones, ... each as the difference to its left neighbour."""
    head = 12

    def split(data: bytes, _: bytes) -> bytes:
        pixels = np.frombuffer(data, np.uint8, offset=head).reshape(-1, 4)
        planes = np.ascontiguousarray(pixels.T)
        planes[:, 1:] = np.diff(planes, axis=1)
        return inner.pack(data[:head] + planes.tobytes(), b"")

    def join(data: bytes, size: int, _: bytes) -> bytes:
        plain = inner.unpack(data, size, b"")
        planes = np.cumsum(np.frombuffer(plain, np.uint8, offset=head).reshape(4, -1), axis=1, dtype=np.uint8)
        return plain[:head] + np.ascontiguousarray(planes.T).tobytes()

    return Codec(f"planes, {inner.name}", split, join)


def codecs() -> list[Codec]:
    """All that are compared."""
    lz4 = Codec(
        "lz4",
        lambda data, _: lz4_block.compress(data, store_size=False),
        lambda data, size, _: lz4_block.decompress(data, uncompressed_size=size),
    )
    zstd = _arrow("zstd", 1)
    return [
        lz4,
        zstd,
        _arrow("zstd", 3),
        _arrow("snappy"),
        Codec("zlib 1", lambda data, _: zlib.compress(data, 1), lambda data, size, _: zlib.decompress(data, bufsize=size)),
        _planes(lz4),
        _difference(lz4),
        _difference(zstd),
    ]


def frames(kind: str, width: int, height: int, renderer: LocalRenderer) -> tuple[bytes, bytes]:
    """A payload of this camera, and the one before."""
    _, cars, poses = traffic("town")
    looks = tuple(cars)
    weather = NOON
    at = poses[CARS // 2]
    ahead = (STEP_M * math.cos(math.radians(at.yaw_deg)), STEP_M * math.sin(math.radians(at.yaw_deg)))
    before = replace_pose(at, -ahead[0], -ahead[1])
    past = tuple((look.id, look.pose) for look in looks)
    attributes = (("image_size_x", str(width)), ("image_size_y", str(height)))
    found = []
    for frame, (pose, was) in enumerate(((before, None), (at, before)), start=1):
        moved = tuple(
            replace(look, pose=replace_pose(look.pose, 0.1 * frame * (look.id % 5), 0.0)) if look.id % 2 else look
            for look in looks
        )
        view = SceneView(0, frame, frame, moved, tuple(Vector() for _ in moved), weather, past=past)
        request = RenderRequest(900, 900, kind, attributes, bytes(48), pose, was, 1, frame, 0.05 * frame, 0.05)
        found.append(renderer.render(view, [request])[0].payload)
    return found[1], found[0]


def replace_pose(pose: Pose, x_m: float, y_m: float) -> Pose:
    """A pose moved by so much."""
    return pose._replace(x_m=pose.x_m + x_m, y_m=pose.y_m + y_m)


def main() -> bool:
    """Measure all codecs on all frames; return whether every one gave the bytes back."""
    renderer = LocalRenderer(1)
    renderer.prepare(load_map("town"))
    rows: list[list[str]] = []
    raw: list[dict[str, object]] = []
    best: dict[tuple[str, float], dict[str, float]] = {}
    for kind in sorted(CAMERA_KINDS):
        for width, height in SIZES:
            data, before = frames(kind, width, height, renderer)
            cells = []
            for codec in codecs():
                packed = codec.pack(data, before)
                if codec.unpack(packed, len(data), before) != data:
                    raise RuntimeError(f"{codec.name} did not give {kind} back")
                rounds = 9
                pack_s = best_s(partial(codec.pack, data, before), rounds)
                unpack_s = best_s(partial(codec.unpack, packed, len(data), before), rounds)
                ratio = len(packed) / len(data)
                raw.append(
                    {
                        "kind": kind, "width": width, "height": height, "codec": codec.name, "bytes": len(data),
                        "ratio": ratio, "pack_mb_s": len(data) / pack_s / 1e6, "unpack_mb_s": len(data) / unpack_s / 1e6,
                    }
                )  # fmt: skip
                cells.append(f"{ratio:.3f} {len(data) / pack_s / 1e6:.0f}/{len(data) / unpack_s / 1e6:.0f}")
                for mbit in RATES_MBIT:
                    sent_s = 8.0 * len(packed) / (mbit * 1e6)
                    times = best.setdefault((f"{width} x {height}", mbit), {})
                    times[codec.name] = times.get(codec.name, 0.0) + pack_s + sent_s + unpack_s
            for mbit in RATES_MBIT:
                times = best[f"{width} x {height}", mbit]
                times["as it is"] = times.get("as it is", 0.0) + 8.0 * len(data) / (mbit * 1e6)
            rows.append([kind.removeprefix("sensor.camera."), f"{width} x {height}", *cells])
    renderer.close()
    title = "a frame's size afterwards to before, and MB/s on one core to compress / decompress"
    show(title, ["camera", "size", *(codec.name for codec in codecs())], rows)
    fastest = []
    for (size, mbit), times in sorted(best.items(), key=lambda item: (item[0][1], int(item[0][0].split()[0]))):
        name = min(times, key=lambda name: times[name])
        plain_ms, ms = 1e3 * times["as it is"] / len(CAMERA_KINDS), 1e3 * times[name] / len(CAMERA_KINDS)
        lz4_ms, zstd_ms = (1e3 * times[method] / len(CAMERA_KINDS) for method in ("lz4", "zstd 1"))
        cells = [f"{mbit:g} Mbit/s", size, name, f"{ms:.2f}", f"{lz4_ms:.2f}", f"{zstd_ms:.2f}", f"{plain_ms:.2f}"]
        fastest.append(cells)
    title = "ms for a frame from packing to unpacking, mean of six kinds"
    show(title, ["link", "size", "fastest", "ms", "lz4", "zstd 1", "as it is"], fastest)
    save("compression", {"frames": raw, "fastest": fastest})
    return True
