"""The share of the host that the control group grants: CPU quota and memory, for cgroup v1 and v2."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from samepath.conditions.probe import Probe, Unknown

MOUNT = "sys/fs/cgroup"

# Version 1 writes «no limit» as the largest whole number of pages below 2^63 bytes, which depends on the page size.
UNLIMITED_BYTES = 2**62


@dataclass(frozen=True)
class Limits:
    """The tightest limits from this process's group up to the topmost one it can see; None where there is no limit."""

    cgroup: str
    cpu_quota_cores: float | Unknown | None
    memory_limit_bytes: int | Unknown | None


@dataclass(frozen=True)
class _Membership:
    """The groups of this process: v1 by controller as (folder of the mount, path), v2 as one path."""

    legacy: dict[str, tuple[str, str]]
    unified: str | None


def read_limits(probe: Probe) -> Limits:
    """Collect the limits of this process's control group."""
    text = probe.read("proc/self/cgroup")
    if isinstance(text, Unknown):
        return Limits(text, text, text)
    member = _parse_membership(text)
    is_v1 = "cpu" in member.legacy or "memory" in member.legacy
    return Limits("v1" if is_v1 else "v2", _cpu_quota(probe, member), _memory_limit(probe, member))


def _parse_membership(text: str) -> _Membership:
    legacy: dict[str, tuple[str, str]] = {}
    unified = None
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            unified = path
        for controller in filter(None, controllers.split(",")):
            legacy[controller] = (controllers, path)
    return _Membership(legacy, unified)


def _cpu_quota(probe: Probe, member: _Membership) -> float | Unknown | None:
    if "cpu" in member.legacy:
        folders = _folders_v1(probe, member, "cpu")
        # Only the true root group has a release_agent, and it knows no quota.
        sees_root = probe.exists(f"{folders[-1]}/release_agent")
        return _tightest([_quota_v1(probe, folder) for folder in folders], sees_root)
    return _limit_v2(probe, member, "cpu.max", _parse_quota)


def _memory_limit(probe: Probe, member: _Membership) -> int | Unknown | None:
    if "memory" in member.legacy:
        folders = _folders_v1(probe, member, "memory")
        tightest = _tightest([_memory_v1(probe, folder) for folder in folders], sees_root=False)
    else:
        tightest = _limit_v2(probe, member, "memory.max", _parse_bytes)
    return int(tightest) if isinstance(tightest, float) else tightest


def _folders(mount: str, path: str) -> list[str]:
    # A process outside its cgroup namespace's root sees «/../other»; such a group is not below the mount.
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["/".join([mount, *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def _folders_v1(probe: Probe, member: _Membership, controller: str) -> list[str]:
    joined, path = member.legacy[controller]
    mounts = [f"{MOUNT}/{name}" for name in (joined, controller) if probe.exists(f"{MOUNT}/{name}")]
    return _folders(mounts[0] if mounts else f"{MOUNT}/{controller}", path)


def _quota_v1(probe: Probe, folder: str) -> float | Unknown | None:
    quota_us = probe.read_int(f"{folder}/cpu.cfs_quota_us")
    period_us = probe.read_int(f"{folder}/cpu.cfs_period_us")
    if isinstance(quota_us, Unknown):
        return quota_us
    if quota_us < 0:
        return None
    if isinstance(period_us, Unknown):
        return period_us
    return quota_us / period_us if period_us > 0 else Unknown.because(f"/{folder}: the period is {period_us} us")


def _memory_v1(probe: Probe, folder: str) -> int | Unknown | None:
    limit = probe.read_int(f"{folder}/memory.limit_in_bytes")
    return None if not isinstance(limit, Unknown) and limit >= UNLIMITED_BYTES else limit


def _limit_v2(
    probe: Probe, member: _Membership, name: str, parse: Callable[[str], float | Unknown | None]
) -> float | Unknown | None:
    if member.unified is None:
        return Unknown.because("/proc/self/cgroup names no group that could hold the limit")
    mount = MOUNT if probe.exists(f"{MOUNT}/cgroup.controllers") else f"{MOUNT}/unified"
    # Only the true root group has no cgroup.type, and it knows no limits.
    sees_root = probe.exists(f"{mount}/cgroup.controllers") and not probe.exists(f"{mount}/cgroup.type")
    return _tightest([parse(probe.read(f"{folder}/{name}")) for folder in _folders(mount, member.unified)], sees_root)


def _parse_quota(text: str) -> float | Unknown | None:
    if isinstance(text, Unknown):
        return text
    words = text.split()
    if words[:1] == ["max"]:
        return None
    if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) > 0:
        return int(words[0]) / int(words[1])
    return Unknown.because(f"cpu.max holds {text!r}")


def _parse_bytes(text: str) -> int | Unknown | None:
    if isinstance(text, Unknown):
        return text
    if text == "max":
        return None
    return int(text) if text.isdigit() else Unknown.because(f"memory.max holds {text!r}")


def _tightest(limits: Sequence[float | Unknown | None], sees_root: bool) -> float | Unknown | None:
    """Choose among the limits from the process's own group upwards; silence up to the true root means no limit."""
    numbers = [limit for limit in limits if isinstance(limit, int | float)]
    if numbers:
        return min(numbers)
    return None if sees_root or None in limits else limits[0]
