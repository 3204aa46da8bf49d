"""The first signal asks, the second ends, whatever the main thread is doing."""

import signal
import subprocess
import sys
import textwrap

import pytest

BUSY = "hashlib.pbkdf2_hmac('sha256', b'', b'', 2_000_000_000)"  # an hour of compiled code, which no signal interrupts
LEAVE = "over.wait(60)"


def program(main, after=""):
    """A process that takes the signals over and says «ready»; its main thread then does ``main``, and outside ``after``."""
    lines = textwrap.dedent(
        """
        import hashlib, threading
        from samepath.core.processes import shutdown_signals

        over = threading.Event()
        def asked():
            print("asked", flush=True)
            over.set()
        with shutdown_signals() as end:
            end.call_on_first(asked)
            print("ready", flush=True)
            {main}
        print("left", flush=True)
        {after}
        """
    ).format(main=main, after=after)
    process = subprocess.Popen([sys.executable, "-c", lines], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_a_process_whose_main_thread_is_in_compiled_code(first, second):
    with program(BUSY) as process:
        process.send_signal(first)
        assert process.stdout.readline() == "asked\n"
        process.send_signal(second)
        assert process.wait(60) == 128 + second


def test_after_one_signal_the_process_ends_as_it_likes():
    with program(LEAVE) as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "asked\nleft\n"
        assert process.wait(60) == 0


def test_a_second_signal_also_ends_a_process_that_hangs_when_all_is_over():
    with program(LEAVE, BUSY) as process:
        process.send_signal(signal.SIGINT)
        assert [process.stdout.readline() for _ in range(2)] == ["asked\n", "left\n"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT


def test_whoever_asks_after_the_signal_is_told_at_once():
    late = "over.wait(60); later = threading.Event(); end.call_on_first(later.set); print(later.is_set(), flush=True)"
    with program(late) as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "asked\nTrue\nleft\n"


def test_without_a_signal_everything_is_as_before():
    from samepath.core.processes import shutdown_signals

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with shutdown_signals() as end:
        assert not end.received
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(-1) == -1
