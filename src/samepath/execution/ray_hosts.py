"""The hosts of a Ray cluster, as those who run a study's repeats.

There is one actor per host, held to its node, and it takes all of the node's cores: Ray starts nothing else there, and a second
study waits. An actor does one thing at a time, so that two measured repeats never meet on a host unless ``processes`` says so.
It lives as long as the samepath that started it; what it has started ends with it.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from samepath.base.clock import SYSTEM_CLOCK
from samepath.base.errors import SimulatorError, StudyError
from samepath.base.ray_cluster import ANSWER_S, Node, Ray, connect, first_line, look_at, nodes_of
from samepath.execution.check import simulators_of
from samepath.execution.host_records import differences
from samepath.execution.hosts import HostLostError, Question, Reply
from samepath.execution.job import Trouble
from samepath.execution.ray_actor import HostActor, Survey
from samepath.execution.ray_cluster import choose_hosts, merged
from samepath.execution.rehearsal import Rehearsal, not_rehearsed
from samepath.study.records import Plan, PlannedCell

# The actor of a samepath that was killed a moment ago is still being cleared away.
_CLEARED_S: Final = 15.0
_NOT_INSTALLED: Final = "--ray needs Ray, which is not installed: pip install 'samepath[ray]'"


@dataclass
class _Host:
    actor: Ray
    survey: Survey
    asked: Ray = None


class RayHosts:
    """Hosts that have been looked at and are ready to run a plan."""

    def __init__(self, ray: Ray, plan: Plan, hosts: dict[str, _Host]) -> None:
        self._ray, self._plan, self._hosts = ray, plan, hosts

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts that are there."""
        return tuple(self._hosts)

    @property
    def provenance(self) -> dict[str, dict[str, object]]:
        """What each host says of itself."""
        return {name: host.survey.provenance for name, host in self._hosts.items()}

    def not_applicable(self) -> dict[str, str]:
        """Return the cells that no host permits, by name, and why not."""
        surveys = {name: host.survey.not_applicable for name, host in self._hosts.items()}
        refused = [cell.name for cell in self._plan.cells if all(cell.name in reasons for reasons in surveys.values())]
        return {cell: merged({name: reasons[cell] for name, reasons in surveys.items()}) for cell in refused}

    def permits(self, host: str, cell: str) -> bool:
        """Can this cell be run there?"""
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
                answer = pickle.loads(self._ray.get(host.actor.rehearse.remote(self._plan, cell)))  # noqa: S301 - our own actor
            except self._ray.exceptions.RayError as error:
                raise StudyError(f"host {name} was lost before the first run ({first_line(error)})") from error
            if isinstance(answer, Trouble):
                raise SimulatorError(f"host {name}: {answer.reason}")
            found.append(answer)
            on_progress(cell.name)
        return tuple(found)

    def ask(self, host: str, question: Question) -> None:
        """Send a question."""
        one = self._hosts[host]
        one.asked = one.actor.answer.remote(question)

    def wait(self) -> tuple[str, Reply | Exception]:
        """Wait for whoever answers first."""
        asked = {host.asked: name for name, host in self._hosts.items() if host.asked is not None}
        (ready,), _ = self._ray.wait(list(asked), num_returns=1)
        name = asked[ready]
        self._hosts[name].asked = None
        try:
            answer: Reply | Trouble = pickle.loads(self._ray.get(ready))  # noqa: S301 - our own actor
        except self._ray.exceptions.RayError as error:
            self._end(self._hosts.pop(name))
            return name, HostLostError(first_line(error))
        if isinstance(answer, Trouble):
            return name, SimulatorError(answer.reason)
        return name, answer

    def close(self) -> None:
        """End all that was started on the hosts."""
        while self._hosts:
            self._end(self._hosts.popitem()[1])

    def _end(self, host: _Host) -> None:
        self._ray.kill(host.actor)


@contextmanager
def ray_hosts(address: str, plan: Plan, say: Callable[[str], None]) -> Iterator[RayHosts]:
    """Join a cluster and make its hosts ready for a plan; ``say`` tells the user what is not as it might be."""
    ray = connect(address, _NOT_INSTALLED)
    try:
        nodes = nodes_of(ray)
        if not nodes:
            raise StudyError("the Ray cluster has no node with cores to run on: start some without --num-cpus=0")
        chosen = choose_hosts(look_at(ray, nodes, say), say)
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


def _start(ray: Ray, name: str, node: Node) -> Ray:
    """Have one actor on a node and nothing else of Ray's; its name is taken while it lives."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    actor = ray.remote(HostActor).options(
        name=f"samepath {name}",
        num_cpus=node.cpus,
        num_gpus=node.gpus,
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
    for name, one in asked.items():
        try:
            answer: Survey | Trouble = pickle.loads(ray.get(one, timeout=ANSWER_S))  # noqa: S301 - our own actor
        except ray.exceptions.GetTimeoutError as error:
            raise StudyError(
                f"host {name} gave no sign within {ANSWER_S:g} s: other work of the Ray cluster has its cores; wait for it"
            ) from error
        except ray.exceptions.RayError as error:
            raise StudyError(f"host {name} was lost before the first run ({first_line(error)})") from error
        if isinstance(answer, Trouble):
            raise StudyError(f"host {name}: {answer.reason}")
        for simulator, version in versions.items():
            found = answer.simulators[simulator]
            if found != version:
                raise StudyError(f"host {name} has {simulator} {found}, but {version} is here: install the same on every host")
        if answer.load_tool is not None and loads:
            raise StudyError(f"execution.load_tool: host {name}: {answer.load_tool}")
        hosts[name] = _Host(actors[name], answer)
    return hosts
