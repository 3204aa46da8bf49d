"""``samepath doctor``: screen the host before a study."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Annotated

import psutil
import typer
from rich.table import Table
from rich.text import Text

from samepath.cli.common import Json, stdout_console
from samepath.instrument.host.doctor import (
    LEAST_BYTES,
    Diagnosis,
    MemoryTest,
    bounded_bytes,
    check_gpu_memory,
    check_memory,
    count_steps,
    examine,
    parse_size_bytes,
    read_host,
)
from samepath.instrument.host.facts import CgroupLimits
from samepath.instrument.host.probe import Probe, Unknown
from samepath.instrument.progress import progress_bar

# The order of the table, and how a status looks in a terminal.
STYLES = {"warning": "bold red", "note": "yellow", "unknown": "magenta", "good": "green"}

MemorySize = Annotated[
    str,
    typer.Option("--memory", help="Memory to test, such as 256MiB, 1GiB or 500MB; 0 for none. At most a quarter of the free."),
]


GpuMemorySize = Annotated[
    str,
    typer.Option("--gpu-memory", help="Memory of each graphics card to test; 0 for none. At most a quarter of the free."),
]


def doctor(memory: MemorySize = "256MiB", gpu_memory: GpuMemorySize = "256MiB", as_json: Json = False) -> None:
    """Screen this host: memory, CPU, load, limits, GPU. Changes nothing; exits with 0 whatever it finds."""
    wanted_bytes, gpu_bytes = parse_size_bytes(memory), parse_size_bytes(gpu_memory)
    host = read_host(Probe())  # before the memory tests, which are load themselves
    worst_first = list(STYLES)
    diagnoses = examine(host, _test_memory(wanted_bytes, host.facts.limits), _test_gpus(gpu_bytes))
    found = sorted(diagnoses, key=lambda diagnosis: worst_first.index(diagnosis.status))
    if as_json:
        warnings = sum(diagnosis.status == "warning" for diagnosis in found)
        findings = [dataclasses.asdict(diagnosis) for diagnosis in found]
        typer.echo(json.dumps({"findings": findings, "warnings": warnings}, indent=2))
        return
    stdout_console().print(_table(found))
    counts = (f"{sum(diagnosis.status == status for diagnosis in found)} {status}" for status in STYLES)
    typer.echo(f"findings: {', '.join(counts)}")


def _test_memory(wanted_bytes: int, limits: CgroupLimits) -> MemoryTest | Unknown:
    if wanted_bytes == 0:
        return Unknown.because("not tested, as --memory 0 asked")
    available_bytes = psutil.virtual_memory().available
    if isinstance(limits.memory_limit_bytes, int):
        available_bytes = min(available_bytes, limits.memory_limit_bytes)
    size_bytes = bounded_bytes(wanted_bytes, available_bytes)
    if size_bytes < LEAST_BYTES:
        return Unknown.because("too little memory is available for a test")
    try:
        with progress_bar("testing memory", count_steps(size_bytes)) as advance:
            return check_memory(size_bytes, progress=advance)
    except MemoryError:
        return Unknown.because("the memory for a test could not be had")


def _test_gpus(wanted_bytes: int) -> Mapping[str, MemoryTest | Unknown] | str:
    if wanted_bytes == 0:
        return {"GPU memory test": Unknown.because("not tested, as --gpu-memory 0 asked")}
    with progress_bar("testing graphics memory", count_steps(wanted_bytes)) as advance:
        return check_gpu_memory(wanted_bytes, progress=lambda _: advance)


def _table(found: list[Diagnosis]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "topic", "finding", "what it means", "what to do"):
        table.add_column(name, no_wrap=name in ("", "topic"), overflow="fold")
    for diagnosis in found:
        # Text, not markup: names of processes come from outside.
        words = (diagnosis.topic, diagnosis.finding, diagnosis.meaning, diagnosis.advice)
        table.add_row(Text(diagnosis.status, style=STYLES[diagnosis.status]), *map(Text, words))
    return table
