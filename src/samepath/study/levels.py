"""The conditions a study may vary, and which levels of each are possible anywhere.

Whether this host permits a level is another question, asked when the study begins (``samepath.conditions``).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from samepath.base.suggest import nearest, unknown
from samepath.study.records import Isolation, Scalar

SCHEDULERS: Final = ("other", "batch", "idle", "fifo", "rr")
CONTROLLERS: Final = ("in-loop", "replayed")
_CORES: Final = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_NUMA: Final = re.compile(r"default|local|interleave|node\d+")


@dataclass(frozen=True)
class Condition:
    """One condition: what it is, what its levels look like, and how a level from a file is read.

    ``read`` returns the level in the form everything else uses; it raises ValueError with what was wanted.
    """

    name: str
    meaning: str
    example: str
    read: Callable[[Scalar], Scalar]


def _ratio(value: Scalar) -> float:
    number = value
    if isinstance(value, str) and value.strip().endswith("%"):
        number = float(value.strip()[:-1]) / 100
    if isinstance(number, bool | str) or not 0 <= number <= 1:
        raise ValueError("a share from 0 to 1 or 0% to 100%, such as 0.75 or 75%")
    return float(number)


def _whole(low: int, high: int) -> Callable[[Scalar], int]:
    def read(value: Scalar) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return read


def _word(*known: str) -> Callable[[Scalar], str]:
    def read(value: Scalar) -> str:
        if value not in known:
            hint = f" (did you mean {near}?)" if isinstance(value, str) and (near := nearest(value, known)) else ""
            raise ValueError(f"{', '.join(known[:-1])} or {known[-1]}{hint}")
        return str(value)

    return read


def _cores(value: Scalar) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return str(value)
    if isinstance(value, str) and (value in ("all", "one") or _CORES.fullmatch(value)):
        return value
    raise ValueError("all, one, or core numbers such as 0 or 0,2-3")


def _numa(value: Scalar) -> str:
    if isinstance(value, str) and _NUMA.fullmatch(value):
        return value
    raise ValueError("default, local, interleave or a node such as node0")


def _hash_seed(value: Scalar) -> Scalar:
    if value == "random" or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32):
        return value
    raise ValueError("random or a whole number from 0 to 4294967295")


def _switch(value: Scalar) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("on", "off"):
        return value == "on"
    raise ValueError("on or off")


CONDITIONS: Final = {
    one.name: one
    for one in (
        Condition("cpu_load", "CPU utilisation of the whole machine; 0 adds none", "[0, 50%, 75%, 95%]", _ratio),
        Condition("gpu_load", "GPU utilisation; 0 adds none", "[0, 75%]", _ratio),
        Condition("memory_load", "share of the memory bandwidth that is taken", "[0, 50%]", _ratio),
        Condition("instances", "how many of the simulator run at once, the measured one included", "[1, 2, 4]", _whole(1, 256)),
        Condition("nice", "scheduling priority, -20 (first) to 19 (last)", "[-20, 0, 19]", _whole(-20, 19)),
        Condition("scheduler", "scheduler class", "[other, batch, fifo]", _word(*SCHEDULERS)),
        Condition("cores", "cores the simulator may use", "[all, one]", _cores),
        Condition("numa", "memory placement", "[default, local]", _numa),
        Condition("hash_seed", "Python's hash seed", "[0, random]", _hash_seed),
        Condition("threads", "threads of numerical libraries", "[1, 2]", _whole(1, 1024)),
        Condition("aslr", "address space layout randomisation", "[on, off]", _switch),
        Condition("isolation", "what repeats share", "[process, batch]", _word(*[one.value for one in Isolation])),
        Condition("controller", "in the loop, or its recorded commands replayed", "[in-loop, replayed]", _word(*CONTROLLERS)),
    )
}
MACHINE_LOADS: Final = ("cpu_load", "gpu_load", "memory_load", "instances")


def read_level(name: str, value: Scalar) -> Scalar:
    """Return a level in its one form; raises ValueError in one line where it is impossible on any machine."""
    condition = CONDITIONS.get(name)
    if condition is None:
        raise ValueError(str(unknown("condition", name, CONDITIONS)))
    try:
        return condition.read(value)
    except ValueError as error:
        raise ValueError(f"{error} was wanted, but {value!r} came") from error
