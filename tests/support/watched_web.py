"""A web server around a status, as tests use it."""

from contextlib import contextmanager
from dataclasses import dataclass, field

from samepath.cluster.monitor.web import MonitorServer
from samepath.core.errors import ClusterError
from tests.support.watched_clusters import picture

TOKEN = "the-word"


@dataclass
class Wishes:
    """What was asked for; a main server would do it."""

    made: list = field(default_factory=list)

    def drain(self, node: str) -> str:
        self.made.append(("drain", node))
        return f"{node} is drained"

    def scale(self, nodes: int) -> str:
        if nodes > 8:
            raise ClusterError(f"at most 8 nodes fit this machine, but {nodes} came")
        self.made.append(("scale", nodes))
        return f"{nodes} nodes from now on"

    def stop(self) -> str:
        self.made.append(("stop",))
        return "stopping"


@contextmanager
def watched(source, **options):
    """A server that answers; ``wishes`` and ``said`` hold what reached the main server and its log."""
    wishes, said = Wishes(), []
    settings = {"thumbnail": picture, "token": TOKEN, "log": said.append, **options}
    web = MonitorServer(source, settings.pop("thumbnail"), wishes, settings.pop("token"), **settings)
    web.wishes, web.said = wishes, said
    web.start()
    try:
        yield web
    finally:
        web.stop()
