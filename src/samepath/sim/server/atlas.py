"""Which maps a client can ask for: ours, those the user gave other names to, and one a client sent."""

from collections.abc import Callable, Mapping
from typing import Final

from samepath.base.errors import InputError
from samepath.sim.maps import RoadMap, available_maps, load_map, parse_map
from samepath.sim.server.limits import Limits
from samepath.sim.server.map_trial import MapTrial
from samepath.sim.server.scene import scene_of

SENT: Final = "OpenDriveMap"
_FOLDER: Final = "Carla/Maps"


def check_aliases(aliases: Mapping[str, str]) -> None:
    """Refuse an alias for a map that is not there, or one that hides a map of ours."""
    for name, target in aliases.items():
        if not name or "/" in name or name in (SENT, *available_maps()):
            raise InputError(f"alias {name!r}: a new name without slashes was wanted, such as Town03")
        if target not in available_maps():
            raise InputError(f"alias {name}={target}: there is no map {target!r}; there are: {', '.join(available_maps())}")


class Atlas:
    """The maps of a server."""

    def __init__(self, aliases: Mapping[str, str], log: Callable[[str], None], limits: Limits) -> None:
        check_aliases(aliases)
        self._aliases = dict(aliases)
        self._log = log
        self._limits = limits
        self._trial = MapTrial(limits)
        self._sent: RoadMap | None = None

    @property
    def aliases(self) -> Mapping[str, str]:
        """The names that the user gave to maps."""
        return dict(self._aliases)

    @property
    def sent(self) -> RoadMap | None:
        """The map that a client sent last."""
        return self._sent

    def forget(self) -> None:
        """Forget the map that a client sent."""
        self._sent = None

    def paths(self) -> tuple[str, ...]:
        """All maps, as CARLA names them."""
        sent = (SENT,) if self._sent is not None else ()
        return tuple(f"/Game/{_FOLDER}/{name}" for name in (*available_maps(), *self._aliases, *sent))

    def close(self) -> None:
        """The end: a map that is being tried is given up; from any thread."""
        self._trial.close()

    def receive(self, xodr: str, *, tried: bool = False) -> None:
        """Keep a map that a client sent; it is built at once, so that what is wrong with it is said at once.

        Unless it was ``tried`` before, another process does so first: whatever a client sends, this one goes on.
        """
        if len(xodr.encode("utf-8", errors="surrogatepass")) > self._limits.opendrive_bytes:
            raise InputError(f"an OpenDRIVE file of at most {self._limits.opendrive_bytes} bytes was wanted")
        if not tried:
            self._trial.run(xodr, SENT)
        road_map = parse_map(xodr, SENT)
        sections = (one for road in road_map.document.roads for one in road.sections)
        lanes_m = sum((one.end_m - one.start_m) * len(one.lanes) for one in sections)
        if lanes_m > self._limits.road_m:
            raise InputError(f"lanes of at most {self._limits.road_m:g} m together were wanted, but {lanes_m:g} m came")
        scene_of(SENT, road_map).work_out()
        self._sent = road_map

    def open(self, asked: str) -> tuple[str, RoadMap]:
        """Return the name to show and the map behind it; any path CARLA would take is taken."""
        name = asked.rsplit("/", 1)[-1]
        if name == SENT and self._sent is not None:
            return name, self._sent
        target = self._aliases.get(name, name)
        if target not in available_maps():
            ours = ", ".join((*available_maps(), *self._aliases))
            raise InputError(
                f"map {name[:80]!r} not found; there are: {ours}; samepath serve --alias {name[:40]}=MAP names one so"
            )
        if target != name:
            self._log(f"map {name} was asked for: {target} is served in its place")
        return name, load_map(target)


def shown_path(name: str) -> str:
    """A map's name in its description."""
    return f"{_FOLDER}/{name}"
