"""A switch in user space for :mod:`tests.support.namespaces`, where the kernel cannot delay and drop packets itself.

It runs in the namespace of the switch, with a raw socket on the port of every host, and passes frames from port to port. Each
goes through two links: its sender's way up and its receiver's way down. A link sends one frame after the other at its rate,
keeps no more waiting than a buffer of 50 ms (at least 64 KiB), loses some, and delays the rest; frames never overtake each
other, as on a radio link that repeats what was lost. Loss and jitter come from a seeded stream for each link.

Frames come with the kernel's own header about checksums and segments (``PACKET_VNET_HDR``), so that one of 64 KiB, which the
kernel would cut into packets at a real card, passes as one: a gigabit a second is a few thousand frames. Its time on the link
is that of all its packets. Links that lose packets are given single ones.

Commands come as JSON lines on standard input, each is answered by one line; the end of the input ends the relay.
"""

import ctypes
import heapq
import json
import os
import select
import socket
import struct
import sys
from typing import Final

import numpy as np

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.processes import die_with_parent
from samepath.core.streams import stream

_ETH_P_ALL: Final = 0x0003
_SOL_PACKET: Final = 263
_PACKET_VNET_HDR: Final = 15
_PACKET_QDISC_BYPASS: Final = 20
_PACKET_IGNORE_OUTGOING: Final = 23
_SO_RCVBUFFORCE: Final = 33
_SO_SNDBUFFORCE: Final = 32
_VNET: Final = struct.Struct("<BBHHHH")  # flags, gso type, header length, gso size, checksum start and offset
_FRAME_MOST: Final = (1 << 17) + _VNET.size
_AT_ONCE: Final = 64
_BUFFER_S: Final = 0.05
_BUFFER_LEAST: Final = 1 << 16
_ON_WIRE_BYTES: Final = 24  # preamble, check sequence and gap of an Ethernet frame
_HEADERS_BYTES: Final = 66  # Ethernet, IP and TCP with timestamps: what each packet of a large frame has again
_PR_SET_TIMERSLACK: Final = 29
_BLOCK: Final = 4096


class Link:
    """One direction of a host's link. Times are seconds of the monotonic clock."""

    def __init__(self, seed: int, name: str) -> None:
        self._chance = stream(seed, "relay", name)
        self._uniform = self._normal = np.empty(0)
        self._drawn = 0
        self._free_s = self._last_s = 0.0
        self.dropped = self.overrun = 0
        self.set(0.0, 0.0, 0.0, 0.0)

    def set(self, mbit: float, delay_ms: float, jitter_ms: float, loss: float) -> None:
        self._s_per_byte = 8.0 / (mbit * 1e6) if mbit else 0.0
        self._delay_s, self._jitter_s, self._loss = 1e-3 * delay_ms, 1e-3 * jitter_ms, loss
        self._most_s = max(_BUFFER_S, _BUFFER_LEAST * self._s_per_byte)

    def arrival_s(self, now_s: float, size: int) -> float | None:
        """When a frame that is sent now arrives; None: never."""
        start_s = max(now_s, self._free_s)
        if start_s - now_s > self._most_s:
            self.overrun += 1
            return None
        self._free_s = start_s + size * self._s_per_byte
        uniform, normal = self._chances()
        if uniform < self._loss:  # it took its time on the link all the same
            self.dropped += 1
            return None
        self._last_s = max(self._last_s, self._free_s + max(self._delay_s + self._jitter_s * normal, 0.0))
        return self._last_s

    def _chances(self) -> tuple[float, float]:
        if not self._loss and not self._jitter_s:
            return 1.0, 0.0
        if self._drawn == len(self._uniform):
            self._uniform, self._normal, self._drawn = self._chance.random(_BLOCK), self._chance.standard_normal(_BLOCK), 0
        self._drawn += 1
        return float(self._uniform[self._drawn - 1]), float(self._normal[self._drawn - 1])


class Port:
    """A host's port: its socket and its two links."""

    def __init__(self, device: str, mac: str, seed: int) -> None:
        self.mac = bytes.fromhex(mac.replace(":", ""))
        self.up, self.down = Link(seed, f"{device} up"), Link(seed, f"{device} down")
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        for option in (_PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING, _PACKET_QDISC_BYPASS):
            self.socket.setsockopt(_SOL_PACKET, option, 1)
        for option in (_SO_RCVBUFFORCE, _SO_SNDBUFFORCE):
            self.socket.setsockopt(socket.SOL_SOCKET, option, 256 << 20)
        self.socket.bind((device, 0))
        self.socket.setblocking(False)


class Relay:
    def __init__(self, seed: int, ports: list[tuple[str, str]]) -> None:
        self.ports = [Port(device, mac, seed) for device, mac in ports]
        self._by_mac = {port.mac: port for port in self.ports}
        # When, an order among equals, the port it is for, the frame, and whether it is still on its sender's link.
        self._waiting: list[tuple[float, int, Port, bytes, bool]] = []
        self._number = 0
        self.frames = self.bytes = self.failed = 0
        self.late_s_max = 0.0

    def run(self) -> None:
        """Pass frames on, and do what the commands say, until their end."""
        sources = {port.socket.fileno(): port for port in self.ports}
        commands = sys.stdin.fileno()
        while True:
            timeout_s = None
            if self._waiting:
                timeout_s = max(self._waiting[0][0] - SYSTEM_CLOCK.monotonic_s(), 0.0)
            readable, _, _ = select.select([*sources, commands], [], [], timeout_s)
            for ready in readable:
                if ready == commands:
                    if not self._command(sys.stdin.readline()):
                        return
                else:
                    self._read(sources[ready])
            self._pass_on()

    def _command(self, line: str) -> bool:
        if not line:
            return False
        said = json.loads(line)
        if "profile" in said:
            profile, port = said["profile"], self.ports[said["port"]]
            rest = (profile["delay_ms"], profile["jitter_ms"], profile["loss"])
            port.up.set(profile["up_mbit"], *rest)
            port.down.set(profile["down_mbit"], *rest)
        links = [link for port in self.ports for link in (port.up, port.down)]
        answer = {
            "frames": self.frames,
            "bytes": self.bytes,
            "dropped": sum(link.dropped for link in links),
            "overrun": sum(link.overrun for link in links),
            "failed": self.failed,
            "late_ms_max": 1e3 * self.late_s_max,
        }
        print(json.dumps(answer), flush=True)
        return True

    def _read(self, source: Port) -> None:
        for _ in range(_AT_ONCE):
            try:
                frame = source.socket.recv(_FRAME_MOST)
            except BlockingIOError:
                return
            now_s = SYSTEM_CLOCK.monotonic_s()
            arrival_s = source.up.arrival_s(now_s, _wire_bytes(frame))
            if arrival_s is None:
                continue
            to = frame[_VNET.size : _VNET.size + 6]
            found = self._by_mac.get(to)
            targets = [found] if found is not None else [port for port in self.ports if port is not source]
            for target in targets:
                self._push(arrival_s, target, frame, True)

    def _push(self, at_s: float, target: Port, frame: bytes, is_on_the_way_up: bool) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (at_s, self._number, target, frame, is_on_the_way_up))

    def _pass_on(self) -> None:
        now_s = SYSTEM_CLOCK.monotonic_s()
        while self._waiting and self._waiting[0][0] <= now_s:
            at_s, _, target, frame, is_on_the_way_up = heapq.heappop(self._waiting)
            if is_on_the_way_up:
                # From when it was at the switch, not from now: what the relay itself is late must not add up.
                arrival_s = target.down.arrival_s(at_s, _wire_bytes(frame))
                if arrival_s is not None:
                    self._push(arrival_s, target, frame, False)
                continue
            self.late_s_max = max(self.late_s_max, now_s - at_s)
            try:
                target.socket.send(frame)
                self.frames += 1
                self.bytes += len(frame) - _VNET.size
            except OSError:
                self.failed += 1  # as a full buffer of a card: TCP sends it again


def _wire_bytes(frame: bytes) -> int:
    gso_size = int.from_bytes(frame[4:6], "little")
    length = len(frame) - _VNET.size
    packets = max(-(-(length - _HEADERS_BYTES) // gso_size), 1) if gso_size else 1
    return length + packets * _ON_WIRE_BYTES + (packets - 1) * _HEADERS_BYTES


def main() -> None:
    # ``ip netns exec`` has become this process: its parent is whoever builds the hosts.
    die_with_parent(int(sys.argv[1]))
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    said = json.loads(sys.stdin.readline())
    relay = Relay(said["seed"], [(device, mac) for device, mac in said["ports"]])
    print(json.dumps({"pid": os.getpid()}), flush=True)
    relay.run()


if __name__ == "__main__":
    main()
