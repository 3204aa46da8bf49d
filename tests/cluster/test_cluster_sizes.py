"""What is larger than the link takes: whoever asked for it is told, and everybody else goes on."""

from dataclasses import replace

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from samepath.cluster.link.wire import LinkLimits
from samepath.cluster.messages import NewActors, encode, from_main
from samepath.cluster.replica import ReplicaFeed, read_actor
from samepath.simulator.carla.limits import ServerLimits
from tests.support.clustering import clustered, wait_for
from tests.support.scenes import Doors, mount, spawn, spawn_cars, synchronous, transform
from tests.support.serving import RawClient

NOBODY = 4_000_000


def main_doors(cluster):
    return Doors(cluster.main.port, cluster.main.stream_port)


def is_alive(cluster, client):
    """Does the world still tick, for a client of a node?"""
    before = client.value("tick_cue")
    assert client.value("tick_cue") == before + 1
    assert cluster.main._runner._thread.is_alive()
    assert [member.state for member in cluster.main.shell.members()] == ["working"] * len(cluster.nodes)
    return True


def refusal_of(client, *arguments):
    error, result = client.ask(*arguments)
    assert error is None
    assert result[0][0] == 0
    return result[0][1][0]


def wordy_actors(client, count):
    return [
        spawn(client, "static.prop.streetbarrier", transform(900.0 + 5.0 * k, 900.0, 2.0), role_name="x" * 4_000)[0]
        for k in range(count)
    ]


def test_an_answer_that_is_too_long_is_refused_to_its_client_only():
    limits = ServerLimits(answer_bytes=100_000)
    with clustered(0, limits=limits) as cluster:
        cluster.add(limits=limits)
        with RawClient(main_doors(cluster)) as main, RawClient(cluster.nodes[0]) as client:
            synchronous(main)
            names = wordy_actors(main, 30)
            wait_for(lambda: cluster.nodes[0].node._replica.actors.find(names[-1]), "the node knows all of them")
            # The node answers the first itself; of an actor it does not know the main server is asked.
            for asker, ids in ((client, names), (client, [*names, NOBODY]), (main, names)):
                words = refusal_of(asker, "get_actors_by_id", ids)
                assert "at most 100000 bytes" in words
                assert "ask for fewer" in words
                assert is_alive(cluster, client)
            few = client.value("get_actors_by_id", [names[0], NOBODY, names[1]])
            assert [record[0] for record in few] == names[:2]


def test_an_answer_that_the_link_does_not_take_is_an_error_for_its_caller_only():
    with (
        clustered(1) as cluster,
        RawClient(main_doors(cluster)) as main,
        RawClient(cluster.nodes[0]) as client,
        RawClient(cluster.nodes[0]) as other,
    ):
        synchronous(main)
        names = wordy_actors(main, 30)
        cluster.main.link._limits = replace(cluster.main.link._limits, bulk_bytes=100_000)
        words = refusal_of(client, "get_actors_by_id", [*names, NOBODY])
        assert "too large to be sent through a node" in words
        wait_for(lambda: any("was refused: a part of" in line for line in cluster.lines), cluster.lines)
        assert is_alive(cluster, other)
        assert is_alive(cluster, client)


def test_a_tick_that_the_link_does_not_take_ends_the_episode_with_the_reason():
    # What a server allows fits its link, so this is an error of ours; half of the nodes would have the tick, and half not.
    with clustered(1) as cluster, RawClient(main_doors(cluster)) as main, RawClient(cluster.nodes[0]) as client:
        synchronous(main)
        spawn_cars(main, 1)
        assert is_alive(cluster, client)
        cluster.main.link._limits = replace(cluster.main.link._limits, bulk_bytes=64)
        main.ask("tick_cue")
        wait_for(lambda: cluster.stopped, cluster.lines)
        assert "cannot be shown to nodes" in cluster.stopped[0]


def test_a_picture_that_the_link_does_not_take_silences_its_sensor_and_not_the_node():
    with clustered(1) as cluster, RawClient(main_doors(cluster)) as main, RawClient(cluster.nodes[0]) as client:
        synchronous(main)
        (car,) = spawn_cars(main, 1)
        listener = mount(main, main_doors(cluster), car, "sensor.camera.rgb", {"image_size_x": "64", "image_size_y": "32"})
        cluster.nodes[0].node._link._limits = LinkLimits(bulk_bytes=4096)
        assert is_alive(cluster, client)
        wait_for(lambda: any("too large for a cluster" in line for line in cluster.lines), cluster.lines)
        listener.socket.close()


def test_actors_with_long_attributes_are_told_to_nodes_in_parts():
    with clustered(1) as cluster, RawClient(main_doors(cluster)) as main, RawClient(cluster.nodes[0]) as client:
        synchronous(main)
        names = [
            spawn(main, "static.prop.streetbarrier", transform(900.0 + 5.0 * k, 900.0, 2.0), role_name="x" * 4_000)[0]
            for k in range(600)
        ]
        parts = [part for part, _ in ReplicaFeed.everything(cluster.main.episode) if isinstance(part, NewActors)]
        assert len(parts) > 2
        assert max(len(encode(part)) for part in parts) < 1_100_000
        assert [from_main(encode(part)) for part in parts] == parts
        assert [read_actor(record).id for part in parts for record in part.came][-600:] == names
        cluster.add()
        known = cluster.nodes[1].node._replica.actors
        wait_for(lambda: all(known.find(name) for name in names), "the new node knows everybody")
        assert is_alive(cluster, client)
