"""Maps of the user's own, other names for maps, and how clients tell which map they are in; over the wire."""

import msgpack
import numpy as np
import pytest

from samepath.cluster.replica import map_sent
from samepath.core.errors import InputError, UnknownNameError
from samepath.scenarios.model import load_scenario
from samepath.simulator.carla.limits import ServerLimits
from samepath.simulator.carla.streams import ACTOR_STATE, WORLD_STREAM
from samepath.simulator.maps import load_map, parse_map
from samepath.simulator.maps.files import map_files
from samepath.simulator.server.journal import JournalOrigin
from samepath.simulator.server.maps import named_maps
from samepath.simulator.server.server import ServerSettings
from samepath.simulator.server.ticking import substeps_of
from samepath.simulator.simulation import Simulation, SimulationSettings, check_on_map
from tests.support.map_texts import one_road
from tests.support.serving import RawClient, RawListener, served

LAYERS = 0xFFFF


@pytest.fixture
def folder(tmp_path):
    """Two maps of the user's: a town of RoadRunner's kind, and a single road."""
    made = tmp_path / "maps"
    made.mkdir()
    (made / "Town05.xodr").write_text(ROADRUNNER)
    (made / "Lane.xodr").write_text(one_road())
    (made / "notes.txt").write_text("no map")
    return made


# A crossing as RoadRunner writes it, and CARLA's towns are: the light stands anywhere, its own validity is lane 0, references
# in the connecting roads name the lanes, and their orientation contradicts them.
_LANE = '<lane id="{0}" type="driving"><link>{1}</link><width sOffset="0" a="3.5" b="0" c="0" d="0"/></lane>'
_LINE = '<geometry s="0" x="{}" y="0" hdg="{}" length="{}"><line/></geometry>'
_REFERENCE = '<signalReference id="943" s="{}" t="0" orientation="{}"><validity fromLane="{}" toLane="{}"/></signalReference>'


def _road(number, plan, length, junction, links, lanes, signals=""):
    return (
        f'<road name="" length="{length}" id="{number}" junction="{junction}"><link>{links}</link><planView>{plan}</planView>'
        f'<lanes><laneSection s="0"><left>{lanes[0]}</left><center><lane id="0" type="none"/></center><right>{lanes[1]}</right>'
        f"</laneSection></lanes><signals>{signals}</signals></road>"
    )


ROADRUNNER = (
    '<?xml version="1.0"?><OpenDRIVE><header revMajor="1" revMinor="4" name="" version="1" vendor="VectorZero"/>'
    + _road(
        1, _LINE.format(0, 0, 80), 80, -1, '<successor elementType="junction" elementId="9"/>',
        ("", _LANE.format(-1, "") + _LANE.format(-2, "")),
        '<signal name="Signal_3Light_Post01" id="943" s="40" t="-9" zOffset="0" hOffset="0" orientation="-" dynamic="yes" '
        'country="OpenDRIVE" type="1000001" subtype="-1" value="-1"><validity fromLane="0" toLane="0"/></signal>'
        '<signal name="Sign_Stop" id="944" s="60" t="-9" zOffset="0" hOffset="0" orientation="-" dynamic="no" '
        'country="OpenDRIVE" type="206" subtype="-1" value="-1"><validity fromLane="0" toLane="0"/></signal>',
    )
    # Straight on with lanes -1 and -2; and one that runs against its road, whose traffic enters at its end.
    + _road(
        2, _LINE.format(80, 0, 20), 20, 9, '<predecessor elementType="road" elementId="1" contactPoint="end"/>'
        '<successor elementType="road" elementId="3" contactPoint="start"/>',
        ("", _LANE.format(-1, '<predecessor id="-1"/><successor id="-1"/>') + _LANE.format(-2, '<predecessor id="-2"/>')),
        _REFERENCE.format(0.6, "-", -2, -2) + _REFERENCE.format(0.6, "-", -1, -1),
    )
    + _road(
        3, _LINE.format(100, 0, 60), 60, -1, '<predecessor elementType="junction" elementId="9"/>',
        (_LANE.format(1, ""), _LANE.format(-1, "")),
    )
    + _road(
        4, _LINE.format(80, 0, 20), 20, 9, '<predecessor elementType="road" elementId="1" contactPoint="end"/>'
        '<successor elementType="road" elementId="3" contactPoint="start"/>',
        (_LANE.format(1, '<successor id="1"/>'), ""),
        '<signalReference id="944" s="19.5" t="0" orientation="+"><validity fromLane="1" toLane="1"/></signalReference>',
    )
    + '<junction id="9" name=""><connection id="0" incomingRoad="1" connectingRoad="2" contactPoint="start">'
    '<laneLink from="-1" to="-1"/><laneLink from="-2" to="-2"/></connection>'
    '<connection id="1" incomingRoad="3" connectingRoad="4" contactPoint="end"><laneLink from="1" to="1"/></connection>'
    '<controller id="1" type="0"/></junction>'
    '<controller name="c" id="1"><control signalId="943" type="0"/></controller></OpenDRIVE>'
)  # fmt: skip


def names(client):
    return [path.rpartition("/")[2] for path in client.value("get_available_maps")]


def load(client, name):
    return client.ask("load_new_episode", name, True, LAYERS)[1]


def test_files_of_a_folder_are_maps_under_two_names(folder):
    with served(map_files=map_files([folder])) as server, RawClient(server) as client:
        assert {"Town05", "Town05_Opt", "Lane", "Lane_Opt"} <= set(names(client))
        for name in ("Town05", "/Game/Carla/Maps/Town05_Opt", "Lane"):
            assert load(client, name) == [[False]]
            assert client.value("get_map_info")[0] == f"Carla/Maps/{name.rpartition('/')[2]}"
        assert client.value("get_map_data") == one_road()
        # Without a name the same map is loaded again, with one that is not there nothing is.
        assert load(client, "") == [[False]]
        refused = load(client, "Town06")
        assert "'Town06' not found" in refused[0][1][0]
        assert "Lane" in refused[0][1][0]
        assert client.value("get_map_info")[0] == "Carla/Maps/Lane"


def test_a_light_of_roadrunners_kind_has_its_lanes(folder):
    with served(map_files=map_files([folder]), map_name="Town05") as server, RawClient(server) as client:
        actors = {actor[2][1]: actor for actor in client.value("get_actors_by_id", list(range(1, 10)))}
        middle, half, *_ = actors["traffic.traffic_light"][3]
        # At (40, 9), looking across to the right: both lanes, 3 m before the line, a quarter of the outer lanes left out.
        assert middle == pytest.approx([3.5 - 9.0, -(79.5 - 3.0 - 40.0), 1.0])
        assert half == pytest.approx([1.75 + 0.875, 1.5, 1.0])
        # The stop sign at (60, 9) speaks to those who come the other way, and looks to their right.
        middle, half, *_ = actors["traffic.stop"][3]
        assert middle == pytest.approx([9.0 + 1.75, 100.5 + 3.0 - 60.0, 1.0])
        assert half == pytest.approx([0.875, 1.5, 1.0])


def test_vehicles_are_at_that_light_and_red_at_the_stop_sign(folder):
    with served(map_files=map_files([folder]), map_name="Town05") as server, RawClient(server) as client:
        settings = client.value("get_episode_settings")
        client.value("set_episode_settings", [True, False, [True, 0.05], *settings[3:]])
        places = {
            "first": (75.0, 1.75, 0.0),
            "second": (75.0, 5.25, 0.0),
            "far": (20.0, 1.75, 0.0),
            "sign": (104.0, -1.75, 180.0),
        }
        ids = {
            name: client.value("spawn_actor", [0, "vehicle.audi.a2", []], [[x, y, 0.3], [0.0, yaw, 0.0]])[0]
            for name, (x, y, yaw) in places.items()
        }
        client.value("tick_cue")
        (light,) = [actor[0] for actor in client.value("get_actors_by_id", list(range(1, 10))) if "light" in actor[2][1]]
        client.ask("set_traffic_light_state", light, 0)
        client.ask("freeze_traffic_light", light, True)
        client.value("tick_cue")
        with RawListener(server, WORLD_STREAM) as listener:
            rows = np.frombuffer(listener.message()[48 + 36 :], ACTOR_STATE)
        found = {name: rows[rows["id"] == number][0] for name, number in ids.items()}
        seen = {name: (int(row["at_light"]), int(row["light_id"]), int(row["light_state"])) for name, row in found.items()}
        assert seen == {"first": (1, light, 0), "second": (1, light, 0), "far": (0, 0, 2), "sign": (0, 0, 0)}


def test_an_alias_may_be_a_pattern_and_needs_no_twin(folder):
    aliases = {"Town*": "town", "Town03": "oval", "Home": "Lane"}
    with served(map_files=map_files([folder]), aliases=aliases) as server, RawClient(server) as client:
        assert "Town*" not in names(client)
        assert {"Town03", "Home"} <= set(names(client))
        shown = {}
        for name in ("Town01", "Town03_Opt", "Town05_Opt", "Home"):
            assert load(client, name) == [[False]]
            shown[name] = client.value("get_map_info")[0]
        # The last part is what was asked for; the part before says what it is.
        assert shown == {
            "Town01": "samepath/town/Town01",
            "Town03_Opt": "samepath/oval/Town03_Opt",
            "Town05_Opt": "Carla/Maps/Town05_Opt",
            "Home": "samepath/Lane/Home",
        }
        assert client.value("get_map_data") == one_road()
        (warning,) = [line for line in server.lines if "not CARLA's map" in line]
        assert "Town*=town, Town03=oval" in warning
        assert "Home" not in warning


def test_without_such_names_nobody_is_warned():
    with served(aliases={"Home": "town"}) as server:
        assert not [line for line in server.lines if "not CARLA's map" in line]


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda folder: (folder / "town.xodr").write_text("x"), "would hide another map"),
        (lambda folder: (folder / "a=b.xodr").write_text("x"), "plain characters"),
        (lambda folder: None, "there are none in it"),
    ],
)
def test_a_folder_of_maps_that_cannot_be_is_refused(tmp_path, write, words):
    write(tmp_path)
    with pytest.raises(InputError, match=words):
        map_files([tmp_path], ["town"])
    with pytest.raises(InputError, match="no such folder"):
        map_files([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<OpenDRIVE", "well-formed XML"),
        (b"\xff\xfe\x00", "text in UTF-8"),
        (b"x" * (16 * 1024 * 1024 + 1), "at most 16777216 bytes"),
    ],
)
def test_a_file_that_is_no_map_is_an_answer_and_the_world_goes_on(tmp_path, content, words):
    (tmp_path / "Odd.xodr").write_bytes(content)
    with served(map_files=map_files([tmp_path])) as server, RawClient(server) as client:
        refused = load(client, "Odd")
        assert words in refused[0][1][0]
        assert client.value("get_map_info")[0] == "Carla/Maps/t-junction"


def test_scenarios_find_maps_by_path_and_by_name(folder, monkeypatch):
    assert load_map(str(folder / "Lane.xodr")).name == "Lane"
    with pytest.raises(UnknownNameError, match="Lane"):
        load_map("Lane")
    monkeypatch.setenv("SAMEPATH_MAPS", str(folder))
    assert load_map("Lane").xodr == one_road()
    assert load_map("Town05_Opt").name == "Town05"


@pytest.mark.parametrize(("step_s", "substeps"), [(3.0, 30), (10.0, 100), (1.0, 10)])
def test_a_tick_may_take_seconds_and_physics_divides_it(step_s, substeps):
    """CARLA's lidar_to_camera.py ticks 3 s at a time."""
    with served(map_name="oval") as server, RawClient(server) as client:
        settings = client.value("get_episode_settings")
        client.value("set_episode_settings", [True, False, [True, step_s], *settings[3:]])
        car = client.value("spawn_actor", [0, "vehicle.tesla.model3", []], [[34.0, -200.0, 0.3], [0.0, 90.0, 0.0]])[0]
        client.value("tick_cue")
        client.ask("apply_control_to_vehicle", car, [0.3, 0.0, 0.0, False, False, False, 0])
        client.value("tick_cue")
        episode = server._runner.episode
        assert substeps_of(episode, step_s) == substeps
        pose = episode.world.state(car).pose
        assert abs(pose.x_m - 34.0) < 0.5
        assert pose.y_m > -200.0
        assert abs(pose.z_m) < 0.3
        refused = client.ask("set_episode_settings", [True, False, [True, 10.5], *settings[3:]])[1]
        assert "at most 10 s" in refused[0][1][0]
        assert msgpack.unpackb(msgpack.packb(client.value("get_episode_settings")[2])) == [True, step_s]


SIGNS = (
    '<objects><object id="1" name="Speed_60" type="-1" s="30" t="-4" zOffset="0" hdg="0" orientation="-" height="0" width="0" '
    'length="0"/><object id="2" name="SppedLimit40Assembly" type="-1" s="60" t="4" zOffset="0.1" hdg="3.14" orientation="+"/>'
    '<object id="3" name="Stencil_STOP" type="-1" s="90" t="-1.5" zOffset="0" hdg="0" orientation="-"/>'
    '<object id="4" name="Speed_bump" type="-1" s="9" t="0"/><object id="5" name="Speed_999" type="-1" s="9" t="0"/></objects>'
)


def test_speed_limits_of_carlas_towns_are_signs_that_are_objects(tmp_path):
    """CARLA reads them by name, and not the speeds of roads: those are what RoadRunner suggests."""
    road = '<type s="0" type="town"><speed max="65" unit="mph"/></type>'
    text = one_road(before=road, after=SIGNS).replace("revMajor", 'vendor="VectorZero" revMajor')
    (tmp_path / "Signs.xodr").write_text(text)
    (tmp_path / "Plain.xodr").write_text(one_road(before=road, after=SIGNS))
    with served(map_files=map_files([tmp_path]), map_name="Signs") as server, RawClient(server) as client:
        kinds = [actor[2][1] for actor in client.value("get_actors_by_id", list(range(1, 6)))]
        assert kinds == ["traffic.speed_limit.60", "traffic.speed_limit.40", "traffic.stop", "spectator"]
        assert limits(server, client, 10.0, 0.0, 15.0) == 30.0  # CARLA's before the first sign
        assert limits(server, client, 20.0, 0.0, 20.0) == 60.0
        assert limits(server, client, 80.0, 180.0, 15.0) == 30.0  # 60 is for the other side, 40 is further on
        assert limits(server, client, 80.0, 180.0, 25.0) == 40.0
        load(client, "Plain")
        assert limits(server, client, 10.0, 0.0, 5.0) == pytest.approx(65 * 1.609344)


def limits(server, client, x, yaw, metres):
    """The speed limit of a vehicle that was driven so far on the one road there is."""
    client.value("set_episode_settings", [True, False, [True, 0.1], *client.value("get_episode_settings")[3:]])
    side = 1.5 if yaw == 0.0 else -1.5
    car = client.value("spawn_actor", [0, "vehicle.audi.a2", []], [[x, side, 0.3], [0.0, yaw, 0.0]])[0]
    client.ask("enable_actor_constant_velocity", car, [10.0, 0.0, 0.0])
    for _ in range(round(metres)):
        client.value("tick_cue")
    with RawListener(server, WORLD_STREAM) as listener:
        rows = np.frombuffer(listener.message()[48 + 36 :], ACTOR_STATE)
    found = float(rows[rows["id"] == car][0]["speed_limit"])
    client.value("destroy_actor", car)
    return found


def test_crossings_are_found_by_name_too():
    crossing = '<objects><object id="1" name="SimpleCrosswalk" type="-1" s="50" t="0" hdg="0" length="4" width="6"/></objects>'
    assert len(parse_map(one_road(after=crossing), "x").crosswalks) == 1


def test_a_scenario_is_driven_on_a_map_of_the_users_as_on_ours(tmp_path, monkeypatch):
    """The same roads under another name, by path and by name, give the same motion to the bit."""
    ours = load_scenario("table1-test1")
    (tmp_path / "Mine.xodr").write_text(load_map(ours.map).xodr)
    monkeypatch.setenv("SAMEPATH_MAPS", str(tmp_path))
    ends = []
    for name in (ours.map, "Mine", str(tmp_path / "Mine.xodr")):
        scenario = ours.model_copy(update={"map": name})
        check_on_map(scenario)
        simulation = Simulation(scenario, SimulationSettings())
        for _ in range(40):
            simulation.step()
        ends.append(simulation.world.state_array()[1].tobytes())
    assert ends[0] == ends[1] == ends[2]


def test_a_node_knows_the_users_maps_by_name_and_builds_what_the_main_server_sends(folder):
    names = ServerSettings(aliases={"Home": "Lane"}, map_files=map_files([folder])).map_names
    assert names == {"Home": "Lane", "Lane": "Lane", "Town05": "Town05"}
    library = named_maps(names, print, ServerLimits())
    shown = {path.rpartition("/")[2] for path in library.paths()}
    assert {"Lane", "Lane_Opt", "Town05", "Town05_Opt", "Home"} <= shown
    scene = map_sent("Town05_Opt", "Town05", ROADRUNNER)
    assert (scene.name, scene.road_map.name, scene.road_map.xodr) == ("Town05_Opt", "Town05", ROADRUNNER)
    assert map_sent("Home", "town", "").road_map is load_map("town")


def test_a_resumed_server_knows_the_users_maps(folder):
    origin = JournalOrigin("Lane", map_files=map_files([folder]))
    assert JournalOrigin.of(origin.plain()).map_files == map_files([folder])
    older = {key: value for key, value in origin.plain().items() if key != "map_files"}
    assert JournalOrigin.of(older).map_files == {}
