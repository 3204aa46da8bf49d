"""New clients are told where to go: the node with the fewest clients and the most time to spare."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from samepath.cli import cluster as verb
from samepath.client import nodes_of
from samepath.cluster.monitor.client import SilentError, publish_address
from samepath.cluster.monitor.status import least_loaded
from samepath.core.errors import InputError
from tests.support.watched_clusters import node, working
from tests.support.watched_web import watched


def test_few_clients_come_first_then_time_to_spare_then_the_order():
    nodes = (
        node(1, clients=1, busy=0.1),
        node(2, clients=0, busy=0.84),
        node(3, clients=0, busy=0.31),
        node(4, clients=0, busy=0.33),  # as busy as the third, to a tenth
        node(5, clients=0, busy=0.0, state="draining"),
        node(6, clients=0, busy=0.0, state="joining"),
    )
    assert [loaded.ordinal for loaded in least_loaded(nodes)] == [3, 4, 2, 1]


def told():
    status = working()
    return replace(status, connect=tuple(loaded.address for loaded in least_loaded(status.nodes)))


def test_a_program_finds_the_nodes_by_run_folder_and_by_address(tmp_path):
    with watched(told) as web:
        publish_address(tmp_path, web.url, "")
        wanted = told().connect
        assert len(wanted) > 1
        assert nodes_of(tmp_path) == nodes_of(str(tmp_path)) == nodes_of(web.url) == wanted
    with (
        watched(lambda: replace(working(), nodes=(), connect=())) as web,
        pytest.raises(SilentError, match="no node works yet"),
    ):
        nodes_of(web.url)
    with pytest.raises(SilentError, match="is no folder"):
        nodes_of(tmp_path / "nowhere")
    with pytest.raises(InputError, match="an address such as"):
        nodes_of("ftp://127.0.0.1")


def test_the_status_says_which_one():
    console = Console(width=120, file=io.StringIO())
    console.print(verb.view(told(), "http://127.0.0.1:8200/"))
    first = least_loaded(working().nodes)[0]
    assert f"new clients: {first.address} ({first.name}, the least loaded)" in console.file.getvalue()
    console = Console(width=120, file=io.StringIO())
    console.print(verb.view(replace(working(), connect=()), "http://127.0.0.1:8200/"))
    assert "new clients" not in console.file.getvalue()
