"""What a host permits: other hosts are presented, this one is really tried, and every reason can be read by a person."""

import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from samepath.instrument.conditions import applicable
from samepath.instrument.conditions.applicable import HostAbilities, attempt, missing_tool, this_host, why_not
from samepath.instrument.host.gpu import GpuMeter
from samepath.instrument.host.probe import Probe

ABLE = HostAbilities(
    cores_counted=8,
    cores_usable=8,
    numa_nodes=("node0", "node1"),
    numactl=True,
    gpu=None,
    memory=None,
    attempt=lambda name, level: None,
)


def test_an_able_host_permits_everything():
    everything = {"cpu_load": 0.95, "gpu_load": 0.5, "memory_load": 0.5, "instances": 4, "nice": -20, "scheduler": "fifo"}
    everything |= {"cores": "one", "numa": "node1", "hash_seed": 0, "threads": 2, "aslr": False, "isolation": "cold"}
    assert why_not(everything | {"controller": "replayed"}, ABLE) is None


@pytest.mark.parametrize(
    ("facts", "condition", "words"),
    [
        ({"gpu": "no GPU was found"}, {"gpu_load": 0.25}, "no GPU was found"),
        ({"memory": "too little memory"}, {"memory_load": 0.25}, "too little memory"),
        ({"numa_nodes": ("node0",)}, {"numa": "local"}, "one NUMA node only"),
        ({}, {"numa": "node3"}, "there is no node3: the machine has node0, node1"),
        ({"numactl": False}, {"numa": "interleave"}, "numactl is not installed"),
        ({"cores_usable": 2.0}, {"cpu_load": 0.5}, "50% of the whole machine cannot be made.*may use 2 of its 8 cores"),
        ({"cores_usable": 1.5}, {"nice": 0, "cpu_load": 0.25}, "1.5 of its 8 cores"),
    ],
)
def test_a_host_that_cannot_says_why(facts, condition, words):
    reason = why_not(condition, replace(ABLE, **facts))
    assert reason is not None

    assert re.search(words, reason)
    assert "\n" not in reason


@pytest.mark.parametrize("condition", [{"gpu_load": 0.0}, {"memory_load": 0.0}, {"numa": "default"}, {"cpu_load": 0.0}])
def test_a_level_that_asks_for_nothing_is_permitted_anywhere(condition):
    weak = HostAbilities(8, 0.1, (), False, "no GPU was found", "too little memory", lambda name, level: None)
    assert why_not(condition, weak) is None


def test_what_can_only_be_tried_is_tried_with_its_level():
    asked = []

    def refuse(name, level):
        asked.append((name, level))
        return "refused" if name == "scheduler" else None

    assert why_not({"cpu_load": 0.5, "nice": -20, "scheduler": "rr"}, replace(ABLE, attempt=refuse)) == "refused"
    assert asked == [("nice", -20), ("scheduler", "rr")]


def test_a_higher_nice_level_is_always_permitted_and_a_missing_core_never():
    assert why_not({"nice": 5, "scheduler": "batch", "cores": "all", "hash_seed": 3, "threads": 1}) is None
    assert "no 4000 to use" in why_not({"cores": "4000"})


def test_each_question_is_put_to_the_kernel_once():
    before = attempt.cache_info()
    for _ in range(3):
        why_not({"nice": 11})
    after = attempt.cache_info()
    assert after.misses == before.misses + 1
    assert after.hits == before.hits + 2


def test_the_answer_about_this_host_is_what_the_kernel_does():
    """The answer for a negative nice level, against trying it in another way."""
    code = "import os; os.setpriority(os.PRIO_PROCESS, 0, -7)"
    permitted = subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode == 0
    reason = why_not({"nice": -7})
    assert (reason is None) == permitted
    assert permitted or "nice -7 was asked for, but the kernel refused" in reason


def test_facts_of_this_host():
    host = this_host()
    assert host is this_host()
    assert 0 < host.cores_usable <= len(os.sched_getaffinity(0)) <= host.cores_counted


class Meter(GpuMeter):
    def __init__(self, ratio):
        self._ratio = ratio

    def open(self):
        pass

    def ratio(self):
        return self._ratio

    def close(self):
        pass


@pytest.mark.parametrize(
    ("gpu", "ratio", "backends", "words"),
    [
        (False, None, ("driver",), "no GPU was found"),
        (True, None, ("driver",), "install nvidia-ml-py"),
        (True, 0.0, (), "install PyTorch, CuPy or NVIDIA's driver"),
        (True, 0.0, ("driver",), None),
    ],
)
def test_a_gpu_must_be_there_be_readable_and_have_something_to_load_it_with(tmp_path, monkeypatch, gpu, ratio, backends, words):
    if gpu:
        card = tmp_path / "sys/class/drm/card0/device"
        card.mkdir(parents=True)
        (card / "uevent").write_text("DRIVER=nvidia\nPCI_ID=10DE:2335\n")

    def nothing(command, limit_s):
        raise FileNotFoundError

    monkeypatch.setattr(applicable, "usable_backends", lambda: backends)
    monkeypatch.setattr("samepath.instrument.host.gpu.load_nvml", lambda: None)
    reason = applicable._gpu(Probe(tmp_path, nothing), Meter(ratio))
    assert reason is None if words is None else words in reason


def test_a_tool_asked_for_by_name_must_be_there(monkeypatch):
    assert missing_tool("auto") is missing_tool("samepath") is None
    monkeypatch.setenv("PATH", "")
    reason = missing_tool("stress-ng")
    assert "not installed" in reason
    assert "apt-get install stress-ng" in reason
