"""A server that fails or hangs is started again; one that was told to end, or cannot begin, is left alone."""

import sys
import threading

import pytest

from samepath.core.errors import EpisodeFailedError
from samepath.core.processes import ShutdownSignals
from samepath.core.service import RestartPolicy, supervise

FAILED = EpisodeFailedError.exit_code
AT_ONCE = RestartPolicy(first_wait_s=0.0, most_in_a_row=4)
# A child that says that it is well and then does what it is told; it notes each of its starts.
CHILD = """
import os, signal, sys, time
with open(sys.argv[1], "a") as notes:
    notes.write(sys.argv[2] + "\\n")
if "silent" not in sys.argv[2]:
    from samepath.core.service import Pulse
    Pulse(lambda: "")
if sys.argv[2] == "waits":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", flush=True)
    while True:
        time.sleep(60)
if "silent" in sys.argv[2]:
    time.sleep(600)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def run(tmp_path):
    """Supervise two commands; returns the exit code, what was started, and the log."""
    notes, lines = tmp_path / "notes", []

    def supervised(first, again, policy=AT_ONCE, end=None):
        def command(word):
            return [sys.executable, "-c", CHILD, str(notes), word]

        code = supervise(command(first), command(again), end or ShutdownSignals(), lines.append, policy)
        return code, notes.read_text().split(), lines

    return supervised


def test_one_that_failed_goes_on_with_the_other_command(run):
    code, started, lines = run(str(FAILED), "0")
    assert (code, started) == (0, [str(FAILED), "0"])
    assert lines == [f"the server ended by itself with exit code {FAILED}; it is started again from its journal in 0 s"]


def test_one_that_was_killed_goes_on_too(run):
    code, started, lines = run("killed", "0")
    assert (code, started) == (0, ["killed", "0"])
    assert "SIGKILL" in lines[0]


def test_one_that_is_silent_is_killed_and_started_again(run):
    # Long enough for the second one to say that it is well, also on a busy machine.
    code, started, lines = run("silent", "0", RestartPolicy(starting_s=10.0, first_wait_s=0.0))
    assert (code, started) == (0, ["silent", "0"]), lines
    assert "has not been well" in lines[0]


@pytest.mark.parametrize("code", [0, 2, 130])
def test_an_end_that_is_no_failure_is_passed_on(run, code):
    assert run(str(code), "0") == (code, [str(code)], [])


def test_failing_again_and_again_is_given_up(run):
    code, started, lines = run(str(FAILED), str(FAILED))
    assert code == FAILED
    assert len(started) == 4
    assert "4 times in a row" in lines[-1]


def test_the_first_signal_is_passed_on_and_ends_both(run, capfd):
    end = ShutdownSignals()

    def stop():
        while "ready" not in capfd.readouterr().out:
            pass
        end._first()

    thread = threading.Thread(target=stop)
    thread.start()
    assert run("waits", "0", end=end) == (0, ["waits"], [])
    thread.join()
