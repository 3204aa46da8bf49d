"""Reaching a Ray cluster and finding the hosts in it. Ray is imported here and in ``ray_hosts``, and only when asked for."""

import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import psutil

from samepath import __version__
from samepath.base.errors import StudyError

Ray = Any
"""The module ``ray``, and what it makes: nothing of it is known before it is imported."""

NAMESPACE: Final = "samepath"
LABEL: Final = "samepath-host"
"""A label of a Ray node that says which host it is; two nodes with different ones count as two hosts."""
ANSWER_S: Final = 60.0
_REACH_S: Final = 5.0
_LOOPBACK: Final = ("127.0.0.1", "localhost")
_INSTALL: Final = "pip install 'samepath[ray]'"
# Ray writes here where the cluster is that was started last on this machine; «auto» means that one.
_LAST_STARTED: Final = Path("/tmp/ray/ray_current_cluster")  # noqa: S108 - Ray's choice, and only read
# Read once, when Ray is imported: no statistics sent, no ten minutes of trying in vain.
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_KEEP_LOOPBACK: Final = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@dataclass(frozen=True)
class Node:
    """A Ray node that may be given work. ``label`` is empty where it has none."""

    id: str
    hostname: str
    address: str
    label: str
    cpus: float
    gpus: float


@dataclass(frozen=True)
class Look:
    """What a node's Python says: the samepath installed there (empty: none), and which running kernel this is."""

    samepath: str
    problem: str
    boot: str


def connect(address: str) -> Ray:
    """Join a cluster and return Ray."""
    reachable = _checked(address)
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise StudyError(f"--ray needs Ray, which is not installed: {_INSTALL}") from error
    handler = signal.getsignal(signal.SIGTERM)
    with _overheard() as said:
        try:
            ray.init(address=reachable, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.CRITICAL)
        except (ConnectionError, RuntimeError, ValueError, AssertionError, OSError, ray.exceptions.RayError) as error:
            said.seek(0)
            raise StudyError(_no_entry(address, str(error), said.read().decode(errors="replace"))) from error
        finally:
            signal.signal(signal.SIGTERM, handler)  # Ray sets its own
    return ray


@contextmanager
def _overheard() -> Iterator[IO[bytes]]:
    """Keep from the user what Ray's compiled part writes on stderr, and have it to tell why something went wrong."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as said:
        before = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield said
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
            os.close(before)


def _checked(address: str) -> str:
    """Return the address that Ray is to be given; refuse what it cannot reach, at once and in one line."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "") or _last_started() or address
        if address == "auto":
            return address
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise StudyError(
            f"--ray takes auto or HOST:PORT, the address of the cluster's head, but {address!r} came: "
            "join the cluster with ray start --address=HOST:PORT and run samepath there"
        )
    host = host.strip("[]")
    if not _answers(host, int(port)):
        raise StudyError(
            f"--ray {address}: nobody answers there: start the cluster (ray start --head --port={port}), "
            "or give the address that it printed"
        )
    others = [one.address for many in psutil.net_if_addrs().values() for one in many if one.family is socket.AF_INET]
    if host in _LOOPBACK and not any(_answers(one, int(port)) for one in others if not one.startswith("127.")):
        # Ray would look for the head at another address of this machine; this one listens here only.
        os.environ.setdefault(_KEEP_LOOPBACK, "0")
    return address


def _last_started() -> str:
    try:
        return _LAST_STARTED.read_text("utf-8").strip()
    except OSError:
        return ""


def _answers(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), _REACH_S):
            return True
    except OSError:
        return False


def _no_entry(address: str, error: str, said: str) -> str:
    """Say in one line why a cluster did not let samepath in, and what to do."""
    words = " ".join(error.split())
    if "Could not find any running Ray instance" in words:
        return f"--ray {address}: no Ray runs on this machine: ray start --head, or ray start --address=HOST:PORT to join one"
    if "Version mismatch" in words:
        return f"--ray {address}: the cluster runs another Ray or Python than this machine ({words}): install the same"
    if any(mark in text for mark in ("uthenticat", "AuthToken") for text in (words, said)):
        return f"--ray {address}: the cluster wants another token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as it has them"
    advice = "this machine must be part of it: ray start --address=HOST:PORT --num-cpus=0 joins without running repeats"
    return f"--ray {address}: no connection ({words}); {advice}"


def nodes_of(ray: Ray) -> list[Node]:
    """Return the nodes that are alive and have cores to give, in a fixed order."""
    found = [
        Node(
            id=str(node["NodeID"]),
            hostname=str(node["NodeManagerHostname"]),
            address=str(node["NodeManagerAddress"]),
            label=str(node.get("Labels", {}).get(LABEL, "")),
            cpus=float(node["Resources"].get("CPU", 0.0)),
            gpus=float(node["Resources"].get("GPU", 0.0)),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]
    usable = [node for node in found if node.cpus > 0]
    if not usable:
        raise StudyError(f"the Ray cluster has {len(found)} nodes, none with cores to run on: start some without --num-cpus=0")
    return sorted(usable, key=lambda node: (node.label, node.hostname, node.address, node.id))


def look_at(ray: Ray, nodes: Sequence[Node], say: Callable[[str], None]) -> dict[Node, Look]:
    """Ask every node for its samepath and its kernel; samepath need not be there for that. Nodes that are gone are left out."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def look() -> tuple[str, str, str]:  # goes over as text: it may use nothing of this module
        import pathlib

        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        try:
            import samepath
        except ImportError as error:
            return "", str(error), boot
        return samepath.__version__, "", boot

    task = ray.remote(num_cpus=0, max_retries=0)(look)
    asked = [task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote() for node in nodes]
    looks = {}
    for node, one in zip(nodes, asked, strict=True):
        where = f"Ray node {node.hostname} ({node.address})"
        try:
            looks[node] = Look(*ray.get(one, timeout=ANSWER_S))
        except ray.exceptions.GetTimeoutError as error:
            raise StudyError(f"{where} gave no sign within {ANSWER_S:g} s: look at it, or stop Ray there (ray stop)") from error
        except ray.exceptions.RayError as error:  # the cluster may take a while to notice that a node is gone
            say(f"{where} is not used: {first_line(error)}")
    if not looks:
        raise StudyError(f"none of the Ray cluster's {len(nodes)} nodes answers: start Ray there again (ray start)")
    return looks


def choose_hosts(looks: Mapping[Node, Look], say: Callable[[str], None]) -> dict[str, Node]:
    """Return one node for each host, by the host's name. Nodes on one machine are one host, unless labels say otherwise."""
    for node, look in looks.items():
        if look.samepath != __version__:
            found = f"samepath {look.samepath} is" if look.samepath else f"no samepath is ({look.problem})"
            raise StudyError(
                f"Ray node {node.hostname} ({node.address}): samepath {__version__} was wanted, but {found} installed there: "
                "install the same version on every node, into the Python that Ray is started with"
            )
    chosen: dict[tuple[str, str], Node] = {}
    for node, look in looks.items():
        first = chosen.setdefault(("label", node.label) if node.label else ("boot", look.boot), node)
        if first is not node:
            say(f"Ray nodes {first.address} and {node.address} are on one host, {_name(first)}: only the first is used")
    names = [_name(node) for node in chosen.values()]
    return {
        name if names.count(name) == 1 else f"{name} ({node.address})": node
        for name, node in zip(names, chosen.values(), strict=True)
    }


def _name(node: Node) -> str:
    return node.label or node.hostname


def first_line(error: Exception) -> str:
    """Return what an error of Ray's says first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].partition(" lease_id=")[0].rstrip(".") if lines else type(error).__name__


def merged(reasons: Mapping[str, str]) -> str:
    """Say why no host permits a cell: once where all have the same reason."""
    different = list(dict.fromkeys(reasons.values()))
    if len(different) == 1:
        return different[0]
    return "; ".join(f"on {host}: {reason}" for host, reason in reasons.items())
