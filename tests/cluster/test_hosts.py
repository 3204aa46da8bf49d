"""Several hosts: network namespaces with addresses of their own and no memory in common give the bytes of a single server."""

import pytest

pytest.importorskip("numba")
pytest.importorskip("zmq")

from tests.support import namespaces
from tests.support.clustering import wait_for
from tests.support.hosted import HostedCluster
from tests.support.namespaces import CELL_5G, LAN, WIFI, WIRE, Hosts, LinkProfile, netem_words
from tests.support.scenes import drive, listen, scenario, spawn, spawn_cars, stream_of, synchronous, transform
from tests.support.serving import RawClient, served

needs_hosts = pytest.mark.skipif(bool(namespaces.reason_not_to()), reason=namespaces.reason_not_to() or "hosts can be made")

MAP = "t-junction"
TICKS = 5
CAMERA = {"image_size_x": "320", "image_size_y": "200"}
# Pictures large enough to be frames of their own on the wire, and of kinds that compress well and badly.
EYES = (
    ("sensor.camera.rgb", CAMERA),
    ("sensor.camera.optical_flow", CAMERA),
    ("sensor.lidar.ray_cast", {"points_per_second": "20000"}),
)
# Frames of one node always go compressed, of another never, of the third where it takes less time.
COMPRESS = (("--compress", "on"), ("--compress", "off"), ("--compress", "auto"))
LOSSY = LinkProfile("lossy", 40.0, 40.0, 5.0, 2.0, 0.02)


def again(doors):
    """A fresh world on the same server."""
    with RawClient(doors) as client:
        assert client.ask("load_new_episode", MAP, True, 0xFFFF)[0] is None


@pytest.fixture(scope="module")
def alone():
    """What a single server sends, in one world after the other."""
    found = []
    with served() as server:
        for _ in range(2):
            found.append(scenario(server, ticks=TICKS, eyes=EYES))
            again(server)
    return found


def run(cluster, number):
    """A world, seen by a client of another host through two nodes."""
    first, second = (cluster.doors(host) for host in cluster.hosts.nodes[:2])
    if number:
        cluster.hosts.client.call(lambda: again(first))
    return cluster.hosts.client.call(lambda: scenario(first, ticks=TICKS, eyes=EYES, other_doors=second))


@needs_hosts
def test_three_hosts_send_what_a_single_server_sends_whatever_their_links_are_like(alone, tmp_path):
    with (
        Hosts(3, WIRE, relay=not namespaces.has_netem()) as hosts,
        HostedCluster(hosts, tmp_path, start=["--compress", "on"], each=COMPRESS) as cluster,
    ):
        profiles = [WIRE, LAN, CELL_5G, WIFI, LOSSY]
        for number, profile in enumerate(profiles):
            hosts.shape(profile)
            assert run(cluster, number) == alone[min(number, 1)], profile
        drawn = len(profiles) * TICKS * 2 * len(EYES)
        wait_for(lambda: cluster.status()["frames"] >= drawn, "the status, which is published a few times a second")
        status = cluster.status()
        assert [node["state"] for node in status["nodes"]] == ["working"] * 3
        assert [node["host"] for node in status["nodes"]] == [host.label for host in hosts.nodes]
        assert all(node["frames"] for node in status["nodes"])
        assert status["frames"] == drawn
        assert status["desynchronised"] == status["dropped_frames"] == 0
        # Shared out among three nodes and listened to at two: some frames are drawn elsewhere, and go there from node to node.
        assert status["direct_frames"] > 0
        assert any("on another host" in line or "not on this host" in line for line in cluster.lines), cluster.lines
        if hosts.switch == "relay":
            assert hosts.counts()["dropped"] > 0  # packets were lost, and TCP brought them all the same


@needs_hosts
def test_after_the_main_servers_host_has_failed_the_world_goes_on_over_the_same_hosts_with_the_same_bytes(tmp_path):
    """The main server is killed at a tick; it goes on from its journal, its nodes come again, and so do listeners."""
    half = 5

    def world(doors, other, fail=lambda: None):
        with RawClient(doors) as client:
            synchronous(client)
            (car,) = spawn_cars(client, 1)
            record = spawn(client, EYES[0][0], transform(1.5, 0.0, 2.0), parent=car, **CAMERA)
            found = turns(client, car, listen(other, stream_of(record)))
        fail()
        with RawClient(doors) as client:
            return found + turns(client, car, listen(other, stream_of(record)))

    def turns(client, car, listener):
        with listener:
            return drive(client, [car], [listener], half)

    with served() as server:
        alone = world(server, server)
    journal = str(tmp_path / "journal")
    with Hosts(2) as hosts, HostedCluster(hosts, tmp_path, start=["--journal", journal, "--journal-durable"]) as cluster:

        def fail():
            cluster.fail_and_resume(journal)

        first, second = (cluster.doors(host) for host in hosts.nodes)
        assert hosts.client.call(lambda: world(first, second, fail)) == alone
        assert cluster.status()["desynchronised"] == 0


def test_what_tc_is_told_for_each_kind_of_link():
    assert netem_words(WIRE, 0.0) == []
    assert netem_words(LinkProfile("slow", 8.0, 8.0), 8.0) == ["tbf", "rate", "8mbit", "burst", "131072", "latency", "50ms"]
    assert netem_words(WIFI, WIFI.up_mbit) == [
        "netem", "limit", "10000", "delay", "2ms", "1.5ms", "distribution", "normal", "loss", "0.1%", "rate", "200mbit",
    ]  # fmt: skip
