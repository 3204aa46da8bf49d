"""The hosts of a study in a few words, and in what they differ: from the provenance that each one gave."""

from collections.abc import Mapping, Sequence
from typing import Final

Record = Mapping[str, object]

_TOLD: Final[Mapping[str, tuple[str, ...]]] = {
    "CPU": ("cpu", "model"),
    "cores": ("cpu", "cores_usable"),
    "instruction sets": ("cpu", "float_flags"),
    "GPUs": ("gpus",),
    "operating system": ("operating_system", "name"),
    "kernel": ("operating_system", "kernel"),
    "C library": ("operating_system", "libc"),
    "virtualisation": ("virtualisation",),
    "Python": ("python", "version"),
    "libraries": ("libraries",),
    "environment": ("environment",),
    "samepath": ("samepath",),
}


def differences(hosts: Mapping[str, Record]) -> tuple[str, ...]:
    """Name what is not the same on all hosts and may change results or times."""
    return tuple(name for name, place in _TOLD.items() if _differ([_at(host, place) for host in hosts.values()]))


def in_words(host: Record) -> str:
    """Describe a host in one line."""
    cores = _at(host, ("cpu", "cores_usable"))
    places = [("operating_system", "name"), ("operating_system", "kernel")]
    words = [str(_at(host, ("cpu", "model"))), f"{cores} cores", *(str(_at(host, place)) for place in places)]
    return ", ".join([*words, f"Python {_at(host, ('python', 'version'))}"])


def with_hosts(provenance: Record, hosts: Mapping[str, Record]) -> dict[str, object]:
    """Add the hosts of a cluster to what a report says of where its figures come from."""
    if not hosts:
        return dict(provenance)
    differing = ", ".join(differences(hosts))
    told: dict[str, object] = {f"host {name}": in_words(host) for name, host in hosts.items()}
    return {**provenance, "cluster": {**told, "hosts differ in": differing or "nothing that is recorded"}}


def _differ(values: Sequence[object]) -> bool:
    return any(value != values[0] for value in values[1:])


def _at(record: object, place: Sequence[str]) -> object:
    for name in place:
        record = record.get(name, "unknown") if isinstance(record, Mapping) else "unknown"
    return record
