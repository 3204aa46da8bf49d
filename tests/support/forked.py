"""Commands of samepath as processes of their own, each a fork of one that has imported it already.

Most of what a short command takes is importing.
"""

import json
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

SERVER = """
import json, os, sys, warnings
import scipy.stats
from samepath.cli.app import VERBS, load_verb, main
for verb in VERBS:
    load_verb(verb)
for line in sys.stdin:
    asked = json.loads(line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later Pythons warn of forks beside threads, which numpy has started
        child = os.fork()
    if child == 0:
        os.chdir(asked["cwd"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in ((1, asked["stdout"]), (2, asked["stderr"])):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
        sys.argv = ["samepath", *asked["arguments"]]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def forked():
    """Yield a function that runs a command: arguments and ``cwd`` in, what ``subprocess.run`` returns out."""
    command = [sys.executable, "-W", "error", "-c", SERVER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command, **pipes) as server:
        said = {name: Path(folder) / name for name in ("stdout", "stderr")}

        def run(*arguments, cwd=None):
            for path in said.values():
                path.unlink(missing_ok=True)
            asked = {"arguments": [str(argument) for argument in arguments], "cwd": str(cwd or Path.cwd())}
            server.stdin.write(json.dumps({**asked, **{name: str(path) for name, path in said.items()}}) + "\n")
            server.stdin.flush()
            code = int(server.stdout.readline())
            return subprocess.CompletedProcess(arguments, code, *(path.read_text("utf-8") for path in said.values()))

        yield run
        server.stdin.close()
