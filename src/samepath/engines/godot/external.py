"""Controllers in a process of their own, by UDP on loopback: told where everybody is, they answer how to drive.

    python -m samepath.engines.godot.external SCENARIO

prints its port and answers until it is ended. Of messages that wait, only the latest is answered, as by a client of CARLA
in asynchronous mode; the controllers take it that a message comes with every physics step.
"""

import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final

from samepath.core.states import VehicleCommand
from samepath.core.trig import heading_deg
from samepath.engines.godot.simulator import STEPS_PER_S
from samepath.scenarios.scripts import (
    ActorController,
    PlanarState,
    Role,
    controller_of,
    read_script,
    scripted_chassis,
    with_run_up,
)

HELLO: Final = 0xFFFFFFFF
_LONGEST: Final = 65536
_HEAD: Final = struct.Struct("<Id")
_SEEN: Final = struct.Struct("<6f")
_ANSWER: Final = struct.Struct("<3dB")


class Controllers:
    """Everybody's controller: a message in, an answer out."""

    def __init__(self, roles: Sequence[Role]) -> None:
        self._controllers: list[ActorController] = []
        for role in roles:
            controller = controller_of(role, scripted_chassis, 1 / STEPS_PER_S)
            if controller is not None:
                self._controllers.append(controller)

    def answer(self, message: bytes) -> bytes | None:
        """Return what to do about a message; nothing about one that is none of ours."""
        if len(message) != _HEAD.size + _SEEN.size * len(self._controllers):
            return None
        step, time_s = _HEAD.unpack_from(message)
        parts = [struct.pack("<I", step)]
        for index, controller in enumerate(self._controllers):
            command = VehicleCommand()
            if step != HELLO:
                x_m, y_m, ahead_x, ahead_y, vx_mps, vy_mps = _SEEN.unpack_from(message, _HEAD.size + index * _SEEN.size)
                decided = controller.decide(PlanarState(x_m, y_m, heading_deg(ahead_x, ahead_y), vx_mps, vy_mps), time_s)
                command = decided if isinstance(decided, VehicleCommand) else command
            parts.append(_ANSWER.pack(command.throttle, command.steer, command.brake, controller.finished))
        return b"".join(parts)


def serve(controllers: Controllers) -> None:
    """Print the port, then answer for ever."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        while True:
            message, sender = _latest(listener)
            answer = controllers.answer(message)
            if answer is not None:
                listener.sendto(answer, sender)


def _latest(listener: socket.socket) -> tuple[bytes, tuple[str, int]]:
    """Wait for a message, and return the last of those that are there."""
    found = listener.recvfrom(_LONGEST)
    while True:
        try:
            found = listener.recvfrom(_LONGEST, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return found


if __name__ == "__main__":
    serve(Controllers(with_run_up(read_script(sys.argv[1])).roles))
