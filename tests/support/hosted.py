"""A cluster over several hosts (:mod:`tests.support.namespaces`): the real commands, each in the host it belongs to."""

import contextlib
import json
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from samepath.core.clock import SYSTEM_CLOCK
from tests.support.namespaces import Host, Hosts, end

PORT = 2000
LINK_PORT = 2900
_JOIN_S = 300.0


class HostDoors:
    """A server's or node's two ports, at its host's address."""

    def __init__(self, host: Host) -> None:
        self.host, self.port, self.stream_port = host.address, PORT, PORT + 1


class HostedCluster:
    """``samepath cluster start --nodes 0`` in the main host and one ``samepath cluster node`` in each of the others."""

    def __init__(
        self,
        hosts: Hosts,
        folder: Path,
        *,
        map_name: str = "t-junction",
        start: Sequence[str] = (),
        each: Sequence[Sequence[str]] = (),
    ) -> None:
        """``start`` are options of the main server, ``each`` of one node after the other."""
        self.hosts, self.folder = hosts, folder
        self.lines: list[str] = []
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._readers: list[threading.Thread] = []
        try:
            # A node that is started by hand does not come back once it was taken out, and machines stand still for seconds.
            patient = ("--node-timeout", "60")
            where = ("--placement", "processes", "--map", map_name, "--port", str(PORT))
            self.start_main("start", "--nodes", "0", *where, *patient, *start)
            for number, host in enumerate(hosts.nodes):
                self.add(host, *(each[number] if each else ()))
            for host in hosts.nodes:
                self.wait_for(rf"{host.label} has joined .*{re.escape(host.address)}:{PORT}")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_main(self, verb: str, *options: str) -> None:
        """Start the main server, or let it go on (``resume``)."""
        address, seen = self.hosts.main.address, len(self.lines)
        where = ["--run", str(self.folder / "run")]
        if verb == "start":
            where += ["--host", address, "--link-host", address, "--link-port", str(LINK_PORT), "--page-port", "8200"]
            where += ["--keys", str(self.folder / "keys"), "--data", str(self.folder / "data")]
        self._start(self.hosts.main, "cluster", verb, *options, *where)
        self.wait_for("nodes join at tcp://" + re.escape(address), since=seen)

    def add(self, host: Host, *options: str) -> None:
        """Start the node of a host."""
        words = ["cluster", "node", "--main", f"{self.hosts.main.address}:{LINK_PORT}", "--keys", str(self.folder / "keys")]
        words += ["--name", host.label, "--host", host.address, "--port", str(PORT), *options]
        self._start(host, *words)

    def _start(self, host: Host, *words: str) -> None:
        started = host.python(
            "-m", "samepath", *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
        )
        self._running[host.label] = started
        reader = threading.Thread(target=self._read, args=(host.label, started), daemon=True)
        reader.start()
        self._readers.append(reader)

    def _read(self, label: str, started: "subprocess.Popen[str]") -> None:
        if started.stdout is not None:
            with contextlib.suppress(ValueError), started.stdout:  # closed under it
                for line in started.stdout:
                    self.lines.append(f"{label}: {line.rstrip()}")

    def wait_for(self, pattern: str, since: int = 0) -> str:
        """Wait for a line that somebody prints."""
        until_s = SYSTEM_CLOCK.monotonic_s() + _JOIN_S
        while True:
            found = next((line for line in self.lines[since:] if re.search(pattern, line)), None)
            if found is not None:
                return found
            ended = [label for label, process in self._running.items() if process.poll() is not None]
            if ended or SYSTEM_CLOCK.monotonic_s() > until_s:
                raise AssertionError(f"waited in vain for {pattern!r}; ended: {ended}; the log: {self.lines[-30:]}")
            SYSTEM_CLOCK.sleep_s(0.02)

    def doors(self, host: Host) -> HostDoors:
        return HostDoors(host)

    def status(self) -> dict[str, Any]:
        """How the main server says that the cluster stands; it answers on its host's own loopback."""
        import http.client

        def ask() -> dict[str, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", 8200, timeout=60)
            try:
                connection.request("GET", "/status.json")
                return dict(json.loads(connection.getresponse().read()))
            finally:
                connection.close()

        return dict(self.hosts.main.call(ask))

    def fail_and_resume(self, journal: str) -> None:
        """Kill the main server, wait until its nodes have noticed, and start all of them again."""
        self.kill(self.hosts.main)
        for host in self.hosts.nodes:
            self._running.pop(host.label).wait(60)  # a node that loses its main server ends
        seen = len(self.lines)
        self.start_main("resume", journal)
        for host in self.hosts.nodes:
            self.add(host)
        for host in self.hosts.nodes:
            self.wait_for(rf"{host.label} has joined", since=seen)

    def kill(self, host: Host) -> None:
        """Kill everything that runs in a host, at once."""
        started = self._running.pop(host.label)
        started.kill()
        started.wait()

    def close(self) -> None:
        # The main server first: its nodes then go because they are told to.
        for label in sorted(self._running, key=lambda label: label != "main"):
            end(self._running[label])
        self._running.clear()
        for reader in self._readers:
            reader.join(60)
