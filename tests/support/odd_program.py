"""A program with every fault: ``odd_program.py FAULT REPEAT PIDS [OUTPUT]``. Repeat 1 is the faulty one."""

import os
import signal
import sys
import time
from pathlib import Path


def started(*, detached):
    """Start a child that lives an hour and ignores a polite end."""
    tell, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        if detached:
            os.setsid()
            if os.fork():
                os._exit(0)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(told, b"%d" % os.getpid())
        time.sleep(3600)
    if detached:
        os.waitpid(pid, 0)
    return int(os.read(tell, 20))


def ended():
    """Start a child that ends at once and is never asked how."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
    return pid


def family(fault):
    """Start what a fault is to leave behind; return the numbers of all, the supervisor's among them."""
    pids = [os.getpid(), os.getppid()]
    if fault in ("hang", "hang to the limit", "hang for the watchdog", "garbage", "flood"):
        pids.append(started(detached=False))
    if fault in ("hang", "hang for the watchdog", "leaves a daemon", "crash"):
        pids.append(started(detached=True))
    if fault == "zombies":
        pids += [ended() for _ in range(3)]
    return pids


def go_wrong(fault, out):
    """Do what the fault is called."""
    if fault.startswith("hang"):
        time.sleep(3600)
    if fault == "crash":
        print("about to go", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "exit code":
        sys.exit("engine on fire")
    if fault == "garbage":
        os.write(1, b"\x00\xff\x1b[31mgarbage\n")
        time.sleep(3600)
    if fault == "early":
        sys.exit(0)
    while fault == "flood":
        os.write(1, b"x" * 65536)
    while fault == "endless":
        os.write(1, b"# still here\n" * 100)
    if fault == "after the end":
        print("#end,done\n4,1,2.8,0", flush=True)
        time.sleep(3600)  # it is stopped, and must not have ended by itself before
    if fault == "broken csv":
        print("4,1,0.", file=out)
        sys.exit(0)
    if fault == "broken parquet":
        out.seek(0)
        out.write("PAR1 and nothing else")
        sys.exit(0)


def main(fault, repeat, pids, output=None):
    """Write a trace of five ticks, or less."""
    if repeat == "1":
        Path(pids).write_text(" ".join(map(str, family(fault))))
    out = sys.stdout if output is None or fault == "no file" else Path(output).open("w")  # noqa: SIM115
    print("tick,actor,x_m,y_m", file=out)
    for tick in range(1, 6):
        print(f"{tick},1,{tick * 0.7},0", file=out, flush=True)
        if tick == 3 and repeat == "1":
            go_wrong(fault, out)
    print("#end,done", file=out, flush=True)


main(*sys.argv[1:])
