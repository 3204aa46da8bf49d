"""Nodes placed by Ray: on loopback only, back after every loss, and nothing left of them or of Ray, however it ends."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from samepath import __version__
from samepath.cluster.placement.ray_actors import ActorPlacement, _Placed, check_hosts
from samepath.cluster.placement.ray_cleanup import belonging
from samepath.cluster.placement.records import NodeSpec
from samepath.core.errors import ClusterError
from samepath.core.processes import this_machine
from samepath.core.ray_cluster import NodeProbe, RayNode
from tests.support import ROOT, SUPPORT
from tests.support.placed import LONGEST_S, SECRET, Placed, alive, wait_until

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (samepath[cluster])")
RAY_CLUSTER = SUPPORT / "ray_on_loopback.py"


@pytest.fixture(scope="module")
def story():
    """A Ray of its own: nodes are lost in every way, then the main server is killed. Returns what was seen on the way."""
    placed = Placed("ray")
    owner = placed.process.pid
    placed.wait(lambda: placed.of("folder"), "the folder")
    folder = placed.of("folder")[0]
    seen = {"placed": placed}
    for name in ("calm", "frozen", "crashes", "refused", "tells"):
        placed.tell("start", name)
    first = {name: placed.wait_for_life(name, 1) for name in ("calm", "frozen", "crashes", "tells")}
    ours = [owner, *belonging(folder, owner)]
    seen["addresses"] = {address for pid in ours for address in listening(pid)}
    seen["argv"] = b"".join(read(pid, "cmdline") for pid in ours)
    os.kill(psutil.Process(first["calm"]).ppid(), signal.SIGKILL)  # Ray's process, and the node with it
    os.kill(first["frozen"], signal.SIGSTOP)
    placed.tell("restart", "frozen", str(first["frozen"]))
    placed.wait_for_life("crashes", 2)
    placed.tell("stop", "crashes")
    placed.wait_for_life("calm", 2)
    placed.wait_for_life("frozen", 2)
    seen["gone"] = [not alive(first[name]) for name in ("calm", "frozen")]
    # What Ray has not told of its nodes when it is lost itself, nobody will tell.
    placed.wait(lambda: all(placed.ends(name) for name in ("calm", "frozen", "crashes", "refused")), "word of the first ends")
    (raylet,) = [child for child in psutil.Process(owner).children(recursive=True) if name_of(child) == "raylet"]
    raylet.kill()
    nodes = [placed.wait_for_life("tells", 2), placed.wait_for_life("calm", 3), placed.wait_for_life("frozen", 3)]
    folders = (folder, placed.of("folder")[-1])
    placed.wait(lambda: all(len(placed.ends(name)) >= 2 for name in ("calm", "frozen")), "word of their ends")
    placed.wait(lambda: placed.ends("tells"), "word of the other's end")
    placed.process.kill()
    wait_until(lambda: not any(map(alive, nodes)), "the nodes' end")
    wait_until(lambda: not any(Path(path).exists() for path in folders), "the end of Ray's folders")
    seen["left"] = [pid for path in folders for pid in belonging(path, owner) if alive(pid)]
    placed.close()
    return seen


def listening(pid):
    try:
        found = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return []
    return [link.laddr.ip for link in found if link.status == psutil.CONN_LISTEN]


def name_of(process):
    try:
        return process.name()
    except psutil.Error:  # it has ended since it was listed, as nodes do here
        return ""


def read(pid, file):
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def test_nothing_listens_beyond_loopback_and_no_key_is_on_a_command_line(story):
    assert story["addresses"]
    assert story["addresses"] <= {"127.0.0.1", "::ffff:127.0.0.1"}
    assert story["argv"]
    assert SECRET.encode() not in story["argv"]


def test_a_node_has_its_order_and_finds_the_machine_as_without_ray(story):
    placed = story["placed"]
    assert placed.lines("tells")[1] == f"ready {placed.pids('tells')[0]} 3 True {SECRET}"
    assert placed.lines("tells")[2].startswith(f"2 False {os.environ.get('OMP_NUM_THREADS')} ")


def test_nodes_that_are_lost_killed_or_crash_or_lose_ray_come_back_and_a_refused_one_does_not(story):
    placed = story["placed"]
    assert story["gone"] == [True, True]
    for name in ("calm", "frozen"):
        first, second = placed.ends(name)
        assert (first[0], first[2]) == (1, True)
        assert "lost" in first[1] or "kill" in first[1].lower()
        assert second == (2, "was lost with Ray", True)
    assert placed.ends("tells") == [(1, "was lost with Ray", True)]
    assert placed.ends("crashes")[0] == (1, "ended by itself with exit code 7", True)
    assert placed.ends("refused") == [(1, "ended by itself with exit code 2", False)]
    assert "Ray has failed: its process ended by itself with exit code 3; trying again in 1 s" in placed.of("line")
    assert not [line for line in placed.of("line") if "raylet" in line]


def test_nothing_is_left_of_a_main_server_that_is_killed(story):
    assert story["left"] == []


@pytest.fixture(scope="module")
def existing():
    """A cluster of two Ray nodes that is not ours, on loopback."""
    folder = tempfile.mkdtemp(prefix="ray-")
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex, "RAY_USAGE_STATS_ENABLED": "0"}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    command = [sys.executable, str(RAY_CLUSTER), folder, "a", "b"]
    process = subprocess.Popen(command, env={**os.environ, **own, "PYTHONPATH": path}, **pipes)
    with process:
        yield process.stdout.readline().strip(), own
        process.stdin.close()
        process.wait(LONGEST_S)
    shutil.rmtree(folder, ignore_errors=True)


def test_nodes_run_on_an_existing_cluster_spread_over_its_hosts_and_leave_it_running(existing):
    address, own = existing
    placed = Placed("ray", address, environment=own)
    for name in ("calm", "other"):
        placed.tell("start", name)
    pids = [placed.wait_for_life(name, 1) for name in ("calm", "other")]
    raylets = {psutil.Process(pid).parent().ppid() for pid in pids}
    assert len(raylets) == 2
    assert placed.close() == (0, "")
    assert [again for name in ("calm", "other") for _, _, again in placed.ends(name)] == [False, False]
    wait_until(lambda: not any(map(alive, pids)), "the nodes' end")
    assert all(map(alive, raylets))


def node(name):
    return RayNode(id=name, hostname=name, address="10.0.0.2", label="", cpus=1.0, gpus=0.0)


def test_a_host_with_another_samepath_is_refused_by_name():
    boot = this_machine().partition("/")[0]
    check_hosts({node("a"): NodeProbe(__version__, "", boot)}, link_is_loopback=True)
    with pytest.raises(ClusterError, match=rf"Ray node b \(10.0.0.2\): samepath {__version__} was wanted, but samepath 0.0.9"):
        check_hosts({node("b"): NodeProbe("0.0.9", "", boot)}, link_is_loopback=True)
    with pytest.raises(ClusterError, match="no samepath is"):
        check_hosts({node("b"): NodeProbe("", "No module named 'samepath'", boot)}, link_is_loopback=True)


def test_hosts_that_could_not_reach_the_main_server_are_refused_unless_it_listens_for_them():
    looks = {
        node("a"): NodeProbe(__version__, "", this_machine().partition("/")[0]),
        node("b"): NodeProbe(__version__, "", "other"),
    }
    with pytest.raises(ClusterError, match=r"1 of the Ray cluster's 2 nodes .* --link-host"):
        check_hosts(looks, link_is_loopback=True)
    check_hosts(looks, link_is_loopback=False)


def test_without_ray_the_other_way_is_told_and_not_taken():
    script = (
        "import sys; sys.modules['ray'] = None\n"
        "from samepath.cluster.placement.ray_placement import RayPlacement\n"
        "try: RayPlacement(print)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "ClusterError Ray places the nodes and is not installed: pip install 'samepath[cluster]', "
        "or do without it: --placement processes\n"
    )
    assert done.stderr == ""


def test_a_failure_that_is_noticed_late_costs_its_successor_nothing():
    killed = []
    placement = ActorPlacement.__new__(ActorPlacement)  # without Ray: only what it decides
    placement._lock = threading.Lock()
    placement._ray = SimpleNamespace(kill=lambda actor, *, no_restart: killed.append((actor, no_restart)))
    placement._nodes = {"node-1": _Placed(NodeSpec("node-1", 1, "tcp://127.0.0.1:9"), "actor", 0.0, heard=True, pid=12)}
    placement.restart("node-1", 11)
    assert killed == []
    for _ in range(2):
        placement.restart("node-1", 12)
    assert killed == [("actor", False)]
