"""Processes that end with others, and addresses that let others in."""

import platform
import subprocess
import sys

import psutil
import pytest

from samepath.core.network import is_everywhere, is_loopback
from samepath.core.processes import return_freed_memory, this_machine

WATCHES = """
import sys, signal
from samepath.core.processes import die_with
die_with(int(sys.argv[1]))
print(flush=True)
signal.pause()
"""


def test_a_process_ends_with_one_that_did_not_start_it():
    watched = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with watched, subprocess.Popen([sys.executable, "-c", WATCHES, str(watched.pid)], stdout=subprocess.PIPE) as watcher:
        assert watcher.stdout.readline() == b"\n"
        assert watcher.poll() is None
        watched.kill()
        assert watcher.wait(30) == 1


def test_one_that_is_gone_already_is_noticed_too():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    done = subprocess.run([sys.executable, "-c", WATCHES, str(gone.pid)], capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (1, b"")


def test_processes_of_one_machine_agree_that_they_are():
    script = "from samepath.core.processes import this_machine; print(this_machine())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == this_machine()


@pytest.mark.parametrize(
    ("host", "loopback", "everywhere"),
    [
        ("127.0.0.1", True, False),
        ("127.8.8.8", True, False),
        ("::1", True, False),
        ("[::1]", True, False),
        ("localhost", True, False),
        ("0.0.0.0", False, True),
        ("::", False, True),
        ("", False, True),
        ("*", False, True),
        ("10.0.0.1", False, False),
        ("head.example", False, False),
    ],
)
def test_which_addresses_let_others_in(host, loopback, everywhere):
    assert (is_loopback(host), is_everywhere(host)) == (loopback, everywhere)


def test_memory_that_was_freed_goes_back_to_the_system():
    # Blocks below the size that gets pages of its own, each with a small one behind it that stays: nothing is at the end.
    blocks, kept = [], []
    for _ in range(1000):
        blocks.append(bytearray(100_000))
        kept.append(bytearray(600))
    blocks.clear()
    held_mib = memory_mib()
    return_freed_memory()
    assert held_mib - memory_mib() > 50.0
    assert len(kept) == 1000


PICTURES = """
import resource
from samepath.core.processes import keep_freed_memory
keep_freed_memory()
def tick():
    pictures = [b"x" * 8_000_000 for _ in range(3)]
    return len(pictures)
tick()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    tick()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library cannot be told so")
def test_memory_of_pictures_is_kept_from_tick_to_tick():
    # In a process of its own: it holds for all of it. 10 ticks of 24 MB are 58,600 pages; the system is to clear few of them.
    done = subprocess.run([sys.executable, "-c", PICTURES], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000


def memory_mib():
    return psutil.Process().memory_info().rss / (1 << 20)
