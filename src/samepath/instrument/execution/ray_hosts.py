"""The hosts of a Ray cluster, as those who run a study's repeats.

There is one actor per host, held to its node, and it takes all of the node's cores: Ray starts nothing else there, and a second
study waits. An actor does one thing at a time, so that two measured repeats never meet on a host unless ``processes`` says so.
It lives as long as the samepath that started it; what it has started ends with it.

Ray starts its processes at a lower priority and with variables of its own, the number of threads among them. A measured repeat
is to find its host as it is without Ray: priority, environment and module path are put back before anything is run.
"""

import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from samepath import __version__
from samepath.core.clock import SYSTEM_CLOCK
from samepath.core.errors import SimulatorError, StudyError
from samepath.core.ray_cluster import (
    ANSWER_S,
    NodeProbe,
    Ray,
    RayNode,
    connect,
    first_line,
    nodes_of,
    probe_nodes,
    undo_environment,
    undo_priority,
)
from samepath.instrument.conditions.applicable import missing_tool
from samepath.instrument.execution.folder import differences
from samepath.instrument.execution.hosts import (
    HoldConditions,
    HostLostError,
    HostReply,
    HostRequest,
    LocalHost,
    RecordCommands,
    RepeatFinished,
    StartRepeats,
    Work,
)
from samepath.instrument.execution.job import ErrorReply
from samepath.instrument.execution.rehearsal import Rehearsal, not_applicable, not_rehearsed, rehearse, simulators_of
from samepath.instrument.execution.worker import error_reply
from samepath.instrument.execution.workers import WorkerLostError
from samepath.instrument.host.provenance import collect_provenance
from samepath.instrument.study.records import Plan, PlannedCell, Scalar

# The actor of a samepath that was killed a moment ago is still being cleared away.
_CLEARED_S: Final = 15.0
_NOT_INSTALLED: Final = "--ray needs Ray, which is not installed: pip install 'samepath[ray]'"


@contextmanager
def ray_hosts(address: str, plan: Plan, say: Callable[[str], None]) -> Iterator["RayHosts"]:
    """Join a cluster and make its hosts ready for a plan; ``say`` tells the user what is not as it might be."""
    ray = connect(address, _NOT_INSTALLED)
    try:
        nodes = nodes_of(ray)
        if not nodes:
            raise StudyError("the Ray cluster has no node with cores to run on: start some without --num-cpus=0")
        chosen = choose_hosts(probe_nodes(ray, nodes, say), say)
        actors = {name: _start(ray, name, node) for name, node in chosen.items()}
        hosts = RayHosts(ray, plan, _surveyed(ray, plan, actors))
        differing = differences(hosts.provenance)
        if differing:
            say(f"hosts {', '.join(hosts.names)} differ in {', '.join(differing)}: cells of one may not compare with another's")
        try:
            yield hosts
        finally:
            hosts.close()
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class Survey:
    """What a host says of itself before the first run.

    ``not_applicable`` has the cells that it does not permit, by name, and why; ``simulators`` those that the study uses, by
    name, each with its version; ``load_tool`` why the one asked for is not there.
    """

    provenance: dict[str, object]
    not_applicable: dict[str, str]
    simulators: dict[str, str]
    load_tool: str | None


@dataclass
class _Host:
    """An actor, what it said of its host, and the reply that is waited for, if any."""

    actor: Ray
    survey: Survey
    asked: Ray = None


class RayHosts:
    """Hosts that have been looked at and are ready to run a plan."""

    def __init__(self, ray: Ray, plan: Plan, hosts: dict[str, _Host]) -> None:
        self._ray, self._plan, self._hosts = ray, plan, hosts

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._hosts)

    @property
    def provenance(self) -> dict[str, dict[str, object]]:
        return {name: host.survey.provenance for name, host in self._hosts.items()}

    def not_applicable(self) -> dict[str, str]:
        """Return the cells that no host permits, by name, and why not."""
        surveys = {name: host.survey.not_applicable for name, host in self._hosts.items()}
        refused = [cell.name for cell in self._plan.cells if all(cell.name in reasons for reasons in surveys.values())]
        return {cell: merged({name: reasons[cell] for name, reasons in surveys.items()}) for cell in refused}

    def permits(self, host: str, cell: str) -> bool:
        return cell not in self._hosts[host].survey.not_applicable

    def rehearse(
        self, cells: Sequence[PlannedCell], known: Sequence[Rehearsal], on_progress: Callable[[str], None]
    ) -> tuple[Rehearsal, ...]:
        """Try what ``cells`` run and is not known yet, each on the first host that permits it."""
        found = list(known)
        for cell in not_rehearsed(cells, known):
            name = next(name for name in self._hosts if self.permits(name, cell.name))
            host = self._hosts[name]
            try:
                reply = pickle.loads(self._ray.get(host.actor.rehearse.remote(self._plan, cell)))  # noqa: S301 - our own actor
            except self._ray.exceptions.RayError as error:
                raise StudyError(f"host {name} was lost before the first run ({first_line(error)})") from error
            if isinstance(reply, ErrorReply):
                raise SimulatorError(f"host {name}: {reply.reason}")
            found.append(reply)
            on_progress(cell.name)
        return tuple(found)

    def ask(self, host: str, request: HostRequest) -> None:
        self._hosts[host].asked = self._hosts[host].actor.reply.remote(request)

    def wait(self) -> tuple[str, HostReply | Exception]:
        asked = {host.asked: name for name, host in self._hosts.items() if host.asked is not None}
        (ready,), _ = self._ray.wait(list(asked), num_returns=1)
        name = asked[ready]
        self._hosts[name].asked = None
        try:
            reply: HostReply | ErrorReply = pickle.loads(self._ray.get(ready))  # noqa: S301 - our own actor
        except self._ray.exceptions.RayError as error:
            self._end(self._hosts.pop(name))
            return name, HostLostError(first_line(error))
        if isinstance(reply, ErrorReply):
            return name, SimulatorError(reply.reason)
        return name, reply

    def close(self) -> None:
        """End all that was started on the hosts."""
        while self._hosts:
            self._end(self._hosts.popitem()[1])

    def _end(self, host: _Host) -> None:
        self._ray.kill(host.actor)


def choose_hosts(looks: Mapping[RayNode, NodeProbe], say: Callable[[str], None]) -> dict[str, RayNode]:
    """Return one node for each host, by the host's name. Nodes on one machine are one host, unless labels say otherwise."""
    for node, look in looks.items():
        if look.samepath != __version__:
            found = f"samepath {look.samepath} is" if look.samepath else f"no samepath is ({look.problem})"
            raise StudyError(
                f"Ray node {node.hostname} ({node.address}): samepath {__version__} was wanted, but {found} installed there: "
                "install the same version on every node, into the Python that Ray is started with"
            )
    chosen: dict[tuple[str, str], RayNode] = {}
    for node, look in looks.items():
        first = chosen.setdefault(("label", node.label) if node.label else ("boot", look.boot), node)
        if first is not node:
            say(f"Ray nodes {first.address} and {node.address} are on one host, {_name(first)}: only the first is used")
    names = [_name(node) for node in chosen.values()]
    return {
        name if names.count(name) == 1 else f"{name} ({node.address})": node
        for name, node in zip(names, chosen.values(), strict=True)
    }


def _name(node: RayNode) -> str:
    return node.label or node.hostname


def merged(reasons: Mapping[str, str]) -> str:
    """Say why no host permits a cell: once where all have the same reason."""
    different = list(dict.fromkeys(reasons.values()))
    if len(different) == 1:
        return different[0]
    return "; ".join(f"on {host}: {reason}" for host, reason in reasons.items())


def _start(ray: Ray, name: str, node: RayNode) -> Ray:
    """Have one actor on a node and nothing else of Ray's; its name is taken while it lives."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    actor = ray.remote(HostActor).options(
        name=f"samepath {name}",
        num_cpus=node.cpus,
        num_gpus=node.gpus,
        # A repeat that Ray ran again by itself would be measured in a process that nobody has prepared. What is lost is told,
        # and the study decides.
        max_restarts=0,
        max_task_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
    )
    until_s = SYSTEM_CLOCK.monotonic_s() + _CLEARED_S
    while True:
        try:
            return actor.remote(name)
        except ValueError as error:
            if SYSTEM_CLOCK.monotonic_s() > until_s:
                raise StudyError(f"host {name} is in use by another samepath: wait until its study has ended") from error
            SYSTEM_CLOCK.sleep_s(0.2)


def _surveyed(ray: Ray, plan: Plan, actors: dict[str, Ray]) -> dict[str, _Host]:
    """Ask every host what it is and what it permits; refuse those that would run something else than the others."""
    versions = {name: info.version for name, info in simulators_of(plan).items()}
    loads = any(cell.condition.get("cpu_load") for cell in plan.cells)
    asked = {name: actor.survey.remote(plan) for name, actor in actors.items()}
    hosts = {}
    for name, reference in asked.items():
        try:
            survey: Survey | ErrorReply = pickle.loads(ray.get(reference, timeout=ANSWER_S))  # noqa: S301 - our own actor
        except ray.exceptions.GetTimeoutError as error:
            raise StudyError(
                f"host {name} gave no sign within {ANSWER_S:g} s: other work of the Ray cluster has its cores; wait for it"
            ) from error
        except ray.exceptions.RayError as error:
            raise StudyError(f"host {name} was lost before the first run ({first_line(error)})") from error
        if isinstance(survey, ErrorReply):
            raise StudyError(f"host {name}: {survey.reason}")
        for simulator, version in versions.items():
            found = survey.simulators[simulator]
            if found != version:
                raise StudyError(f"host {name} has {simulator} {found}, but {version} is here: install the same on every host")
        if survey.load_tool is not None and loads:
            raise StudyError(f"execution.load_tool: host {name}: {survey.load_tool}")
        hosts[name] = _Host(actors[name], survey)
    return hosts


class HostActor:
    """One host. All its methods return a pickled record; one that goes wrong returns :class:`ErrorReply`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._host: LocalHost

    def survey(self, plan: Plan) -> bytes:
        """Put the process right and look at the host."""
        try:
            restore_process()
            self._host = LocalHost(plan.execution.load_tool, plan.execution.settle_s)
            return pickle.dumps(
                Survey(
                    provenance=collect_provenance([], plan.seed).as_dict(),
                    not_applicable=not_applicable(plan),
                    simulators={name: info.version for name, info in simulators_of(plan).items()},
                    load_tool=missing_tool(plan.execution.load_tool),
                )
            )
        except Exception as error:  # whatever it is, it is told where samepath runs
            return pickle.dumps(error_reply(error))

    def rehearse(self, plan: Plan, cell: PlannedCell) -> bytes:
        """Try what a cell runs, once."""
        reply: Rehearsal | ErrorReply
        try:
            (reply,) = rehearse(plan, [cell], ())
        except Exception as error:
            reply = error_reply(error)
        return pickle.dumps(reply)

    def reply(self, request: HostRequest) -> bytes:
        """Do what is asked as :class:`LocalHost` does."""
        reply: HostReply | ErrorReply
        try:
            reply = self._host.reply(self._here(request))
            if isinstance(reply, RepeatFinished):
                reply = self._signed(reply)
        except WorkerLostError as error:
            reply = ErrorReply(str(error))
        except Exception as error:
            reply = error_reply(error)
        return pickle.dumps(reply)

    def _here(self, request: HostRequest) -> HostRequest:
        """Look for modules where this host has them."""
        if isinstance(request, HoldConditions | RecordCommands | StartRepeats):
            work: Work = request.work
            return replace(request, work=replace(work, job=replace(work.job, path=tuple(sys.path))))
        return request

    def _signed(self, outcome: RepeatFinished) -> RepeatFinished:
        """Say where a repeat was run, and from when to when on this host's own clock."""
        stop_s = SYSTEM_CLOCK.monotonic_s()
        where: dict[str, Scalar] = {
            "host": self._name,
            "host_from_s": round(stop_s - outcome.cost_s, 6),
            "host_to_s": round(stop_s, 6),
        }
        log = outcome.repeat.host
        return replace(outcome, repeat=replace(outcome.repeat, host=replace(log, measured={**log.measured, **where})))


def restore_process() -> None:
    """Give this process the priority, the variables and the module path that it would have without Ray."""
    undo_environment()
    wanted, found = undo_priority()
    if found != wanted:
        raise StudyError(
            f"Ray runs its processes at nice {found} there and the kernel does not let them back to {wanted}: "
            "start Ray with RAY_worker_niceness=0"
        )
