"""Nodes of different size: which cores each may use, as it is written and as the kernel has it."""

import os
import subprocess
import sys

import pytest

from samepath.cluster.placement.records import NodeSpec, decode_start_line, encode_start_line, read_core_sets, read_cores
from samepath.core.errors import InputError
from tests.support.placed import SECRET

HERE = sorted(os.sched_getaffinity(0))
FIRST = HERE[0]


def test_cores_are_numbers_and_ranges():
    text = ",".join(map(str, HERE))
    assert read_cores(text) == tuple(HERE)
    assert read_cores(f" {FIRST} , {FIRST}-{FIRST}") == (FIRST,)
    assert read_core_sets(f"{FIRST};{text}") == ((FIRST,), tuple(HERE))
    assert read_core_sets("") == ()


@pytest.mark.parametrize("text", ["", "a", "0-", "-1", "1.5", "0;1", "3-1", "99999", "0,,1"])
def test_what_is_no_core_is_refused_in_one_line(text):
    with pytest.raises(InputError, match="--cores: "):
        read_cores(text)


def test_a_core_that_is_not_there_is_refused_and_the_others_are_named():
    with pytest.raises(InputError, match=rf"may use the cores {FIRST}.*, but 4095 was wanted"):
        read_cores("4095")


def test_nodes_take_sets_of_cores_in_turn_and_keep_them_on_their_way_to_the_process():
    first = NodeSpec("node-1", 1, "tcp://127.0.0.1:9", core_sets=((0,), (1, 2)), compress="off")
    assert [first.another(number).cores for number in (1, 2, 3, 4)] == [(0,), (1, 2), (0,), (1, 2)]
    from samepath.cluster.placement.records import NodeKeys

    sent, _, _ = decode_start_line(encode_start_line(first.another(2), NodeKeys("M", "P", SECRET), None))
    assert (sent.cores, sent.compress) == ((1, 2), "off")
    assert NodeSpec("node-1", 1, "tcp://127.0.0.1:9").cores == ()


def test_a_process_and_its_threads_stay_on_their_cores():
    script = (
        "import os, sys, threading\n"
        "from samepath.cluster.placement.records import keep_to_cores\n"
        f"keep_to_cores([{FIRST}])\n"
        "found = []\n"
        "thread = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))\n"
        "thread.start(); thread.join()\n"
        "print(os.sched_getaffinity(0), *found)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == f"{{{FIRST}}} {{{FIRST}}}"
