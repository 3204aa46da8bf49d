"""Commands of samepath as processes of their own, each a fork of one that has imported it already.

Most of what a short command takes is importing, and then its end: an interpreter takes apart, object by object, what it has
loaded, which for a fork means copying every page of it first. So what commands import when they come to it is loaded before,
and a fork leaves as soon as threads and exit functions have done their work.
"""

import json
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

SERVER = """
import atexit, os, sys
command, status = None, 1
@atexit.register  # before anything is imported: exit functions are called last first, so that this one has the last word
def leave():
    if os.getpid() == command:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)

import contextlib, gc, importlib, json, warnings
from samepath.cli.app import VERBS, load_verb, main
for verb in VERBS:
    load_verb(verb)
# pyarrow asks for pandas wherever that is installed.
for name in "matplotlib.figure matplotlib.backends.backend_svg pandas rapier3d scipy.cluster.hierarchy scipy.stats".split():
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(name)
gc.collect()
gc.freeze()  # a search for garbage in a fork would write to every object, and so copy them all
for line in sys.stdin:
    asked = json.loads(line)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # later Pythons warn of forks beside threads, which numpy has started
        child = os.fork()
    if child == 0:
        command = os.getpid()
        os.chdir(asked["cwd"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in ((1, asked["stdout"]), (2, asked["stderr"])):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
        sys.argv = ["samepath", *asked["arguments"]]
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
            if not isinstance(status, int):
                print(status, file=sys.stderr)
                status = 1
        sys.exit(status)
    _, ended, used = os.wait4(child, 0)
    print(os.waitstatus_to_exitcode(ended), used.ru_utime + used.ru_stime, flush=True)
"""
# Seconds of processors that commands have taken of which the kernel does not tell us yet: it does when their server has ended.
untold_s = 0.0


@contextmanager
def forked():
    """Yield a function that runs a command: arguments and ``cwd`` in, what ``subprocess.run`` returns out."""
    global untold_s  # noqa: PLW0603 - as the kernel's own count is the process's
    taken_s = 0.0
    command = [sys.executable, "-W", "error", "-c", SERVER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(command, **pipes) as server:
        said = {name: Path(folder) / name for name in ("stdout", "stderr")}

        def run(*arguments, cwd=None):
            global untold_s
            nonlocal taken_s
            for path in said.values():
                path.unlink(missing_ok=True)
            asked = {"arguments": [str(argument) for argument in arguments], "cwd": str(cwd or Path.cwd())}
            server.stdin.write(json.dumps({**asked, **{name: str(path) for name, path in said.items()}}) + "\n")
            server.stdin.flush()
            code, used_s = server.stdout.readline().split()
            untold_s, taken_s = untold_s + float(used_s), taken_s + float(used_s)
            return subprocess.CompletedProcess(arguments, int(code), *(path.read_text("utf-8") for path in said.values()))

        yield run
        server.stdin.close()
    untold_s -= taken_s
