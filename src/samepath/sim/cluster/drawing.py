"""The thread of a node that draws: ticks in, frames out, one after the other."""

import queue
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import SamepathError
from samepath.sim.cluster.identity import digest_of
from samepath.sim.cluster.messages import Seen, parts_of
from samepath.sim.cluster.state_digests import held_digest
from samepath.sim.maps import RoadMap, load_map
from samepath.sim.sensors.looks import ActorLook
from samepath.sim.sensors.weather import Weather
from samepath.sim.server.viewing.order import Made, Order, unpack_orders
from samepath.sim.server.viewing.studio import Studio
from samepath.sim.server.viewing.view import View
from samepath.sim.world.records import Pose, Vector

_TEST_MAP: Final = "t-junction"
_TEST_SENSORS: Final = (
    ("sensor.camera.rgb", (("image_size_x", "96"), ("image_size_y", "64"))),
    ("sensor.camera.depth", (("image_size_x", "96"), ("image_size_y", "64"))),
    ("sensor.lidar.ray_cast_semantic", (("points_per_second", "20000"),)),
)


class Load(NamedTuple):
    """Build what a map needs."""

    episode: int
    road_map: RoadMap


class Show(NamedTuple):
    """Look at a tick, and make what is due."""

    frame: int
    shown: bytes
    orders: bytes
    homes: tuple[tuple[int, ...], ...]
    timed: bool
    lossless: bool


class Built(NamedTuple):
    """A map is ready; ``picture`` is the digest of a picture that every node draws alike."""

    episode: int
    picture: str


class Drawn(NamedTuple):
    """What came of a tick: the answer for the main server and its bulk, and what this node's own listeners get."""

    seen: Seen
    bulk: tuple[bytes, ...]
    own: tuple[tuple[int, bytes], ...]
    lossless: bool


Result = Built | Drawn


class Drawing:
    """Draws in a thread of its own. ``handicap`` above 1 makes it slower by that factor: it rests after every tick."""

    def __init__(
        self,
        number: int,
        threads: int,
        handicap: float,
        done: Callable[[Result], None],
        failed: Callable[[Exception], None],
        log: Callable[[str], None],
    ) -> None:
        self._number = number
        self._handicap = handicap
        self._done = done
        self._failed = failed
        self._log = log
        self._studio = Studio(threads)
        self._inbox: queue.SimpleQueue[Load | Show | None] = queue.SimpleQueue()
        self._picture = ""
        self._thread = threading.Thread(target=self._run, name="samepath drawing", daemon=True)
        self._thread.start()

    def put(self, work: Load | Show) -> None:
        """Add something to do; from any thread."""
        self._inbox.put(work)

    def close(self) -> None:
        """End, after what is being drawn now."""
        self._inbox.put(None)

    def _run(self) -> None:
        while (work := self._inbox.get()) is not None:
            try:
                self._done(self._built(work) if isinstance(work, Load) else self._drawn(work))
            except SamepathError as error:
                self._log(f"something could not be drawn: {error}")
            except Exception as error:  # a node that cannot draw must not stay
                self._failed(error)
                break
        self._studio.close()

    def _built(self, work: Load) -> Built:
        if not self._picture:
            self._picture = test_picture(self._studio)
        self._studio.prepare(work.road_map)
        return Built(work.episode, self._picture)

    def _drawn(self, work: Show) -> Drawn:
        state, packed = parts_of(work.shown)
        view = View.unpack(packed)
        digest = held_digest(state, view)
        orders = unpack_orders(work.orders) if work.orders else ()
        start_s = SYSTEM_CLOCK.monotonic_s()
        found = self._studio.make(view, orders, timed=work.timed)
        busy_s = SYSTEM_CLOCK.monotonic_s() - start_s
        if self._handicap > 1.0 and orders:
            SYSTEM_CLOCK.sleep_s((self._handicap - 1.0) * busy_s)
            busy_s = SYSTEM_CLOCK.monotonic_s() - start_s
        return self._parted(work, digest, busy_s, tuple(zip(orders, found, work.homes, strict=True)))

    def _parted(
        self, work: Show, digest: bytes, busy_s: float, found: tuple[tuple[Order, Made, tuple[int, ...]], ...]
    ) -> Drawn:
        """Part what goes to the main server from what stays here."""
        made, bulk, own = [], [], []
        for order, one, homes in found:
            carried = bool(one.payload) and any(home != self._number for home in homes)
            if carried:
                bulk.append(one.payload)
            if one.payload and self._number in homes:
                own.append((order.stream, order.head + one.payload))
            made.append([one.sensor, carried, one.trouble, one.memory, one.cost_s])
        return Drawn(Seen(work.frame, digest, busy_s, made), tuple(bulk), tuple(own), work.lossless)


def test_picture(studio: Studio) -> str:
    """The digest of a scene that every node must see alike: a picture, its depths and a scan."""
    studio.prepare(load_map(_TEST_MAP))
    looks = tuple(
        ActorLook(number, kind, Pose(4.0 * number, 1.5 * number, 0.4, 0.0, 0.0, 25.0 * number))
        for number, kind in enumerate(("vehicle.tesla.model3", "vehicle.gazelle.omafiets", "walker.pedestrian.0001"), start=1)
    )
    view = View(0, 1, 1, looks, tuple(Vector() for _ in looks), Weather(cloudiness=20.0, fog_density=5.0))
    pose = Pose(-8.0, 0.0, 2.4, 0.0, -5.0, 10.0)
    orders = [
        Order(number, number, type_id, attributes, b"", pose, None, number, 1, 0.0, 0.05)
        for number, (type_id, attributes) in enumerate(_TEST_SENSORS, start=10)
    ]
    return digest_of(*(one.payload for one in studio.make(view, orders)))
