"""Ports that are served, and what happens when a process may open no further file."""

import asyncio
import resource
import socket
import subprocess
import sys

import pytest

from samepath.core.errors import InputError
from samepath.core.network import allow_descriptors, listen
from samepath.simulator.carla.limits import ServerLimits

# A server that greets whoever is let in, in a process that may open few files; it ends when its input does.
GREETER = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
from samepath.core.network import listen

class Greeter(asyncio.Protocol):
    def connection_made(self, transport):
        transport.write(b"hello")

async def run():
    server = await listen(Greeter, "127.0.0.1", 0, lambda line: print(line, flush=True))
    server.start_serving()
    print(server.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()

asyncio.run(run())
"""


def test_a_process_without_descriptors_says_so_once_and_lets_clients_in_as_soon_as_it_has_one():
    with subprocess.Popen(
        [sys.executable, "-c", GREETER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        port = int(child.stdout.readline())
        clients = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(60)]
        line = child.stdout.readline()
        assert line.startswith(f"port {port} lets nobody in for now (Too many open files)")
        let_in = 0
        while clients:  # each that goes makes room for the next, who has waited in the kernel's queue
            with clients.pop(0) as client:
                assert client.recv(5) == b"hello"
            let_in += 1
        assert let_in == 60
        rest, errors = child.communicate(timeout=60)
        assert rest == ""
        assert errors == ""
        assert child.returncode == 0


def test_descriptors_are_asked_for_and_never_given_back():
    script = (
        "import resource; from samepath.core.network import allow_descriptors as allow;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300));"
        "print(allow(50), allow(200), allow(150), allow(1000), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split() == ["100", "200", "200", "300", "300", "300"]


def test_asking_for_no_more_than_there_are_changes_nothing():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert allow_descriptors(1) == before[0]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


@pytest.mark.parametrize("descriptors", [2432, 2431, 1024, 600, 300, 64, 10, 2])
def test_limits_fit_into_the_descriptors_there_are(descriptors):
    found = ServerLimits().within(descriptors)
    assert found.connections >= 1
    assert found.subscriptions >= 1
    assert found.connections + found.subscriptions <= max(descriptors, 2)
    assert (found == ServerLimits()) == (descriptors >= ServerLimits().descriptors)
    if descriptors >= 600:
        assert found.connections == 128  # listeners give way first


def test_a_port_that_is_taken_is_refused_in_one_line_and_nothing_stays_open():
    async def run():
        first = await listen(asyncio.Protocol, "127.0.0.1", 0)
        with pytest.raises(InputError, match=f"^127.0.0.1:{first.port} cannot be served .*choose another --port"):
            await listen(asyncio.Protocol, "127.0.0.1", first.port)
        first.close()
        first.close()
        again = await listen(asyncio.Protocol, "127.0.0.1", first.port)
        again.close()

    asyncio.run(run())


def options_of_who_is_let_in(*options):
    async def run():
        arrived = asyncio.get_running_loop().create_future()

        class Asked(asyncio.Protocol):
            def connection_made(self, transport):
                taken = transport.get_extra_info("socket")
                arrived.set_result([taken.getsockopt(*option) for option in options])
                transport.abort()

        server = await listen(Asked, "127.0.0.1", 0)
        server.start_serving()
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        found = await arrived
        writer.close()
        server.close()
        return found

    return asyncio.run(run())


def test_who_is_let_in_is_probed_so_that_a_machine_that_vanished_does_not_stay_for_ever():
    alive, idle = (socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    assert options_of_who_is_let_in(alive, idle) == [1, 60]


def test_a_short_answer_does_not_wait_until_the_one_before_it_was_acknowledged():
    assert options_of_who_is_let_in((socket.IPPROTO_TCP, socket.TCP_NODELAY)) == [1]
