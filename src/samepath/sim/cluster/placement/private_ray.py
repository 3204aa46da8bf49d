"""A Ray of our own on this machine: on loopback only, with a token, without dashboard or statistics, gone when we are gone."""

import ipaddress
import logging
import os
import secrets
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psutil

from samepath.base.errors import ClusterError
from samepath.base.ray_cluster import KEEP_LOOPBACK, NAMESPACE, Ray, first_line, import_ray, overheard, own_signals
from samepath.sim.cluster.placement import sweeper

NOT_INSTALLED: Final = (
    "Ray places the nodes and is not installed: pip install 'samepath[cluster]', or do without it: --placement processes"
)
_LOOPBACK: Final = "127.0.0.1"
# Only orders and log lines go through Ray; its smallest store is enough.
_STORE_BYTES: Final = 80 << 20
_NEEDED: Final = ("gcs_server", "raylet")
# Set before Ray is imported, for it and for all that it starts.
_SETTINGS: Final = {KEEP_LOOPBACK: "0", "RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0"}


class PrivateRay:
    """A running Ray that belongs to this process alone. To be started from the main thread, which must outlive it."""

    def __init__(self) -> None:
        os.environ.update(_SETTINGS)
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        self.ray: Ray = import_ray(NOT_INSTALLED)
        if self.ray.is_initialized():
            raise ClusterError("this process has a Ray already: end that one, or place nodes with --placement processes")
        # Ray's sockets want a short path.
        self.folder = tempfile.mkdtemp(prefix="samepath-ray-")
        self._sweeper = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", sweeper.__name__, self.folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._closing = False
        before = listening(os.getpid())
        try:
            self._start()
            self._check(before)
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        os.environ[sweeper.MARK] = self.folder
        with overheard() as said, own_signals():
            try:
                self.ray.init(
                    address="local",
                    _node_ip_address=_LOOPBACK,
                    _temp_dir=self.folder,
                    namespace=NAMESPACE,
                    num_cpus=os.cpu_count(),  # for starting so many processes at a time; nodes take none of them
                    num_gpus=0,
                    object_store_memory=_STORE_BYTES,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.CRITICAL,
                )
            except (RuntimeError, ValueError, AssertionError, OSError, self.ray.exceptions.RayError) as error:
                said.seek(0)
                words = first_line(error) or said.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise ClusterError(f"Ray did not start on this machine ({words}): try --placement processes") from error
            finally:
                del os.environ[sweeper.MARK]  # for Ray's processes only

    def _check(self, before: set[tuple[str, int]]) -> None:
        """Look whether Ray has kept to loopback; never let it stand open."""
        for pid in (os.getpid(), *sweeper.belonging(self.folder, os.getpid())):
            for address, port in listening(pid) - before:
                if not ipaddress.ip_address(address.removeprefix("::ffff:")).is_loopback:
                    raise ClusterError(
                        f"Ray listens on {address}:{port}, beyond loopback, and was ended: run samepath in a process alone"
                    )

    def watch(self, broken: Callable[[], None]) -> None:
        """Call ``broken``, from a thread, as soon as one of the two processes that Ray cannot do without has ended."""
        needed = [one.pid for one in psutil.Process().children() if one.name() in _NEEDED]
        handles = [os.pidfd_open(pid) for pid in needed]

        def wait() -> None:
            select.select(handles, [], [])  # a process's handle can be read once it has ended
            if not self._closing:
                broken()

        threading.Thread(target=wait, name="watches Ray", daemon=True).start()

    def close(self) -> None:
        """End Ray and wait until nothing of it is left."""
        self._closing = True
        self.ray.shutdown()
        if self._sweeper.stdin is not None:
            with suppress(BrokenPipeError):
                self._sweeper.stdin.close()
        self._sweeper.wait()


def listening(pid: int) -> set[tuple[str, int]]:
    """Return addresses and ports on which a process listens for TCP connections."""
    try:
        found = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return set()
    return {(one.laddr.ip, one.laddr.port) for one in found if one.status == psutil.CONN_LISTEN}
