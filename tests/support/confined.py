"""Work with what somebody else wrote, in a process that the kernel holds to its bounds.

How long it takes and how much memory it wants is then a fact, not a matter of how busy the host is: processor time is counted,
not the time on the wall, and an allocation beyond the bound fails. One child for many documents: starting it takes a second.
"""

import json
import os
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]


def confined(function, *arguments, memory_mib, cpu_s):
    """Call ``package.module:function`` with arguments that JSON can hold; return its result, or say how the child ended."""
    command = [sys.executable, "-m", __name__, function, str(memory_mib), str(cpu_s), json.dumps(arguments)]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    environment = {**os.environ, **one_thread, "PYTHONPATH": path}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    if done.returncode:
        bounds = f"{memory_mib} MiB and {cpu_s} s"
        raise AssertionError(f"{function} within {bounds} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout)


def spin():
    """For ever."""
    while True:
        pass


def main():
    """Load what is needed, then take no more from the host than this."""
    name, memory_mib, cpu_s, arguments = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), json.loads(sys.argv[4])
    module, _, attribute = name.partition(":")
    function = getattr(import_module(module), attribute)
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    bound_bytes = pages * resource.getpagesize() + (memory_mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (bound_bytes, bound_bytes))
    used = resource.getrusage(resource.RUSAGE_SELF)
    end_s = round(used.ru_utime + used.ru_stime + cpu_s + 0.5)
    resource.setrlimit(resource.RLIMIT_CPU, (end_s, end_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps(function(*arguments)))


if __name__ == "__main__":
    main()
