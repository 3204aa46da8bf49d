"""Reaching a Ray cluster, asking its nodes what they are, and undoing what Ray sets in the processes it starts.

Ray is imported inside functions, and only when asked for: it takes seconds and changes its process. An address is tried before
Ray is given it, because Ray itself would try in vain for minutes and then print a page. What runs in a process of Ray's is to
find its host as without Ray: environment, module path and priority are taken back.
"""

import logging
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

import psutil

from samepath.core.errors import ClusterError, InputError
from samepath.core.files import read_trusted

# The module ``ray``, and what it makes: nothing of it is known before it is imported.
Ray = Any

NAMESPACE: Final = "samepath"
# A label of a Ray node that says which host it is; two nodes with different ones count as two hosts.
LABEL: Final = "samepath-host"
ANSWER_S: Final = 60.0
_REACH_S: Final = 5.0
_LOOPBACK: Final = ("127.0.0.1", "localhost")
# Ray writes here where the cluster is that was started last on this machine; «auto» means that one.
_LAST_STARTED: Final = Path("/tmp/ray/ray_current_cluster")  # noqa: S108 - Ray's choice, and believed only if it is ours
_ADDRESS_MOST_BYTES: Final = 300
# Read once, when Ray is imported: no statistics sent, no ten minutes of trying in vain.
_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_NUM_REDIS_GET_RETRIES": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# With 0 in it Ray leaves a loopback address as it is; otherwise it looks for another one of this machine.
KEEP_LOOPBACK: Final = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@dataclass(frozen=True)
class RayNode:
    """A Ray node that may be given work. ``label`` is empty where it has none."""

    id: str
    hostname: str
    address: str
    label: str
    cpus: float
    gpus: float


@dataclass(frozen=True)
class NodeProbe:
    """What a node's Python says: the samepath installed there (empty: none), and which running kernel this is."""

    samepath: str
    problem: str
    boot: str


def import_ray(missing: str) -> Ray:
    """Import Ray, quietened; ``missing`` is what to tell where it is not installed."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ClusterError(missing) from error
    return ray


def connect(address: str, missing: str) -> Ray:
    """Join a cluster and return Ray; ``missing`` is what to tell where Ray is not installed."""
    if find_spec("ray") is None:
        raise ClusterError(missing)
    reachable = _checked(address)
    ray = import_ray(missing)
    with overheard() as said, own_signals():
        try:
            ray.init(address=reachable, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.CRITICAL)
        except (ConnectionError, RuntimeError, ValueError, AssertionError, OSError, ray.exceptions.RayError) as error:
            said.seek(0)
            raise ClusterError(_no_entry(address, str(error), said.read().decode(errors="replace"))) from error
    return ray


@contextmanager
def own_signals() -> Iterator[None]:
    """Keep this process's answer to SIGTERM, which Ray replaces by its own."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def overheard() -> Iterator[IO[bytes]]:
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
    """Return the address that Ray is to be given; refuse what it cannot reach, at once and in one line.

    Ray is never left to look for a cluster itself: it believes a file that anybody may have written, and after that the
    command line of any process of any user that calls itself a raylet. What answers there is sent code and gets to run its own.
    """
    _check_token()
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "") or _last_started()
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ClusterError(
            f"--ray takes auto or HOST:PORT, the address of the cluster's head, but {address!r} came: "
            "join the cluster with ray start --address=HOST:PORT and run samepath there"
        )
    host = host.strip("[]")
    if not _answers(host, int(port)):
        raise ClusterError(
            f"--ray {address}: nobody answers there: start the cluster (ray start --head --port={port}), "
            "or give the address that it printed"
        )
    addresses = [found.address for many in psutil.net_if_addrs().values() for found in many if found.family is socket.AF_INET]
    if host in _LOOPBACK and not any(_answers(other, int(port)) for other in addresses if not other.startswith("127.")):
        # Ray would look for the head at another address of this machine; this one listens here only.
        os.environ.setdefault(KEEP_LOOPBACK, "0")
    return address


def _last_started() -> str:
    try:
        found = read_trusted(_LAST_STARTED, _ADDRESS_MOST_BYTES, follow=False).decode("utf-8", "replace").strip()
    except InputError as error:
        raise ClusterError(f"--ray auto: {error}; or give the cluster's address as --ray HOST:PORT") from error
    except FileNotFoundError:
        found = ""
    except OSError as error:
        raise ClusterError(f"--ray auto: {_LAST_STARTED} cannot be read: {error.strerror}; give --ray HOST:PORT") from error
    if not found:
        raise ClusterError(_no_entry("auto", "Could not find any running Ray instance", ""))
    return found


def _check_token() -> None:
    """Refuse a token that somebody else may have put there, or can read: with it one runs code on the cluster as this user."""
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_MODE", "token").lower() != "token":
        return
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    try:
        read_trusted(path, 1, secret=True)
    except InputError as error:
        raise ClusterError(f"--ray: the token {error}") from error
    except OSError:
        return  # there is none, or Ray will say so


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
    advice = "this machine must be part of it: ray start --address=HOST:PORT --num-cpus=0 joins without lending cores"
    return f"--ray {address}: no connection ({words}); {advice}"


def nodes_of(ray: Ray) -> list[RayNode]:
    """Return the nodes that are alive and have cores to give, in a fixed order; there may be none."""
    found = [
        RayNode(
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
    return sorted(usable, key=lambda node: (node.label, node.hostname, node.address, node.id))


def probe_nodes(ray: Ray, nodes: Sequence[RayNode], say: Callable[[str], None]) -> dict[RayNode, NodeProbe]:
    """Ask every node for its samepath and its kernel; samepath need not be there for that. Nodes that are gone are left out."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def probe() -> tuple[str, str, str]:  # goes over as text: it may use nothing of this module
        import pathlib

        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        try:
            import samepath
        except ImportError as error:
            return "", str(error), boot
        return samepath.__version__, "", boot

    task = ray.remote(num_cpus=0, max_retries=0)(probe)
    asked = [task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False)).remote() for node in nodes]
    probes = {}
    for node, answer in zip(nodes, asked, strict=True):
        where = f"Ray node {node.hostname} ({node.address})"
        try:
            probes[node] = NodeProbe(*ray.get(answer, timeout=ANSWER_S))
        except ray.exceptions.GetTimeoutError as error:
            raise ClusterError(
                f"{where} gave no sign within {ANSWER_S:g} s: look at it, or stop Ray there (ray stop)"
            ) from error
        except ray.exceptions.RayError as error:  # the cluster may take a while to notice that a node is gone
            say(f"{where} is not used: {first_line(error)}")
    if not probes:
        raise ClusterError(f"none of the Ray cluster's {len(nodes)} nodes answers: start Ray there again (ray start)")
    return probes


def first_line(error: Exception) -> str:
    """Return what an error of Ray's says first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].partition(" lease_id=")[0].rstrip(".") if lines else type(error).__name__


def undo_environment() -> None:
    """Give this process the variables and the module path that it would have without Ray."""
    with suppress(OSError):  # without it, what Ray has set stays, and shows in what is read back
        entries = Path(f"/proc/{os.getppid()}/environ").read_bytes().split(b"\0")
        before = {os.fsdecode(name): os.fsdecode(value) for name, _, value in (entry.partition(b"=") for entry in entries)}
        for name, value in without_ray(dict(os.environ), before).items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    own = _ray_folder()
    sys.path[:] = [place for place in sys.path if own is None or own not in (Path(place), *Path(place).parents)]


def undo_priority() -> tuple[int, int]:
    """Go back to the priority that Ray itself was started with, if the kernel permits; return that one and the one there is."""
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, wanted)
    return wanted, os.getpriority(os.PRIO_PROCESS, 0)


def without_ray(now: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str | None]:
    """Return what to change in an environment to have the one that Ray was started with; None is to be removed."""
    return {name: before.get(name) for name, value in now.items() if before.get(name) != value}


def _ray_folder() -> Path | None:
    found = getattr(sys.modules.get("ray"), "__file__", None)
    return None if found is None else Path(found).parent
