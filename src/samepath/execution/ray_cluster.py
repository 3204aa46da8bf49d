"""Choosing the hosts of a Ray cluster that run a study."""

from collections.abc import Callable, Mapping

from samepath import __version__
from samepath.base.errors import StudyError
from samepath.base.ray_cluster import Look, Node


def choose_hosts(looks: Mapping[Node, Look], say: Callable[[str], None]) -> dict[str, Node]:
    """Return one node for each host, by the host's name. Nodes on one machine are one host, unless labels say otherwise."""
    for node, look in looks.items():
        if look.samepath != __version__:
            found = f"samepath {look.samepath} is" if look.samepath else f"no samepath is ({look.problem})"
            raise StudyError(
                f"Ray node {node.hostname} ({node.address}): samepath {__version__} was wanted, but {found} installed there: "
                "install the same version on every node, into the Python that Ray is started with"
            )
    chosen: dict[tuple[str, str], Node] = {}
    for node, look in looks.items():
        first = chosen.setdefault(("label", node.label) if node.label else ("boot", look.boot), node)
        if first is not node:
            say(f"Ray nodes {first.address} and {node.address} are on one host, {_name(first)}: only the first is used")
    names = [_name(node) for node in chosen.values()]
    return {
        name if names.count(name) == 1 else f"{name} ({node.address})": node
        for name, node in zip(names, chosen.values(), strict=True)
    }


def _name(node: Node) -> str:
    return node.label or node.hostname


def merged(reasons: Mapping[str, str]) -> str:
    """Say why no host permits a cell: once where all have the same reason."""
    different = list(dict.fromkeys(reasons.values()))
    if len(different) == 1:
        return different[0]
    return "; ".join(f"on {host}: {reason}" for host, reason in reasons.items())
