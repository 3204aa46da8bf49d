"""Several of the simulator at once: all but the measured one run the same request in a loop, unseen."""

from samepath.execution.job import Job, Loop, Ready, Trouble
from samepath.execution.processes import Launcher, Worker, WorkerLostError
from samepath.study.records import Isolation

# A background simulator has as long to start as the slowest interpreter on a busy machine.
START_S = 120.0


class Instances:
    """Keeps so many background simulators running as the condition ``instances`` asks for; they end with samepath."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._job: Job | None = None
        self._workers: list[Worker] = []

    def hold(self, job: Job, isolation: Isolation) -> None:
        """Have ``instances`` - 1 of ``job`` running; those of another job are ended, those that died are replaced."""
        wanted = int(job.condition.get("instances", 1)) - 1
        if job != self._job:
            self.close()
        self._job = job
        self._drop_dead()
        while len(self._workers) < wanted:
            self._workers.append(self._start(job, Isolation.COLD if isolation is Isolation.COLD else Isolation.PROCESS))

    def count(self) -> int:
        """Return how many simulators there are now, the measured one included."""
        self._drop_dead()
        return len(self._workers) + 1

    def close(self) -> None:
        """End them all."""
        workers, self._workers, self._job = self._workers, [], None
        for worker in workers:
            worker.end(0.0)

    def _start(self, job: Job, isolation: Isolation) -> Worker:
        worker = self._launcher.start(job, isolation)
        connection = worker.waitable
        answer = worker.receive() if connection is None or connection.poll(START_S) else Trouble(f"not ready in {START_S:g} s")
        if not isinstance(answer, Ready):
            worker.end(0.0)
            raise WorkerLostError(f"another instance could not be started: {getattr(answer, 'reason', answer)}")
        worker.send(Loop())
        return worker

    def _drop_dead(self) -> None:
        """Forget those that have something to say: a running one is silent."""
        for worker in [one for one in self._workers if one.waitable is not None and one.waitable.poll(0)]:
            self._workers.remove(worker)
            worker.end(0.0)
