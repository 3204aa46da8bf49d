"""A client's map is tried in a process of its own: whatever it takes, the server goes on."""

import re
import resource
import select
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from samepath.core.errors import InputError
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.maps import load_map
from samepath.simulator.server.map_trial import MapTrial
from tests.support.serve_processes import until
from tests.support.serving import RawClient, episode, served

PARAMETERS = [2.0, 50.0, 1.0, 0.6, True, True, True]
WIDTH = '<width sOffset="0" a="3" b="0" c="0" d="0"/>'


def road(plan="<line/>", length=100, lanes='<lane id="-1" type="driving">' + WIDTH + "</lane>", after=""):
    return (
        f'<OpenDRIVE><header revMajor="1" revMinor="4"/><road length="{length}" id="7" junction="-1"><planView><geometry s="0" '
        f'x="0" y="0" hdg="0" length="{length}">{plan}</geometry></planView><lanes><laneSection s="0"><center><lane id="0" '
        f'type="none"/></center><right>{lanes}</right></laneSection></lanes>{after}</road></OpenDRIVE>'
    )


def crossing(inside="", attributes=""):
    return f'<objects><object id="3" type="crosswalk" s="5" t="0" {attributes}>{inside}</object></objects>'


# Nothing in it is out of bounds, but it is half an hour of motorway: it takes many seconds to build.
SLOW = road('<arc curvature="0.0001"/>', 30_000, "".join(f'<lane id="-{k}" type="driving">{WIDTH}</lane>' for k in range(1, 7)))
HOSTILE = {
    "lane 10^9": road(lanes='<lane id="-1000000000" type="driving">' + WIDTH + "</lane>"),
    "crossing of 10^9 m": road(after=crossing(attributes='length="1e9" width="4"')),
    "broken mark from -10^9 m": road(
        lanes=f'<lane id="-1" type="driving">{WIDTH}<roadMark sOffset="-1e9" type="broken" width="0.1"/></lane>'
    ),
    "corner at 10^9 m on a spiral": road(
        '<spiral curvStart="0" curvEnd="0.5"/>',
        after=crossing('<outline><cornerRoad s="1e9" t="0" dz="0"/><cornerRoad s="0" t="3" dz="0"/></outline>'),
    ),
    "spiral of 1000 rad": road('<spiral curvStart="0" curvEnd="9.99"/>'),
}


def words_of(client, xodr):
    error, result = client.ask("copy_opendrive_to_file", xodr, PARAMETERS)
    assert error is None
    assert result[0][0] is True, result
    return result[0][1][0]


@pytest.mark.parametrize("case", HOSTILE)
def test_a_map_of_a_few_hundred_bytes_cannot_hold_the_server_up(case):
    assert len(HOSTILE[case]) < 700
    memory_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with served(limits=ServerLimits(map_s=20.0)) as server, RawClient(server) as client:
        words = words_of(client, HOSTILE[case])
        assert words.startswith("map 'OpenDriveMap', road 7")
        assert "was wanted, but" in words
        assert "\n" not in words
        assert client.value("version") == "0.9.16"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_kib < 200_000


def test_others_tick_on_while_a_map_is_built_and_one_that_takes_too_long_is_given_up():
    with served() as server, RawClient(server) as sender, RawClient(server) as driver:
        settings = driver.value("get_episode_settings")
        driver.ask("set_episode_settings", [True, *settings[1:]])
        sender.send("copy_opendrive_to_file", SLOW, PARAMETERS)
        for _ in range(60):
            driver.value("tick_cue")
        assert select.select([sender.socket], [], [], 0.0)[0] == [], "no tick waited for the map, which is not built yet"
    with served(limits=ServerLimits(map_s=1.0)) as server, RawClient(server) as sender:
        error, result = sender.ask("copy_opendrive_to_file", SLOW, PARAMETERS)
        assert error is None
        assert "at most 1 s was wanted" in result[0][1][0]
        assert "--map-seconds" in result[0][1][0]
        assert sender.value("version") == "0.9.16"


def test_a_map_that_takes_too_much_memory_is_refused():
    with pytest.raises(InputError, match="at most 32 MiB was wanted, but this one takes more"):
        MapTrial(ServerLimits(map_bytes=32 << 20)).run(SLOW, "greedy")


def test_a_map_that_fits_is_taken_and_one_that_is_none_is_refused_in_its_own_words():
    trial = MapTrial(ServerLimits())
    trial.run(load_map("town").xodr, "town")
    with pytest.raises(InputError, match="<svg>: the root <OpenDRIVE> was wanted"):
        trial.run("<svg/>", "picture")
    with pytest.raises(InputError, match="well-formed XML"):
        trial.run("<OpenDRIVE>\ud800", "half a letter")


def test_a_map_from_our_own_journal_is_not_tried_again(monkeypatch):
    host = episode()
    monkeypatch.setattr(MapTrial, "run", lambda *_: pytest.fail("it was tried"))
    host.context.maps.keep(host.context.maps.read(load_map("t-junction").xodr, tried=True))
    assert host.context.maps.sent is not None


def test_whoever_stops_does_not_wait_for_a_map():
    trial, said = MapTrial(ServerLimits()), []

    def work():
        with pytest.raises(InputError) as caught:
            trial.run(SLOW, "slow")
        said.append(str(caught.value))

    thread = threading.Thread(target=work)
    thread.start()
    until(lambda: trial._running, "the process that tries the map")
    trial.close()
    thread.join(60)
    assert said == ["map 'slow' is not built: the server stops"]
    with pytest.raises(InputError, match="the server stops"):
        trial.run(SLOW, "slow")


@pytest.mark.parametrize("signals", [1, 2])
def test_a_server_ends_while_a_map_is_built(tmp_path, signals):
    command = [sys.executable, "-m", "samepath", "serve", "--port", "0", "--data", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            server = type("Doors", (), {"port": int(re.search(r"127\.0\.0\.1:(\d+)", process.stderr.readline())[1])})
            with RawClient(server) as client:
                client.send("copy_opendrive_to_file", SLOW, PARAMETERS)
                until(psutil.Process(process.pid).children, "the process that tries the map")
                for _ in range(signals):
                    process.send_signal(signal.SIGTERM)
                    time.sleep(0.05)
                # The second one may find it on its way out, where nothing holds the signal back any more.
                assert process.wait(60) in ((0,) if signals == 1 else (0, 128 + signal.SIGTERM, -signal.SIGTERM))
        finally:
            process.kill()  # where it has not ended: leaving waits for it
