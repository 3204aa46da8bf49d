"""The main server's inbox: its own clients and those of nodes take turns alike."""

import pytest

pytest.importorskip("zmq")

from collections import deque
from types import SimpleNamespace

from samepath.cluster.main import ClusterInbox
from samepath.simulator.server.commands import CallerGone, NodeLeft
from samepath.simulator.server.methods import methods
from samepath.simulator.server.rpc import Call


class Client:
    """Somebody who calls."""

    def __init__(self, home=0):
        self.home, self.stream_port = home, None


def call_of(client, number):
    return Call(client, number, methods()["get_spectator"], ())


@pytest.fixture
def inbox():
    begun = []
    link = SimpleNamespace(wake=lambda: None)
    shell = SimpleNamespace(work=deque(), link=link, attend=lambda timeout_s: None, began_s=0.0, on_work_taken=lambda: None)
    counters = SimpleNamespace(commands=SimpleNamespace(begin=lambda call, at_s: begun.append(at_s)))
    found = ClusterInbox(shell, counters, lambda: None)
    found.work, found.begun = shell.work, begun
    return found


def taken(inbox):
    found = []
    while not inbox.empty():
        event = inbox.get(0.0)
        found.append((event.caller, event.id) if isinstance(event, Call) else event)
    return found


def test_clients_of_nodes_and_of_the_main_server_take_turns(inbox):
    own, through_node, other = Client(), Client(home=1), Client(home=2)
    for number in range(1, 5):
        inbox.work.append((call_of(through_node, number), float(number)))
    inbox.put(call_of(own, 1))
    inbox.put(call_of(own, 2))
    inbox.work.append((call_of(other, 1), 9.0))
    served = taken(inbox)
    assert served[:3] == [(through_node, 1), (other, 1), (own, 1)]  # in the order in which they came
    assert served[3:] == [(through_node, 2), (own, 2), (through_node, 3), (through_node, 4)]
    assert inbox.begun[:2] == [1.0, 9.0]  # when they came, for the times that are shown


def test_whether_a_client_has_more_is_known_while_it_waits(inbox):
    client = Client(home=1)
    inbox.work.extend([(call_of(client, 1), 1.0), (call_of(client, 2), 2.0)])
    assert inbox.get(0.0).id == 1
    assert inbox.has_more(client)
    assert inbox.get(0.0).id == 2
    assert not inbox.has_more(client)
    assert inbox.empty()
    assert inbox.get(0.0) is None


def test_a_node_that_has_gone_leaves_after_what_its_clients_have_asked_for(inbox):
    client = Client(home=1)
    inbox.work.extend([(call_of(client, 1), 1.0), (call_of(client, 2), 2.0), (CallerGone(client), 0.0)])
    inbox.put(NodeLeft(1))
    assert taken(inbox) == [(client, 1), (client, 2), CallerGone(client), NodeLeft(1)]
