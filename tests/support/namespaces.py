"""Hosts on one machine: network namespaces with addresses of their own, joined by a switch whose links can be slow and lossy.

A host here is a network, process, mount, IPC and host-name namespace: its processes reach the others over the network alone.
They have a ``/dev/shm`` of their own and do not see each other's ``/proc``, so shared memory cannot be opened across them,
as it cannot across machines. The switch is a namespace too, without any way out: no packet leaves the machine, and none of the
machine's own addresses is touched. Addresses are from 198.18.0.0/15, which is set aside for tests of networks.

Delay, jitter, loss and rate are those of each host's own link to the switch, both ways. Where the kernel has the queueing
discipline ``netem``, it is used, with a bridge between the hosts. Where it has not (small kernels of virtual machines often
lack it), the switch is a program (:mod:`tests.support.namespace_relay`) that holds packets back or drops them: the same real
packets, TCP and sockets at both ends. :attr:`Hosts.switch` says which of the two it is.

All this needs root: :func:`reason_not_to` says what is missing.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

ROOT: Final = Path(__file__).parents[2]
_RUN: Final = Path("/run/netns")
_NETWORK: Final = "198.18.77"
_CLONE_NEWNET: Final = 0x40000000
_BRIDGE: Final = "br0"
_NAME: Final = re.compile(r"sp([0-9]+)-")
NO_NAMESPACES: Final = "network namespaces cannot be made here"


@dataclass(frozen=True)
class LinkProfile:
    """A host's link to the switch. ``delay_ms`` and ``jitter_ms`` are one way; the delay of a packet is its mean and a normal
    deviate of that width, never below zero and never so that packets overtake each other. ``loss`` is a ratio of packets.

    A rate of 0 is as fast as the machine can.
    """

    name: str
    up_mbit: float = 0.0
    down_mbit: float = 0.0
    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0

    @property
    def is_plain(self) -> bool:
        """Is there nothing but, perhaps, a rate?"""
        return not (self.delay_ms or self.jitter_ms or self.loss)


WIRE: Final = LinkProfile("wire")
# Gigabit Ethernet through one switch: its rate, and a tenth of a millisecond for switch and cards.
LAN: Final = LinkProfile("lan", 1000.0, 1000.0, 0.1)
# The least that a 5G network must give its user by ITU-R M.2410 (2017): 100 Mbit/s down, 50 Mbit/s up, 4 ms one way on the
# radio. Jitter and what is lost in spite of the radio's own repeats are our assumptions.
CELL_5G: Final = LinkProfile("5g", 50.0, 100.0, 4.0, 1.0, 0.0001)
# Two spatial streams of IEEE 802.11ac at 80 MHz are 866.7 Mbit/s on air, of which a shared channel leaves a user about a
# quarter. Delay, jitter and loss are assumptions: a few milliseconds, as access points with several users show.
WIFI: Final = LinkProfile("wifi", 200.0, 200.0, 2.0, 1.5, 0.001)
PROFILES: Final = {profile.name: profile for profile in (WIRE, LAN, CELL_5G, WIFI)}


@cache
def reason_not_to() -> str:
    """Why there can be no such hosts here; empty: there can."""
    if os.geteuid() != 0:
        return "hosts as network namespaces need root"
    missing = [name for name in ("ip", "tc", "unshare", "mount", "hostname") if shutil.which(name) is None]
    if missing:
        return f"hosts as network namespaces need {', '.join(missing)} (Debian: iproute2, util-linux, hostname)"
    probe = f"sp{os.getpid()}-probe"
    try:
        _ip("netns", "add", probe)
        try:
            _ip("-n", probe, "link", "add", "one", "type", "veth", "peer", "name", "two")
        finally:
            _ip("netns", "del", probe)
    except HostsError as error:
        return f"{NO_NAMESPACES}: {error}"
    return ""


@cache
def has_netem() -> bool:
    """Does the kernel delay packets by itself?"""
    probe = f"sp{os.getpid()}-netem"
    _ip("netns", "add", probe)
    try:
        _ip("-n", probe, "link", "add", "one", "type", "veth", "peer", "name", "two")
        _run("tc", "-n", probe, "qdisc", "add", "dev", "one", "root", "netem", "delay", "1ms")
    except HostsError:
        return False
    finally:
        _ip("netns", "del", probe)
    return True


class HostsError(RuntimeError):
    """A command about namespaces failed."""


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HostsError(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _ip(*words: str) -> str:
    return _run("ip", *words)


def netem_words(profile: LinkProfile, mbit: float) -> list[str]:
    """What ``tc qdisc`` is told for one direction of a link; empty: nothing is in its way."""
    if profile.is_plain:
        # The burst is what a kernel timer of 250 Hz lets through between two ticks, and at least one large packet.
        burst = max(int(mbit * 1e6 / 8 / 250), 1 << 17)
        return ["tbf", "rate", f"{mbit:g}mbit", "burst", str(burst), "latency", "50ms"] if mbit else []
    words = ["netem", "limit", "10000", "delay", f"{profile.delay_ms:g}ms"]
    words += [f"{profile.jitter_ms:g}ms", "distribution", "normal"] if profile.jitter_ms else []
    words += ["loss", f"{100.0 * profile.loss:g}%"] if profile.loss else []
    return words + (["rate", f"{mbit:g}mbit"] if mbit else [])


class Host:
    """One host: where it is, and how something is run there."""

    def __init__(self, label: str, namespace: str, number: int) -> None:
        self.label, self.namespace, self.number = label, namespace, number
        self.address = f"{_NETWORK}.{number}"
        self.mac = f"02:00:00:00:00:{number:02x}"

    def popen(self, words: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Start a process there. When the returned process ends, so does everything that it has started."""
        # A process namespace of its own: what is in it ends with its first process, which ends with ``unshare``.
        script = f'hostname {self.label} && mount -t tmpfs tmpfs /dev/shm && exec "$@"'
        command = [
            "ip", "netns", "exec", self.namespace,
            "unshare", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc", "--uts", "--ipc",
            "sh", "-c", script, "sh", *words,
        ]  # fmt: skip
        return subprocess.Popen(command, **options)

    def python(self, *words: str, environment: Mapping[str, str] | None = None, **options: Any) -> "subprocess.Popen[Any]":
        """Start our own interpreter there, with this source tree first on its path."""
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        return self.popen(
            [sys.executable, *words], env={**os.environ, "PYTHONPATH": path, **(environment or {})}, cwd=ROOT, **options
        )

    def call(self, work: Callable[[], Any]) -> Any:
        """Do something in a thread whose sockets, and those of threads it starts, are this host's."""
        found: list[Any] = []
        failed: list[BaseException] = []

        def run() -> None:
            try:
                _enter(_RUN / self.namespace)
                found.append(work())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return found[0]

    def traffic_bytes(self) -> tuple[int, int]:
        """How many bytes this host has sent and received over its link so far."""
        (link,) = json.loads(_ip("-n", self.namespace, "-s", "-j", "link", "show", "eth0"))
        stats = link["stats64"]
        return stats["tx"]["bytes"], stats["rx"]["bytes"]


def _enter(namespace: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(handle, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    finally:
        os.close(handle)


class Hosts:
    """A main host, a client's, and ``nodes`` hosts for nodes, on one switch. ``seed`` is that of loss and jitter."""

    def __init__(self, nodes: int, profile: LinkProfile = WIRE, *, relay: bool | None = None, seed: int = 1) -> None:
        remove_left_behind()
        prefix = f"sp{os.getpid()}-"
        labels = ["main", "client", *(f"node-{number}" for number in range(1, nodes + 1))]
        self.all = [Host(label, prefix + label, number) for number, label in enumerate(labels, start=1)]
        self.main, self.client, self.nodes = self.all[0], self.all[1], self.all[2:]
        self._switch = f"{prefix}switch"
        needs_relay = not profile.is_plain and not has_netem()
        self.switch = "relay" if (needs_relay if relay is None else relay) else "bridge"
        self._relay: subprocess.Popen[str] | None = None
        self._seed = seed
        try:
            self._build()
            self.shape(profile)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _build(self) -> None:
        _ip("netns", "add", self._switch)
        for host in self.all:
            _ip("netns", "add", host.namespace)
            _ip("-n", host.namespace, "link", "set", "lo", "up")
            _ip(
                "link", "add", "eth0", "netns", host.namespace, "address", host.mac,
                "type", "veth", "peer", "name", _port(host), "netns", self._switch,
            )  # fmt: skip
            _ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-n", host.namespace, "link", "set", "eth0", "up")
            _ip("-n", self._switch, "link", "set", _port(host), "up")
        if self.switch == "bridge":
            _ip("-n", self._switch, "link", "add", _BRIDGE, "type", "bridge")
            _ip("-n", self._switch, "link", "set", _BRIDGE, "up")
            for host in self.all:
                _ip("-n", self._switch, "link", "set", _port(host), "master", _BRIDGE)
            return
        self._relay = subprocess.Popen(
            ["ip", "netns", "exec", self._switch, sys.executable, "-m", "tests.support.namespace_relay", str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        )  # fmt: skip
        self._tell({"seed": self._seed, "ports": [[_port(host), host.mac] for host in self.all]})

    def shape(self, profile: LinkProfile, hosts: Sequence[Host] | None = None) -> None:
        """Give these hosts, or all nodes, links of this kind from now on; others keep theirs. Main and client stay wired."""
        for host in self.nodes if hosts is None else hosts:
            if self.switch == "relay":
                # Loss is of packets as they are on the wire: the kernel must not hand over many of them as one.
                segments = "1" if profile.loss else "65535"
                _ip("-n", host.namespace, "link", "set", "eth0", "gso_max_segs", segments)
                for peer in (self.main, self.client):
                    _ip("-n", peer.namespace, "link", "set", "eth0", "gso_max_segs", segments)
                self._tell({"port": self.all.index(host), "profile": asdict(profile)})
                continue
            if not profile.is_plain and not has_netem():
                raise HostsError("this kernel has no netem: ask for a relay")
            for namespace, device, mbit in (
                (host.namespace, "eth0", profile.up_mbit),
                (self._switch, _port(host), profile.down_mbit),
            ):
                with suppress(HostsError):  # there was none
                    _run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root")
                words = netem_words(profile, mbit)
                if words:
                    _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *words)

    def _tell(self, what: Mapping[str, object]) -> dict[str, Any]:
        relay = self._relay
        if relay is None or relay.stdin is None or relay.stdout is None:
            raise HostsError("there is no relay")
        relay.stdin.write(json.dumps(what) + "\n")
        relay.stdin.flush()
        answer = relay.stdout.readline()
        if not answer:
            raise HostsError(f"the relay has ended: {relay.wait()}")
        return dict(json.loads(answer))

    def counts(self) -> dict[str, Any]:
        """What the relay has passed on and dropped so far, and by how much it was late itself; empty for a bridge."""
        return self._tell({"counts": True}) if self.switch == "relay" else {}

    def close(self) -> None:
        if self._relay is not None:
            if self._relay.stdin is not None:
                self._relay.stdin.close()
            self._relay.wait(60)
            if self._relay.stdout is not None:
                self._relay.stdout.close()
            self._relay = None
        for namespace in (*(host.namespace for host in self.all), self._switch):
            with suppress(HostsError):
                _ip("netns", "del", namespace)


def _port(host: Host) -> str:
    return f"port{host.number}"


def remove_left_behind() -> None:
    """Remove namespaces of runs that were killed before they could."""
    if not _RUN.exists():
        return
    for path in sorted(_RUN.iterdir()):
        owner = _NAME.match(path.name)
        if owner and not Path("/proc", owner[1]).exists():
            with suppress(HostsError):
                _ip("netns", "del", path.name)


def end(started: "subprocess.Popen[Any]", grace_s: float = 10.0) -> None:
    """Ask what runs in a host to end, and wait for it; kill it if that takes too long.

    SIGTERM goes to what runs there, not to what has unshared it: that would kill it.
    """
    if started.poll() is None:
        for pid in _children(started.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    try:
        started.wait(grace_s)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()
    for pipe in (started.stdin, started.stdout, started.stderr):
        if pipe is not None:
            pipe.close()


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
