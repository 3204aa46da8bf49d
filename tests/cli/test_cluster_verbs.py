"""The verbs of the cluster: what they refuse in one line, and one whole cluster from start to stop."""

import os
import signal
import subprocess
import sys
from contextlib import chdir, suppress

import psutil
import pytest
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.cli.cluster import warnings
from samepath.cluster.link.keys import make_keys, write_keys
from samepath.cluster.monitor.client import find_cluster, read_status
from samepath.cluster.running import ClusterPlan, resumed_plan
from samepath.cluster.settings import MainSettings
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SamepathError
from samepath.simulator.server.server import ServerSettings

LONGEST_S = 300.0


def samepath(folder, *words):
    """Run a verb in this process, in a folder; return its exit code and what it printed, or its error's one line."""
    with chdir(folder):
        done = CliRunner().invoke(app, ["cluster", *map(str, words)])
    if isinstance(done.exception, SamepathError):
        assert "\n" not in str(done.exception)
        return 2, str(done.exception)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("start", "--ray", "auto", "--placement", "processes"),
            "--ray auto asks for Ray, --placement processes",
        ),
        (("start", "--link-host", "0.0.0.0"), "--link-host is where nodes find the main server, and 0.0.0.0 is no address"),
        (("start", "--alias", "x"), "--alias: NAME=MAP was wanted"),
        (("node", "--main", "here", "--keys", "k", "--name", "node-9"), "--main: HOST:PORT was wanted"),
        (("node", "--main", "h:1", "--keys", "nowhere", "--name", "node-9"), "key nowhere/node.secret cannot be read"),
        (("node", "--main", "h:1", "--keys", "k", "--name", "a b"), "--name: 1 to 64 letters"),
        (("drain", "node-1"), "cluster-run is no folder"),
        (("scale", "3"), "cluster-run is no folder"),
        (("stop", "--run", "."), ". has no cluster running"),
        (("resume", "k"), "k holds no journal of samepath"),
        (("start", "--scale", "4"), "--scale: LEAST..MOST nodes was wanted, such as 1..8, but '4' came"),
        (("start", "--scale", "1..4", "--nodes", "7"), "--nodes 7 is outside --scale 1..4: leave --nodes out"),
        (("start", "--scale", "1..4", "--target-step-ms", "0"), "--target-step-ms: above 0 and up to 60000 was wanted"),
        (("start", "--cores", "0;x"), "--cores: numbers and ranges such as 0,2-3 were wanted, but 'x' came"),
        (("node", "--main", "h:1", "--keys", "k", "--name", "n", "--cores", "4000"), "--cores: this process may use the cores"),
        (("start", "--journal-durable"), "--journal-durable: a journal to wait for was wanted, but none came"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(tmp_path, words, said):
    write_keys(tmp_path / "k", "node", make_keys())
    write_keys(tmp_path / "k", "main", make_keys())
    code, line = samepath(tmp_path, *words)
    assert code == 2
    assert line.startswith(said)


def test_without_ray_nothing_is_started_and_both_ways_out_are_told(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert samepath(tmp_path, "start") == (
        2,
        "Ray places the nodes and is not installed: pip install 'samepath[cluster]', or do without it: --placement processes",
    )
    assert not any(tmp_path.iterdir())


def test_who_opens_a_port_to_others_is_told_what_that_means():
    assert warnings(ClusterPlan()) == []
    server = ServerSettings(host="0.0.0.0")
    plan = ClusterPlan(main=MainSettings(server=server, page_host="10.0.0.1"), node_host="10.0.0.1")
    assert [line.partition(" is not")[0] for line in warnings(plan)] == [
        "--host 0.0.0.0", "--node-host 10.0.0.1", "--page-host 10.0.0.1",
    ]  # fmt: skip


class Cluster:
    """A cluster of plain processes that was started by the command line; ``first`` is run in its process before."""

    def __init__(self, folder, *words, verb=("start", "--placement", "processes", "--page-port", "0"), first=""):
        script = f"{first}; from samepath.cli.app import main; main()"
        command = [sys.executable, *(("-c", script) if first else ("-m", "samepath")), "cluster", *verb]
        self.folder = folder
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen([*command, *words], cwd=folder, stderr=log, stdout=subprocess.DEVNULL)

    @property
    def log(self):
        return (self.folder / "log").read_text()

    def status(self):
        return read_status(find_cluster(self.folder / "cluster-run"))

    def frame(self):
        with suppress(SamepathError):  # not there yet
            return self.status().frame
        return 0

    def nodes(self):
        """The nodes that draw, by name, with their process numbers."""
        with suppress(SamepathError):  # not there yet
            return {node.name: node.pid for node in self.status().nodes if node.state == "working"}
        return {}

    def wait(self, so, what):
        until_s = SYSTEM_CLOCK.monotonic_s() + LONGEST_S
        while not so():
            assert self.process.poll() is None, self.log
            assert SYSTEM_CLOCK.monotonic_s() < until_s, f"waited in vain for {what}: {self.log}"
            SYSTEM_CLOCK.sleep_s(0.05)


def alive(pid):
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def listening(pid):
    return {
        connection.laddr.ip
        for connection in psutil.Process(pid).net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"), "--nodes", "1", "--port", "0", "--link-port", "0", "--keys", "k")
    try:
        running.wait(lambda: set(running.nodes()) == {"node-1"}, "the first node")
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def test_nothing_of_a_cluster_listens_beyond_loopback(cluster):
    for pid in (cluster.process.pid, *cluster.nodes().values()):
        assert listening(pid) == {"127.0.0.1"}


def test_a_second_main_server_on_the_same_port_says_so(cluster, tmp_path):
    port = cluster.log.partition("nodes join at tcp://127.0.0.1:")[2].split()[0]
    words = ("--placement", "processes", "--port", 0, "--page-port", 0, "--link-port", port)
    code, line = samepath(tmp_path, "start", *words)
    assert code == 2
    assert line.startswith(f"another main server (or something else) listens on 127.0.0.1:{port}")


def test_a_node_started_by_hand_joins_with_the_keys_of_the_folder_and_is_drained(cluster, tmp_path):
    address = cluster.log.partition("nodes join at tcp://")[2].split()[0]
    for name in ("main.public", "node.public", "node.secret"):
        (tmp_path / name).write_bytes((cluster.folder / "k" / name).read_bytes())
    (tmp_path / "node.secret").chmod(0o600)
    command = [sys.executable, "-m", "samepath", "cluster", "node", "--main", address, "--keys", str(tmp_path)]
    node = subprocess.Popen([*command, "--name", "node-7"], stderr=subprocess.PIPE, text=True)
    with node:
        cluster.wait(lambda: cluster.nodes().get("node-7") == node.pid, "the node started by hand")
        assert samepath(cluster.folder, "drain", "node-7") == (0, "node-7 will be given nothing more\n")
        assert node.wait(LONGEST_S) == 0
        assert "it was drained" in node.stderr.read()
    assert samepath(cluster.folder, "drain", "node-9")[0] == 2


def test_a_killed_node_comes_back_and_there_can_be_more(cluster):
    (first,) = children(cluster.process.pid)
    os.kill(first, signal.SIGKILL)
    cluster.wait(lambda: children(cluster.process.pid) not in ([], [first]), "the next life of node-1")
    assert samepath(cluster.folder, "scale", 2) == (0, "2 nodes wanted, 1 before\n")
    cluster.wait(lambda: len(children(cluster.process.pid)) == 2, "the second node")


def test_stopped_by_its_verb_it_leaves_nothing(cluster):
    pids = children(cluster.process.pid)
    assert len(pids) == 2
    assert samepath(cluster.folder, "stop") == (0, "the cluster stops\n")
    assert cluster.process.wait(LONGEST_S) == 0
    assert not any(map(alive, pids))
    assert not list((cluster.folder / "cluster-run").iterdir())
    assert "Traceback" not in cluster.log


def test_a_killed_main_server_leaves_no_node_and_its_world_goes_on(tmp_path):
    crashed = Cluster(tmp_path, "--nodes", "2", "--port", "0", "--link-port", "0", "--journal", "j", "--journal-durable")
    try:
        crashed.wait(lambda: len(children(crashed.process.pid)) == 2 and crashed.frame() > 20, "two processes and some ticks")
        pids, frame = children(crashed.process.pid), crashed.frame()
    finally:
        crashed.process.kill()
        crashed.process.wait()
    until_s = SYSTEM_CLOCK.monotonic_s() + LONGEST_S
    while any(map(alive, pids)):
        assert SYSTEM_CLOCK.monotonic_s() < until_s
        SYSTEM_CLOCK.sleep_s(0.01)
    before = resumed_plan(tmp_path / "j", None)
    assert before.main.server.journal.settings.durable
    assert (before.nodes, before.placement, before.main.page_port, before.main.server.port) == (2, "processes", 0, 0)
    (tmp_path / "cluster-run" / "watching.json").unlink()  # the killed one's
    again = Cluster(tmp_path, verb=("resume", "j", "--nodes", "0"))
    try:
        again.wait(lambda: again.frame() > frame, "the next tick")
        assert int(again.log.partition(": frame ")[2].split()[0]) >= frame
        assert samepath(tmp_path, "stop") == (0, "the cluster stops\n")
        assert again.process.wait(LONGEST_S) == 0
    finally:
        again.process.kill()
        again.process.wait()


def test_a_second_signal_ends_a_cluster_that_waits_for_frozen_nodes_and_leaves_none(tmp_path):
    # Frozen nodes are killed after two seconds, and then the first signal would do: here the second one comes before that.
    patient = "from samepath.cluster.placement import records; records.GRACE_S = 600.0"
    stopped = Cluster(tmp_path, "--nodes", "2", "--port", "0", "--link-port", "0", first=patient)
    try:
        stopped.wait(lambda: len(children(stopped.process.pid)) == 2 and stopped.frame() > 0, "two processes and a tick")
        pids = children(stopped.process.pid)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        stopped.process.send_signal(signal.SIGINT)
        stopped.wait(lambda: "stopping" in stopped.log, "the first signal was heard")
        stopped.process.send_signal(signal.SIGTERM)
        assert stopped.process.wait(LONGEST_S) == 128 + signal.SIGTERM
    finally:
        stopped.process.kill()
        stopped.process.wait()
    until_s = SYSTEM_CLOCK.monotonic_s() + LONGEST_S
    while any(map(alive, pids)):
        assert SYSTEM_CLOCK.monotonic_s() < until_s
        SYSTEM_CLOCK.sleep_s(0.01)


def children(pid):
    """The processes of nodes that a main server has started."""
    found = []
    for child in psutil.Process(pid).children():
        with suppress(psutil.Error):
            found += [child.pid] if "placement.child" in " ".join(child.cmdline()) else []
    return found
