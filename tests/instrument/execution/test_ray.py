"""Studies on a Ray cluster: two nodes on loopback, lost, killed and gone on with; the same traces as on one machine."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from samepath import __version__
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import StudyError
from samepath.core.ray_cluster import NodeProbe, RayNode, without_ray
from samepath.instrument.execution.folder import differences, in_words, read_journal, read_record, with_hosts
from samepath.instrument.execution.hosts import HostLostError, LocalHost, RepeatFinished
from samepath.instrument.execution.ray_hosts import choose_hosts, merged
from samepath.instrument.execution.run import RunResult, SlotQueue, open_cells, run_plan
from samepath.instrument.progress import parts
from samepath.instrument.study.plan import make_plan
from samepath.instrument.study.records import Slot
from samepath.instrument.traces.store import StoredCell
from tests.support import ROOT, SUPPORT
from tests.support.plans import cell, marked_processes, plan

LONGEST_S = 300.0
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (samepath[ray])")

# Both hosts wait at the third repeat of their first cell until the gate is open; «noisy» is left for whoever is free.
STUDY = """
name: small
design:
  cells:
    - {{simulator: 'tests.support.odd_simulators:Faulty', scenario: s, name: one,
       settings: {{fault: wait, at: 2, mark: '{gate}'}}}}
    - {{simulator: 'tests.support.odd_simulators:Faulty', scenario: s, name: two,
       settings: {{fault: wait, at: 2, mark: '{gate}'}}}}
    - {{simulator: control-gaussian, scenario: crossing, name: noisy, condition: {{nice: 3}}}}
    - {{simulator: control-exact, scenario: crossing, name: nowhere, condition: {{cores: '4000'}}}}
  repeats: 6
execution: {{isolation: process, order: listed, blocks: 2, settle: 0 s, load_tool: samepath}}
"""


class Cluster:
    """A cluster in a process of its own; all that it starts carries a mark in its environment."""

    def __init__(self, *names):
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix="ray-")  # Ray's sockets want a short path
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": uuid.uuid4().hex, "RAY_USAGE_STATS_ENABLED": "0"}
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.environment = {**os.environ, **own, "PYTHONPATH": path}
        command = [sys.executable, str(SUPPORT / "ray_on_loopback.py"), self.folder, *names]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen(command, env={**self.environment, "SAMEPATH_TEST_MARK": self.mark}, **pipes)
        self.address = self.process.stdout.readline().strip()

    def tell(self, order, name):
        self.process.stdin.write(f"{order} {name}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def measured_processes(self):
        """Those that repeats and loads need: whatever our actors have started."""
        found = []
        for pid in marked_processes(self.mark):
            try:
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            found += [pid] if b"samepath.instrument.execution.fork_server" in words else []
        return found

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(LONGEST_S)
        shutil.rmtree(self.folder, ignore_errors=True)


class Study:
    """A study's folder and the samepath that works in it."""

    def __init__(self, folder, cluster):
        self.cluster, self.folder, self.out = cluster, folder, folder / "out"
        self.gate = folder / "gate"
        self.text = STUDY.format(gate=self.gate)
        (folder / "x.yaml").write_text(self.text)

    def start(self, *arguments):
        command = [sys.executable, "-m", "samepath", *arguments, "--ray", self.cluster.address]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self.cluster.environment, **pipes)

    def entries(self, what):
        return [entry for entry in read_journal(self.out) if entry["what"] == what]

    def wait(self, until, process=None):
        """Wait until something is so; a samepath that ends before that, or takes for ever, is an error."""
        start_s = SYSTEM_CLOCK.monotonic_s()
        while not until():
            if process is not None and process.poll() is not None:
                pytest.fail(f"samepath ended early: {process.stderr.read()}")
            if SYSTEM_CLOCK.monotonic_s() - start_s > LONGEST_S:
                pytest.fail("waited in vain")
            SYSTEM_CLOCK.sleep_s(0.02)

    def repeats(self, cell):
        return [entry["repeat"] for entry in self.entries("repeat") if entry["cell"] == cell]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A study on two hosts that loses one of them, goes on, is killed, and goes on to its end. Returns it and what was said."""
    cluster = Cluster("a", "b")
    study = Study(tmp_path_factory.mktemp("ray"), cluster)
    said = {}
    try:
        process = study.start("study", "x.yaml", "--out", "out")
        study.wait(lambda: len(study.repeats("one")) == 2 and len(study.repeats("two")) == 2, process)
        cluster.tell("lose", "b")
        study.wait(lambda: study.entries("host lost"), process)
        study.gate.touch()
        cluster.tell("add", "b")  # too late for this run: it is another node by the same name
        said["lost"] = (*process.communicate(timeout=LONGEST_S), process.returncode)
        said["done by then"] = {cell: study.repeats(cell) for cell in ("one", "two", "noisy")}

        study.gate.unlink()
        process = study.start("resume", "out")
        study.wait(lambda: any(entry["cell"] == "two" for entry in study.entries("slot")[-1:]), process)
        study.wait(cluster.measured_processes, process)  # the slot is written down before its process is started
        said["before the kill"] = cluster.measured_processes()
        process.kill()
        process.communicate()
        study.wait(lambda: not cluster.measured_processes())

        study.gate.touch()
        process = study.start("resume", "out", "--json")
        said["end"] = (*process.communicate(timeout=LONGEST_S), process.returncode)
        yield study, said
    finally:
        cluster.close()
    study.wait(lambda: not marked_processes(cluster.mark))  # Ray's workers see that their node has gone, and go


@needs_ray
def test_a_lost_host_ends_its_cell_with_a_reason_and_the_others_go_on(told):
    study, said = told
    _, err, code = said["lost"]
    assert code == 1
    assert "cell 'two': host b was lost with 2 of 6 repeats run: go on with samepath resume --ray when it is back" in err
    assert f"samepath resume out --ray {study.cluster.address} tries those repeats again" in err
    assert said["done by then"] == {"one": list(range(6)), "two": [0, 1], "noisy": list(range(6))}
    assert "Traceback" not in err


@needs_ray
def test_a_killed_samepath_leaves_nothing_running_on_the_hosts(told):
    assert told[1]["before the kill"]  # and the fixture waited until they were gone


@needs_ray
def test_it_goes_on_to_the_end_and_only_results_are_on_stdout(told):
    study, said = told
    out, err, code = said["end"]
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert [cell["repeats"] for cell in document["cells"]] == [6, 6, 6]
    assert [line["what"] for line in read_journal(study.out) if line["what"] in ("begun", "resumed", "finished")] == [
        "begun", "finished", "resumed", "resumed", "finished",
    ]  # fmt: skip


@needs_ray
def test_traces_are_those_of_one_machine_byte_for_byte_and_no_repeat_is_doubled(told, tmp_path):
    study, _ = told
    small = make_plan(study.text, "x")
    run_plan(small, tmp_path / "here", left_out=["nowhere"])
    for planned in small.cells[:3]:
        for part in ("states", "runs"):
            there, here = (place / "cells" / planned.folder for place in (study.out, tmp_path / "here"))
            assert (there / f"part-000000.{part}.parquet").read_bytes() == (here / f"part-000000.{part}.parquet").read_bytes()
        assert sorted(study.repeats(planned.name)) == list(range(6))


@needs_ray
def test_all_repeats_of_a_cell_are_run_on_one_host_and_never_two_at_once_there(told):
    study, _ = told
    times, hosts = defaultdict(list), defaultdict(set)
    for planned in make_plan(study.text, "x").cells[:3]:
        for _, log in StoredCell(study.out / "cells" / planned.folder).host_logs():
            hosts[planned.name].add(log.measured["host"])
            times[log.measured["host"]].append((log.measured["host_from_s"], log.measured["host_to_s"]))
    assert hosts == {"one": {"a"}, "two": {"b"}, "noisy": {"a"}}
    for spans in times.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))
    slots = {(entry["cell"], entry["host"]) for entry in study.entries("slot")}
    assert slots == {("one", "a"), ("two", "b"), ("noisy", "a")}


@needs_ray
def test_a_repeat_finds_its_host_as_without_ray(told):
    study, _ = told
    measured = {name: dict(StoredCell(study.out / "cells" / name).host_logs())[0].measured for name in ("one", "noisy")}
    assert (measured["one"]["nice"], measured["noisy"]["nice"]) == (os.getpriority(os.PRIO_PROCESS, 0), 3)
    assert measured["one"]["threads"] == os.environ.get("OMP_NUM_THREADS", "unset")


@needs_ray
def test_every_host_is_on_record_and_says_what_it_does_not_permit(told):
    record = read_record(told[0].out)
    assert set(record.hosts) == {"a", "b"}
    assert all(host["samepath"]["version"] == __version__ and host["cpu"]["model"] for host in record.hosts.values())
    assert "cores 4000" in record.not_applicable["nowhere"]
    assert "host a" in with_hosts(record.provenance, record.hosts)["cluster"]


@needs_ray
def test_a_cell_begun_on_another_host_is_not_gone_on_with_here(told, tmp_path):
    study, _ = told
    folder = tmp_path / "copy"
    shutil.copytree(study.out, folder)
    longer = make_plan(study.text.replace("repeats: 6", "repeats: 7"), "x")
    result = run_plan(longer, folder, left_out=["one", "noisy", "nowhere"])
    assert "its first repeats were run on host b, which is not here" in result.given_up["two"]
    assert len(StoredCell(folder / "cells" / "two").runs) == 6


def samepath(folder, *arguments, prepare="pass"):
    (folder / "x.yaml").write_text(STUDY.format(gate=folder / "gate"))
    script = f"import sys; {prepare}; from samepath.cli.app import main; sys.argv[0] = 'samepath'; main()"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", script, "study", "x.yaml", "--out", "out", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@needs_ray
@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "--ray 127.0.0.1:1: nobody answers there: start the cluster (ray start --head --port=1)"),
        ("ray://head:10001", "--ray takes auto or HOST:PORT, the address of the cluster's head, but 'ray://head:10001' came"),
        ("head", "--ray takes auto or HOST:PORT, the address of the cluster's head, but 'head' came"),
    ],
)
def test_a_wrong_address_is_told_in_one_line_and_nothing_is_begun(tmp_path, address, words):
    done = samepath(tmp_path, "--ray", address)
    assert done.returncode == 2
    assert done.stderr.startswith(f"samepath: {words}")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_without_ray_the_command_to_install_it_is_told(tmp_path):
    done = samepath(tmp_path, "--ray", "auto", prepare="sys.modules['ray'] = None")
    assert (done.returncode, done.stderr) == (
        2,
        "samepath: --ray needs Ray, which is not installed: pip install 'samepath[ray]'\n",
    )


class Pair:
    """Two hosts in this process, each of its own; ``b`` raises ``ending`` at its ``at``-th request."""

    def __init__(self, ending, at, only_on_b=()):
        self.names = ("a", "b")
        self.only_on_b = only_on_b
        self.hosts = {name: LocalHost("samepath", 0.0) for name in self.names}
        self.asked = {}
        self.ending, self.left = ending, at

    def permits(self, host, cell):
        return host == "b" or cell not in self.only_on_b

    def ask(self, host, request):
        assert host not in self.asked
        self.asked[host] = request

    def wait(self):
        host = max(self.asked)
        request = self.asked.pop(host)
        self.left -= host == "b"
        if host == "b" and self.left == 0:
            self.names = ("a",)
            if not isinstance(self.ending, HostLostError):
                raise self.ending
            return host, self.ending
        reply = self.hosts[host].reply(request)
        if isinstance(reply, RepeatFinished):
            log = replace(reply.repeat.host, measured={"host": host})
            reply = replace(reply, repeat=replace(reply.repeat, host=log))
        return host, reply


def two_cells():
    return plan(cell("control-exact", "x"), cell("control-gaussian", "y"), blocks=2)


def hosts_of(folder):
    found = {name: [log.measured["host"] for _, log in StoredCell(folder / "cells" / name).host_logs()] for name in ("x", "y")}
    return {name: (len(hosts), set(hosts)) for name, hosts in found.items()}


def test_a_cell_without_a_repeat_moves_to_another_host(tmp_path):
    result = run_plan(two_cells(), tmp_path, hosts=Pair(HostLostError("cable"), 2))
    assert result == RunResult((), {})
    assert hosts_of(tmp_path) == {"x": (4, {"a"}), "y": (4, {"a"})}
    (lost,) = [line for line in read_journal(tmp_path) if line["what"] == "host lost"]
    assert (lost["host"], lost["cell"], lost["reason"]) == ("b", "y", "cable")


def test_a_cell_with_a_repeat_waits_for_its_host(tmp_path):
    result = run_plan(two_cells(), tmp_path, hosts=Pair(HostLostError("cable"), 3))
    assert result.given_up["y"].startswith("host b was lost with 1 of 4 repeats run: go on with samepath resume --ray")
    assert hosts_of(tmp_path) == {"x": (4, {"a"}), "y": (1, {"b"})}
    assert run_plan(two_cells(), tmp_path, hosts=Pair(None, -1)) == RunResult((), {})
    assert hosts_of(tmp_path) == {"x": (4, {"a"}), "y": (4, {"b"})}


def test_a_cell_that_no_host_permits_any_more_is_given_up(tmp_path):
    result = run_plan(two_cells(), tmp_path, hosts=Pair(HostLostError("cable"), 1, only_on_b=["y"]))
    assert result.given_up == {"y": "no host that permits it is left: go on with samepath resume when one is back"}
    assert not (tmp_path / "cells" / "y" / "part-000000.runs.parquet").exists()


def test_an_interrupt_lets_go_of_all_cells_that_are_being_run(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_plan(two_cells(), tmp_path, hosts=Pair(KeyboardInterrupt(), 3))
    assert read_journal(tmp_path)[-1]["what"] == "interrupted"
    assert run_plan(two_cells(), tmp_path, hosts=Pair(None, -1)) == RunResult((), {})
    assert hosts_of(tmp_path) == {"x": (4, {"a"}), "y": (4, {"b"})}


def test_progress_says_which_host_has_which_cell(tmp_path):
    shown = []
    run_plan(two_cells(), tmp_path, shown.append, hosts=Pair(None, -1))
    assert (("a", "x"), ("b", "y")) in {now.at_hosts for now in shown}
    assert "a: x; b: y" in parts(next(now for now in shown if len(now.at_hosts) == 2))


SLOTS = tuple(Slot(block, cell, 2 * block, 2 * block + 2) for block in range(2) for cell in range(3))


def test_a_cell_belongs_to_the_host_that_takes_its_first_slot():
    queue = SlotQueue(SLOTS, {})
    everything = range(3)
    assert [queue.take(host, everything) for host in "abb"] == [SLOTS[0], SLOTS[1], SLOTS[2]]
    assert [queue.take(host, everything) for host in "bab"] == [SLOTS[4], SLOTS[3], SLOTS[5]]
    assert queue.take("a", everything) is None
    assert (queue.cells_of("a"), queue.cells_of("b")) == ([0], [1, 2])


def test_a_host_is_given_only_what_it_permits_and_what_began_there():
    queue = SlotQueue(SLOTS, {1: "gone", 2: "b"})
    assert queue.take("a", {1, 2}) is None
    assert queue.take("b", {0}) == SLOTS[0]
    assert queue.take("b", set()) == SLOTS[2]
    assert queue.home_of(1) == "gone"
    assert queue.waiting == (SLOTS[1], SLOTS[3], SLOTS[4], SLOTS[5])


def test_a_slot_that_is_put_back_is_the_first_to_be_taken_again():
    queue = SlotQueue(SLOTS, {})
    taken = [queue.take("a", range(3)) for _ in range(2)]
    for slot in reversed(taken):
        queue.put_back(slot)
        queue.set_free(slot.cell)
    assert queue.waiting == SLOTS
    assert queue.take("b", range(3)) == SLOTS[0]


def node(number, label="", hostname="box"):
    return RayNode(f"id{number}", hostname, f"10.0.0.{number}", label, 4.0, 0.0)


def look(boot, version=__version__):
    return NodeProbe(version, "" if version else "No module named 'samepath'", boot)


def test_nodes_of_one_machine_are_one_host_unless_labels_say_otherwise():
    said = []
    looks = {
        node(1): look("x"),
        node(2): look("x"),
        node(3): look("y"),
        node(4, "left"): look("x"),
        node(5, "right"): look("x"),
    }
    chosen = choose_hosts(looks, said.append)
    assert chosen == {
        "box (10.0.0.1)": node(1),
        "box (10.0.0.3)": node(3),
        "left": node(4, "left"),
        "right": node(5, "right"),
    }
    assert said == ["Ray nodes 10.0.0.1 and 10.0.0.2 are on one host, box: only the first is used"]


@pytest.mark.parametrize(("version", "found"), [("0.0.9", "samepath 0.0.9 is"), ("", "no samepath is (No module")])
def test_another_samepath_on_a_node_is_refused(version, found):
    with pytest.raises(StudyError, match=r"10\.0\.0\.2.*was wanted, but " + found.replace("(", r"\(")):
        choose_hosts({node(1): look("x"), node(2): look("y", version)}, print)


def host(model="one", kernel="6.1", load=0.1):
    cpu = {"model": model, "cores_usable": 8}
    return {"cpu": cpu, "operating_system": {"name": "os", "kernel": kernel}, "load_average": {"tasks_1_min": load}}


def test_hosts_differ_in_what_may_change_results_only():
    assert differences({"a": host(), "b": host(load=3.0)}) == ()
    assert differences({"a": host(), "b": host(), "c": host("two", "6.2")}) == ("CPU", "kernel")
    assert in_words(host()) == "one, 8 cores, os, 6.1, Python unknown"
    told = with_hosts({"seed": 1}, {"a": host(), "b": host("two")})
    assert told["cluster"]["hosts differ in"] == "CPU"
    assert with_hosts({"seed": 1}, {}) == {"seed": 1}


def test_reasons_of_hosts_are_told_once_where_they_agree():
    assert merged({"a": "no GPU", "b": "no GPU"}) == "no GPU"
    assert merged({"a": "no GPU", "b": "no driver"}) == "on a: no GPU; on b: no driver"


def test_what_ray_adds_to_the_environment_is_taken_back():
    now = {"HOME": "/h", "OMP_NUM_THREADS": "2", "PATH": "/ray:/bin"}
    assert without_ray(now, {"HOME": "/h", "PATH": "/bin", "LD_PRELOAD": "x"}) == {"OMP_NUM_THREADS": None, "PATH": "/bin"}
    assert without_ray({"OMP_NUM_THREADS": "4"}, {"OMP_NUM_THREADS": "4"}) == {}


def test_repeats_run_here_are_at_home_here(tmp_path):
    small = make_plan(STUDY.format(gate=tmp_path), "x")
    others = ["one", "two", "nowhere"]
    run_plan(small, tmp_path / "out", left_out=others)
    (state,) = open_cells(small, tmp_path / "out", (), others).values()
    assert state.home == ""
