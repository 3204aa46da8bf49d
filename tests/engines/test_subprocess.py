"""Programs under a supervisor: whatever they do, the reason is told and nothing of them is left."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError
from samepath.engines.subprocess import EngineProcess, ask, find_program
from samepath.engines.subprocess.process import MAX_LINE_BYTES
from tests.support.processes_left import is_there, wait_until_gone

SOON_S = 60.0


def python(text, *arguments):
    return [sys.executable, "-I", "-S", "-c", textwrap.dedent(text), *map(str, arguments)]


# Starts a child, a grandchild that detaches itself, and a zombie; prints the numbers of all.
FAMILY = """
import os, signal, sys, time
numbers, tell = os.pipe()
def child(act):
    pid = os.fork()
    if pid == 0:
        os.close(numbers)
        act()
        os._exit(0)
    return pid
def detach():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(tell, b"%d " % os.getpid())
            time.sleep(3600)
plain = child(lambda: time.sleep(3600))
zombie = child(lambda: None)
os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
middle = child(detach)
os.waitpid(middle, 0)
detached = os.read(numbers, 64).decode()
print(os.getpid(), plain, zombie, detached, flush=True)
"""


def test_lines_come_and_go_and_a_good_end_is_good():
    with EngineProcess("echo", python("import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)")) as process:
        for word in (b"one", b"two"):
            process.send(word + b"\n", SOON_S)
            assert process.line(SOON_S) == word.upper()
        assert process.running
        process.end_of_input()
        assert process.line(SOON_S) is None
        process.finish(SOON_S)
        assert not process.running
    assert not is_there(process.pid)


def test_the_last_line_needs_no_end_and_bytes_can_be_counted():
    with EngineProcess("printer", python("print('abcdef\\r\\nrest', end='')")) as process:
        assert process.read(3, SOON_S) == b"abc"
        assert process.line(SOON_S) == b"def"
        assert process.line(SOON_S) == b"rest"
        assert process.line(SOON_S) is None
        process.finish(SOON_S)


@pytest.mark.parametrize("ending", ["time.sleep(3600)", "os.kill(os.getpid(), signal.SIGSTOP)", "while True: pass"])
def test_silence_is_an_error_and_the_whole_family_is_killed(ending):
    process = EngineProcess("family", python(FAMILY + ending))
    pids = [int(word) for word in process.line(SOON_S).split()]
    assert len(pids) == 4
    with pytest.raises(SimulatorError, match=r"^family wrote nothing for 0\.05 s, and was stopped$"):
        process.line(0.05)
    assert not [pid for pid in pids if is_there(pid)]


def test_a_program_that_ends_well_but_leaves_something_running_is_refused_and_the_rest_killed():
    process = EngineProcess("family", python(FAMILY))
    pids = [int(word) for word in process.line(SOON_S).split()]
    assert process.line(SOON_S) is None
    with pytest.raises(SimulatorError, match=r"^family left 2 processes running when it ended \(python\S*\): killed$"):
        process.finish(SOON_S)
    assert not [pid for pid in pids if is_there(pid)]


def test_who_forks_and_ends_all_the_time_is_caught(tmp_path):
    """Never the same process for long, so that a list of processes is old before it is read."""
    text = """
        import os, sys
        print("up", flush=True)
        for n in range(100000):
            if os.fork():
                os._exit(0)
            os.setsid()
            with open(sys.argv[1], "w") as file:
                file.write(f"{os.getpid()} {n}")
    """
    beat = tmp_path / "beat"
    beat.touch()  # they may all be gone before the first of them has written anything
    with EngineProcess("hydra", python(text, beat)) as process:
        assert process.line(SOON_S) == b"up"
        with pytest.raises(SimulatorError, match=r"^hydra left .+ running when it ended \(.+\): killed$"):
            process.finish(SOON_S)
        last = beat.read_text()
        SYSTEM_CLOCK.sleep_s(0.05)
        assert beat.read_text() == last


def test_a_zombie_alone_is_nobodys_trouble():
    text = """
        import os, sys
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
        print(pid, flush=True)
        sys.stdin.read()
    """
    with EngineProcess("careless", python(text)) as process:
        zombie = int(process.line(SOON_S))
        process.end_of_input()
        process.finish(SOON_S)
    assert not is_there(zombie)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import os; os.kill(os.getpid(), 11)", r"^it was ended by signal 11 \(SIGSEGV\)$"),
        (
            "import sys; print('a\\nb\\nno such\\nmap: x', file=sys.stderr); sys.exit(3)",
            r"code 3; its last words: b \| no such \| map: x$",
        ),
        ("import sys; sys.stderr.write('\\x1b[31mred' + 'x' * 9000); sys.exit(1)", r"code 1; its last words: \.\.\.x{300}$"),
    ],
)
def test_a_bad_end_is_told_with_the_last_words(text, words):
    with EngineProcess("it", python(text)) as process, pytest.raises(SimulatorError, match=words):
        process.finish(SOON_S)


def test_a_flood_without_an_end_of_line_is_stopped():
    with EngineProcess("flood", ["/bin/cat", "/dev/zero"]) as process:
        with pytest.raises(SimulatorError, match=r"^flood wrote \d+ bytes without the end of a line, and was stopped$"):
            process.line(SOON_S)
        assert len(process._lines) <= MAX_LINE_BYTES + (1 << 16)
    assert not is_there(process.pid)


def test_a_flood_on_stderr_holds_nobody_up_and_only_its_end_is_kept():
    text = "import sys\nfor n in range(30000): print('line', n, file=sys.stderr)\nprint('done')"
    with EngineProcess("loud", python(text)) as process:
        assert process.line(SOON_S) == b"done"
        ended = process.wait(SOON_S)
    assert ended.code == 0
    assert ended.said.endswith("line 29999\n")
    assert len(ended.said) <= 4096


def test_who_does_not_listen_is_found_out():
    with (
        EngineProcess("deaf", python("import time; time.sleep(3600)")) as process,
        pytest.raises(SimulatorError, match="took nothing"),
    ):
        process.send(b"x" * (1 << 21), 0.05)
    with EngineProcess("gone", python("import sys; sys.exit(4)")) as process:
        assert process.wait(SOON_S).code == 4
        with pytest.raises(SimulatorError, match=r"^gone no longer listens: it ended by itself with exit code 4$"):
            process.send(b"x", SOON_S)


def test_what_is_not_there_or_cannot_be_run_is_told(tmp_path):
    with pytest.raises(SimulatorError, match=r"^ghost: /no/such/program cannot be started: No such file or directory$"):
        EngineProcess("ghost", ["/no/such/program"])
    file = tmp_path / "text"
    file.write_text("not a program")
    with pytest.raises(SimulatorError, match="Permission denied"):
        EngineProcess("text", [str(file)])
    with pytest.raises(SimulatorError, match=r"^Ghost 3 is not installed \(ghost3-server was not found\): apt install ghost$"):
        find_program("ghost3-server", "Ghost 3", "apt install ghost")
    assert find_program("sh", "the shell", "").endswith("/sh")


def test_versions_are_asked_for_on_either_stream():
    assert ask("python", [sys.executable, "--version"]).startswith("Python 3.")
    assert ask("older", python("import sys; print(' v1.2 ', file=sys.stderr)")) == "v1.2"
    with pytest.raises(SimulatorError, match="exit code 2"):
        ask("broken", python("import sys; sys.exit(2)"))


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_when_samepath_dies_the_whole_family_dies(sign):
    """Killed with its process group, as the watchdog of a study does."""
    text = f"""
        import sys
        sys.path[:] = {sys.path!r}
        from samepath.engines.subprocess import EngineProcess
        process = EngineProcess("family", {python(FAMILY + "time.sleep(3600)")!r})
        print(process._supervisor.pid, process.line(20).decode(), flush=True)
        process.line(3600)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, process_group=0)
    with parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 5
        os.killpg(parent.pid, sign)
        parent.wait()
    wait_until_gone(pids)


def test_a_supervisor_that_is_killed_takes_the_program_with_it_and_that_is_told():
    with EngineProcess("orphan", python("import time; print('up', flush=True); time.sleep(3600)")) as process:
        assert process.line(SOON_S) == b"up"
        process._supervisor.kill()
        assert process.line(SOON_S) is None
        with pytest.raises(
            SimulatorError, match=r"^orphan was ended by signal 9 \(SIGKILL\); its last words: its supervisor was killed$"
        ):
            process.finish(SOON_S)
    wait_until_gone([process.pid])


def test_who_is_asked_to_end_may_end_well():
    text = "import signal, sys\nsignal.signal(15, lambda *_: sys.exit(0))\nprint('up', flush=True)\nwhile True: signal.pause()"
    with EngineProcess("polite", python(text)) as process:
        process.line(SOON_S)
        process.ask_to_end()
        process.finish(SOON_S)
        assert process.wait(SOON_S).code == 0
    wait_until_gone([process.pid])


def test_the_program_has_a_session_of_its_own_and_only_its_three_streams():
    text = "import os; print(os.getsid(0) == os.getpid(), sorted(map(int, os.listdir('/proc/self/fd')))[:-1])"
    with EngineProcess("counter", python(text)) as process:
        assert process.line(SOON_S) == b"True [0, 1, 2]"
        process.finish(SOON_S)


def test_folder_and_environment_are_the_programs(tmp_path):
    text = "import os; print(os.getcwd(), os.environ['MY_WORD'], 'PATH' in os.environ)"
    with EngineProcess("teller", python(text), folder=tmp_path, environment={"MY_WORD": "word"}) as process:
        assert process.line(SOON_S).decode() == f"{tmp_path} word True"


def test_closing_twice_and_forgetting_to_listen_do_no_harm():
    process = EngineProcess("quiet", python("print('x' * 1000000)"), talks=False)
    assert process.wait(SOON_S).said.startswith("xxx")
    process.close()
    process.close()
