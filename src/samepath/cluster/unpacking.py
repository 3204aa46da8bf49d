"""Frames of a node on another host that came packed: which of them the main server unpacks, and how large they may be.

A frame that only nodes on other hosts listen to is passed on as it came. One that is wanted here, or by a node of this host
through shared memory, is unpacked, and so is what a sensor remembers. It is done before anything is decided about the frame:
what cannot be unpacked, or is longer than what its sensor can send, was never drawn.
"""

from collections.abc import Callable, Mapping

from samepath.cluster import messages as m
from samepath.cluster.coordinator import Member, Payload
from samepath.cluster.link.compression import PackedError, PackedPart
from samepath.simulator.sensors.cameras import CAMERA_KINDS
from samepath.simulator.server.rendering import RenderRequest


def unpacked(
    message: m.FromNode,
    bulk: tuple[Payload, ...],
    owed: Mapping[int, RenderRequest],
    measurement_bytes: int,
    passes_on: Callable[[RenderRequest], bool],
) -> tuple[Payload, ...]:
    """The bulk of a node's message as the main server goes on with it; a PackedError for what nobody asked it for.

    ``owed`` are the requests of the message's tick that the node has not answered, by sensor; ``passes_on`` says whether a
    frame goes on to other hosts alone.
    """
    if not any(isinstance(part, PackedPart) for part in bulk):
        return bulk
    if not isinstance(message, m.TickResult):
        raise PackedError("a packed part in a message that brings no frames")
    parts, found = iter(bulk), list[Payload]()
    for result in message.results:
        request = owed.get(result.sensor)
        left_bytes = 0 if request is None else _most_bytes(request, measurement_bytes)
        for is_payload in [True] * result.has_payload + [False] * result.has_memory:
            part = next(parts, b"")
            if isinstance(part, PackedPart):
                if request is None:
                    part = b""  # nobody waits for it, so nobody unpacks it
                elif len(part) > left_bytes:
                    raise PackedError(f"{len(part)} bytes of sensor {result.sensor}, which sends {left_bytes} at most")
                elif not is_payload or not passes_on(request):
                    part = part.read()
            left_bytes -= len(part)
            found.append(part)
    return tuple(found)


def owed_by(member: Member | None, message: m.FromNode) -> dict[int, RenderRequest]:
    """The requests that a node has not answered, of the tick that a message is about."""
    if member is None or not isinstance(message, m.TickResult):
        return {}
    return {
        sensor: request
        for assignment in member.pending
        if assignment.frame == message.frame
        for sensor, request in assignment.requests.items()
    }


def _most_bytes(request: RenderRequest, measurement_bytes: int) -> int:
    """How long what comes of a request may be: a picture's size is known, of all else what the server allows at all."""
    return request.size_bytes if request.type_id in CAMERA_KINDS else max(request.size_bytes, 2 * measurement_bytes)
