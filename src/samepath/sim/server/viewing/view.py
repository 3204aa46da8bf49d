"""Everything that can be seen after a tick, as plain data: whoever has it needs no history to draw the tick."""

from dataclasses import dataclass, fields
from typing import Final

from samepath.sim.sensors.looks import ActorLook
from samepath.sim.sensors.scene import Lamp
from samepath.sim.sensors.weather import Weather
from samepath.sim.server.codec import WireError
from samepath.sim.server.debug import DebugShape, read_shape, written_shape
from samepath.sim.server.viewing.packing import numbers, numbers_of, packed, rows_of, table, unpacked
from samepath.sim.world.records import Pose, Vector

_POSE, _VECTOR = 6, 3
_STANDS: Final = -1.0
"""In place of the distance that somebody has walked who stands."""
_WEATHER: Final = tuple(one.name for one in fields(Weather))


@dataclass(frozen=True)
class View:
    """What there is to see after the tick ``frame`` of an episode.

    ``tick`` counts the world's own steps. ``velocities`` belong to ``looks``, one for one. ``past`` says where actors were one
    frame earlier, for the optical flow; None: nobody looked then, and nothing counts as having moved.
    """

    episode: int
    frame: int
    tick: int
    looks: tuple[ActorLook, ...]
    velocities: tuple[Vector, ...]
    weather: Weather
    lights: tuple[int, ...] = ()
    hidden: tuple[str, ...] = ()
    past: tuple[tuple[int, Pose], ...] | None = None
    shapes: tuple[DebugShape, ...] = ()

    def pack(self) -> bytes:
        """The view as bytes: equal views give equal bytes."""
        types = sorted({one.type for one in self.looks})
        row = {name: number for number, name in enumerate(types)}
        return packed(
            [
                [self.episode, self.frame, self.tick],
                types,
                numbers([one.id for one in self.looks]),
                numbers([row[one.type] for one in self.looks]),
                numbers([int(one.lamps) for one in self.looks]),
                table([one.pose for one in self.looks], _POSE),
                table([[_STANDS if one.walked_m is None else one.walked_m] for one in self.looks], 1),
                [None if one.paint is None else list(one.paint) for one in self.looks],
                table(self.velocities, _VECTOR),
                [getattr(self.weather, name) for name in _WEATHER],
                list(self.lights),
                list(self.hidden),
                _written_past(self.past),
                [written_shape(one) for one in self.shapes],
            ]
        )

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> "View":
        """The view of :meth:`pack`."""
        try:
            head, types, ids, kinds, lamps, poses, walked, paints, speeds, weather, lights, hidden, past, shapes = unpacked(
                data, "a view"
            )
            looks = tuple(
                ActorLook(
                    number,
                    types[kind],
                    Pose(*pose),
                    None if paint is None else (paint[0], paint[1], paint[2]),
                    Lamp(lamp),
                    None if far_m == _STANDS else far_m,
                )
                for number, kind, lamp, pose, (far_m,), paint in zip(
                    numbers_of(ids), numbers_of(kinds), numbers_of(lamps), rows_of(poses, _POSE), rows_of(walked, 1), paints,
                    strict=True,
                )
            )  # fmt: skip
            return cls(
                episode=head[0],
                frame=head[1],
                tick=head[2],
                looks=looks,
                velocities=tuple(Vector(*one) for one in rows_of(speeds, _VECTOR)),
                weather=Weather(*weather),
                lights=tuple(lights),
                hidden=tuple(hidden),
                past=None if past is None else tuple(zip(numbers_of(past[0]), _poses(past[1]), strict=True)),
                shapes=tuple(read_shape(one) for one in shapes),
            )
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise WireError(f"a view was wanted, but what came has another shape ({type(error).__name__})") from error


def _written_past(past: tuple[tuple[int, Pose], ...] | None) -> list[bytes] | None:
    return None if past is None else [numbers([number for number, _ in past]), table([pose for _, pose in past], _POSE)]


def _poses(data: bytes) -> list[Pose]:
    return [Pose(*one) for one in rows_of(data, _POSE)]
