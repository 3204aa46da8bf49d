"""The head pod's script with stand-ins for Ray and samepath: it ends with either of them, and takes leave when asked to."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "main.sh"
STEADY = '#!/bin/bash\nif [ "$1" = health-check ]; then exit 0; fi\nexec sleep 60\n'


class Pod:
    def __init__(self, folder, ray, samepath, **more):
        for name, text in (("ray", ray), ("samepath", samepath)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "KUBERAY_GEN_RAY_START_CMD": "ray start --head --block"} | more
        self.process = subprocess.Popen(
            ["bash", str(SCRIPT), "--nodes=2", "--map=town"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def end(self):
        with self.process as process:
            try:
                return process.wait(30)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # the session that this test has begun, as a pod's end would


def test_the_pod_ends_as_its_main_server_does(tmp_path):
    pod = Pod(tmp_path, STEADY, '#!/bin/bash\necho "$@" > "$(dirname "$0")/said"\nexit 7\n')
    assert pod.end() == 7
    assert (tmp_path / "said").read_text() == "cluster start --ray auto --nodes=2 --map=town\n"


def test_a_pod_with_a_journal_goes_on_from_it(tmp_path):
    journal, note = tmp_path / "journal", '#!/bin/bash\necho "$@" > "$(dirname "$0")/said"\nexit 70\n'
    journal.mkdir()
    assert Pod(tmp_path, STEADY, note, SAMEPATH_JOURNAL=str(journal)).end() == 70
    assert (tmp_path / "said").read_text() == f"cluster start --ray auto --journal {journal} --nodes=2 --map=town\n"
    (journal / "part-000000.journal").touch()
    assert Pod(tmp_path, STEADY, note, SAMEPATH_JOURNAL=str(journal)).end() == 70
    assert (tmp_path / "said").read_text() == f"cluster resume {journal}\n"


def test_asked_to_end_it_asks_the_main_server_and_waits_for_it(tmp_path):
    polite = "#!/bin/bash\ntrap 'echo left; kill $!; exit 0' TERM\nsleep 60 & echo ready\nwait\n"
    pod = Pod(tmp_path, STEADY, polite)
    assert pod.process.stdout.readline() == "ready\n"
    pod.process.terminate()
    assert pod.process.stdout.readline() == "left\n"
    assert pod.end() == 0


@pytest.mark.parametrize("begins", [True, False])
def test_the_pod_ends_with_ray(tmp_path, begins):
    health = "exit 0" if begins else "exit 1"
    ray = f'#!/bin/bash\nif [ "$1" = health-check ]; then {health}; fi\nsleep 0.3\nexit 3\n'
    samepath = "#!/bin/bash\ntrap 'kill $!; exit 0' TERM\nsleep 60 &\nwait\n"
    assert Pod(tmp_path, ray, samepath).end() == (3 if begins else 1)
