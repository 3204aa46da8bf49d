"""Recordings: CARLA's layout byte for byte, whatever is written is read, whatever is damaged is refused in one line."""

import io
import itertools
import math
import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samepath.core.errors import InputError
from samepath.simulator.carla.recorder import (
    LogRecording,
    LogReplay,
    ReplayOptions,
    blocked_text,
    collisions_text,
    info_text,
    inside,
    replay_text,
    span_s,
)
from samepath.simulator.carla.recorder_file import (
    NO_ACTOR,
    AddedActor,
    Content,
    Door,
    Kinematics,
    LightTimes,
    LogAttribute,
    LogBox,
    LogCollision,
    LogHeader,
    LogPose,
    LogWriter,
    Parent,
    SignalLight,
    StreetLamp,
    VehicleInput,
    VehicleLights,
    WalkerInput,
    open_log,
)

CAR = AddedActor(24, 1, 10.0, -2.0, 0.5, 0.0, 0.0, 90.0, 142, "vehicle.audi.tt", (LogAttribute(4, "role_name", "hero"),))
WALKER = AddedActor(25, 2, 5.0, 5.0, 1.0, 0.0, 0.0, 0.0, 170, "walker.pedestrian.0001")
SENSOR = AddedActor(26, 0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 12, "sensor.camera.rgb")


def placed(actor, x_m, yaw_deg=0.0):
    return LogPose(actor, x_m, 0.0, 0.0, 0.0, 0.0, yaw_deg)


def written(contents, step_s=0.05, map_name="Carla/Maps/Town03"):
    file = io.BytesIO()
    writer = LogWriter(file, LogHeader(map_name, 1_700_000_000))
    for content in contents:
        writer.frame(content, step_s)
    return file.getvalue()


def logged(folder, contents, step_s=0.05):
    path = folder / "run.log"
    path.write_bytes(written(contents, step_s))
    return open_log(path)


def test_a_file_begins_as_documented():
    data = written([], map_name="Town06")
    assert data[:2] == struct.pack("<H", 2)
    assert data[2:18] == b"\x0e\x00CARLA_RECORDER"
    assert data[18:26] == struct.pack("<q", 1_700_000_000)
    assert data[26:].hex(" ") == "06 00 54 6f 77 6e 30 36"


def test_a_frame_is_laid_out_as_documented():
    content = Content(
        (CAR,), (100, 101), (Parent(26, 24),), (LogCollision(0, 24, 25, actor_is_hero=True),), placed=(placed(24, 1.5, 90.0),)
    )
    data = written([content, Content()])
    at = 26 + 2 + len("Carla/Maps/Town03")
    found = []
    while at < len(data):
        number, size = struct.unpack_from("<BI", data, at)
        found.append((number, data[at + 5 : at + 5 + size]))
        at += 5 + size
    # Start, events, positions and states, end.
    assert [number for number, _ in found[:11]] == [0, 2, 3, 4, 5, 23, 6, 7, 8, 9, 10]
    packets = dict(reversed(found))
    assert packets[0] == struct.pack("<Qdd", 1, 0.05, 0.0)
    assert packets[1] == b""
    assert packets[3] == struct.pack("<HII", 2, 100, 101)
    assert packets[4] == struct.pack("<HII", 1, 26, 24)
    assert packets[5] == struct.pack("<HIII??", 1, 0, 24, 25, True, False)
    assert packets[6] == struct.pack("<HI6f", 1, 24, 150.0, 0.0, 0.0, 0.0, 0.0, 90.0)  # centimetres; roll, pitch, yaw
    head = struct.pack("<HIB6fI", 1, 24, 1, 1000.0, -200.0, 50.0, 0.0, 0.0, 90.0, 142)
    name = b"\x0f\x00vehicle.audi.tt"
    assert packets[2] == head + name + b"\x01\x00" + b"\x04" + b"\x09\x00role_name" + b"\x04\x00hero"
    assert found[12] == (0, struct.pack("<Qdd", 2, -1.0, 0.05))  # how long the last frame lasted was never known


def numbers():
    return st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-2e5, max_value=2e5)


def metres():
    """What comes back as it went: whole centimetres as 32-bit floats."""
    return numbers().map(lambda value: value / 100.0)


IDS = st.integers(0, 0xFFFFFFFF)
TEXT = st.text(max_size=12)
FLAG = st.booleans()
BYTE = st.integers(0, 255)


def rows(record, *fields):
    return st.lists(st.builds(record, *fields), max_size=2).map(tuple)


PLACE = (metres(), metres(), metres(), numbers(), numbers(), numbers())
ADDED = rows(AddedActor, IDS, BYTE, *PLACE, IDS, TEXT, rows(LogAttribute, BYTE, TEXT, TEXT))
BOXES = rows(LogBox, IDS, *[metres()] * 6)
CONTENTS = st.builds(
    Content,
    added=ADDED,
    removed=st.lists(IDS, max_size=3).map(tuple),
    parents=rows(Parent, IDS, IDS),
    hits=rows(LogCollision, IDS, IDS, IDS, FLAG, FLAG),
    doors=rows(Door, IDS, BYTE, FLAG),
    placed=rows(LogPose, IDS, *[metres()] * 3, *[numbers()] * 3),
    signal_lights=rows(SignalLight, IDS, FLAG, numbers(), BYTE),
    vehicles=rows(VehicleInput, IDS, numbers(), numbers(), numbers(), FLAG, st.integers(-(2**31), 2**31 - 1)),
    walkers=rows(WalkerInput, IDS, numbers()),
    vehicle_lights=rows(VehicleLights, IDS, IDS),
    lamps=rows(StreetLamp, st.integers(0, 2**31 - 1), *[numbers()] * 5, FLAG, BYTE),
    kinematics=rows(Kinematics, IDS, *[numbers()] * 6),
    boxes=BOXES,
    triggers=BOXES,
    light_times=rows(LightTimes, IDS, numbers(), numbers(), numbers()),
    visual_s=st.none() | st.floats(allow_nan=False),
    platform_s=st.none() | st.floats(allow_nan=False),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(CONTENTS, max_size=4), st.floats(1e-3, 10.0))
def test_whatever_is_written_is_read_again(tmp_path, contents, step_s):
    log = logged(tmp_path, contents, step_s)
    frames = list(log.frames())
    assert [frame.content for frame in frames] == contents
    assert [frame.number for frame in frames] == list(range(1, len(contents) + 1))
    assert log.extent == ((frames[-1].number, frames[-1].elapsed_s) if frames else (0, 0.0))
    for before, after in itertools.pairwise(frames):
        assert before.duration_s == step_s
        assert after.elapsed_s == before.elapsed_s + step_s
    assert written([frame.content for frame in frames], step_s) == log.path.read_bytes()


WHOLE = written(
    [
        Content(added=(CAR, WALKER), boxes=(LogBox(24, *[1.0] * 6),)),
        Content(
            placed=(placed(24, 1.0),),
            vehicles=(VehicleInput(24, 0.0, 1.0, 0.0, False, 1),),
            hits=(LogCollision(0, 24, NO_ACTOR),),
        ),
        Content(removed=(24,), signal_lights=(SignalLight(9, False, 1.0, 2),)),
    ]
)


def everything_said(path):
    log = open_log(path)
    info_text(log, everything=True)
    collisions_text(log, "a", "a")
    blocked_text(log, 0.0, 100.0)
    replay = LogReplay(log, ReplayOptions(replay_sensors=True))
    step = replay.begin()
    for _ in range(5):
        step = replay.advance(0.05)
    return step


def frame_ends(data, at):
    """Where the frames of a recording end whose first packet is at ``at``."""
    while at < len(data):
        number, length = struct.unpack_from("<BI", data, at)
        at += 5 + length
        if number == 1:
            yield at


def test_a_file_cut_off_anywhere_is_read_up_to_its_last_whole_frame(tmp_path):
    path = tmp_path / "run.log"
    header = 28 + len("Carla/Maps/Town03")
    path.write_bytes(WHOLE)
    frames = list(open_log(path).frames())
    ends = list(frame_ends(WHOLE, header))
    assert len(ends) == len(frames)
    for cut in range(len(WHOLE)):
        path.write_bytes(WHOLE[:cut])
        if cut < header:
            with pytest.raises(InputError) as caught:
                everything_said(path)
            assert "\n" not in str(caught.value)
            continue
        everything_said(path)
        log, whole = open_log(path), [end for end in ends if end <= cut]
        assert list(log.frames()) == frames[: len(whole)]
        assert log.extent[0] == len(whole)
        assert log.is_cut == (cut not in (header, *ends))
        assert ("was not ended" in info_text(log, everything=False)) == log.is_cut


def test_a_packet_that_swallows_the_frames_after_it_is_damage_and_no_end(tmp_path):
    path = tmp_path / "run.log"
    # The packet after the first frame's start claims to be as long as the rest of the file and more.
    at = 28 + len("Carla/Maps/Town03") + 5 + 24 + 1
    path.write_bytes(WHOLE[:at] + struct.pack("<I", len(WHOLE)) + WHOLE[at + 4 :])
    with pytest.raises(InputError, match=r"packet \d+ claims"):
        list(open_log(path).frames())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, len(WHOLE)), st.binary(max_size=9)), min_size=1, max_size=3))
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path, damage):
    data = WHOLE
    for place, new in damage:
        data = data[:place] + new + data[place + len(new) :]
    path = tmp_path / "run.log"
    path.write_bytes(data)
    try:
        everything_said(path)
    except InputError as error:
        assert "\n" not in str(error)


def test_a_packet_that_claims_gigabytes_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "run.log"
    path.write_bytes(written([]) + struct.pack("<BI", 6, 0xFFFFFFFF) + b"x" * 100)
    with pytest.raises(InputError, match="claims 4294967295 bytes, but 100 are left"):
        assert open_log(path).extent


def test_packets_of_later_versions_are_read_past(tmp_path):
    path = tmp_path / "run.log"
    start, end = struct.pack("<BIQdd", 0, 24, 1, 0.1, 0.0), struct.pack("<BI", 1, 0)
    path.write_bytes(written([]) + start + struct.pack("<BI3s", 200, 3, b"new") + end)
    assert [frame.content for frame in open_log(path).frames()] == [Content()]


def test_other_files_are_refused_by_name(tmp_path):
    path = tmp_path / "run.log"
    path.write_bytes(b"time,x,y\n")
    with pytest.raises(InputError, match="is not a CARLA recorder file"):
        open_log(path)
    path.write_bytes(b"\x09" + WHOLE[1:])
    with pytest.raises(InputError, match="version 1 or 2 was wanted, but 9 came"):
        open_log(path)
    with pytest.raises(InputError, match="cannot be read"):
        open_log(tmp_path / "missing.log")


def test_what_no_file_can_hold_is_refused_when_it_is_written():
    for content in (
        Content(removed=(1,) * 70000),
        Content(placed=(LogPose(-1, *[0.0] * 6),)),
        Content(placed=(placed(1, 1e60),)),
    ):
        with pytest.raises(InputError):
            written([content])
    with pytest.raises(InputError, match=r"step of 0\.0 s"):
        written([Content()], 0.0)


DRIVE = [
    Content(added=(CAR, WALKER, SENSOR), parents=(Parent(26, 24),), placed=(placed(24, 0.0), placed(25, 5.0))),
    Content(
        placed=(placed(24, 2.0, 170.0), placed(25, 5.0)),
        hits=(LogCollision(0, 24, 25, actor_is_hero=True), LogCollision(1, 24, NO_ACTOR)),
    ),
    Content(placed=(placed(24, 4.0, -170.0), placed(25, 5.0)), hits=(LogCollision(2, 24, 25, actor_is_hero=True),)),
    Content(placed=(placed(24, 6.0), placed(25, 5.01)), vehicles=(VehicleInput(24, 0.5, 1.0, 0.0, False, 2),)),
    Content(removed=(24,), placed=(placed(25, 5.0),)),
]


def test_the_text_about_a_file_names_what_happened(tmp_path):
    text = info_text(logged(tmp_path, DRIVE, 1.0), everything=False)
    assert text.splitlines() == [
        "Version: 2",
        "Map: Carla/Maps/Town03",
        "Date: 11/14/23 22:13:20",
        "",
        "Frame 1 at 0 seconds",
        " Create 24: vehicle.audi.tt (1) at (1000, -200, 50)",
        "  role_name = hero",
        " Create 25: walker.pedestrian.0001 (2) at (500, 500, 100)",
        " Create 26: sensor.camera.rgb (0) at (0, 0, 200)",
        " Parenting 26 with 24 (parent)",
        "Frame 2 at 1 seconds",
        " Collision id 0 between 24 (hero)  with 25",
        " Collision id 1 between 24 with 4294967295",
        "Frame 3 at 2 seconds",
        " Collision id 2 between 24 (hero)  with 25",
        "Frame 5 at 4 seconds",
        " Destroy 24",
        "",
        "Frames: 5",
        "Duration: 4 seconds",
    ]
    everything = info_text(logged(tmp_path, DRIVE, 1.0), everything=True)
    assert "  Id: 24 Location: (200, 0, 0) Rotation: (0, 0, 170)" in everything
    assert "  Id: 24 Steering: 0.5 Throttle: 1 Brake: 0 Handbrake: 0 Gear: 2" in everything
    assert everything.count("Frame ") == 5


@pytest.mark.parametrize(
    ("letters", "count"), [("aa", 2), ("vw", 1), ("wv", 0), ("vo", 1), ("hw", 1), ("ha", 1), ("ww", 0), ("va", 2)]
)
def test_the_text_about_collisions_shows_when_a_pair_began_to_touch(tmp_path, letters, count):
    text = collisions_text(logged(tmp_path, DRIVE, 1.0), *letters)
    rows_ = text.split("Actor 2")[1].strip().split("\n\n")[0].splitlines() if count else []
    assert len([row for row in rows_ if "vehicle" in row]) == count
    if letters == "vw":
        assert rows_[0].split() == ["1", "v", "w", "24", "vehicle.audi.tt", "25", "walker.pedestrian.0001"]


def test_the_text_about_blocked_actors_lists_the_longest_first(tmp_path):
    text = blocked_text(logged(tmp_path, DRIVE, 10.0), 20.0, 100.0)
    rows_ = [line.split() for line in text.splitlines() if "." in line]
    assert rows_ == [["0", "25", "walker.pedestrian.0001", "40"]]
    assert "vehicle.audi.tt" in blocked_text(logged(tmp_path, DRIVE, 10.0), 5.0, 100.0)


def test_a_replay_shows_every_frame_at_its_time(tmp_path):
    log = logged(tmp_path, DRIVE, 0.1)
    replay = LogReplay(log, ReplayOptions())
    first = replay.begin()
    assert [item.actor for item in first.added] == [24, 25]  # sensors only when asked for
    assert first.parents == ()
    assert first.placed == DRIVE[0].placed
    for content in DRIVE[1:4]:
        step = replay.advance(0.1)
        assert step.placed == content.placed
        assert not step.finished
    last = replay.advance(0.1)
    assert (last.removed, last.finished) == ((24,), True)
    assert [item.actor for item in last.placed] == [25]
    assert replay.advance(0.1).placed == last.placed


def test_between_frames_places_are_interpolated_the_short_way_round(tmp_path):
    replay = LogReplay(logged(tmp_path, DRIVE, 0.1), ReplayOptions(start_s=0.1))
    replay.begin()
    car = replay.advance(0.05).placed[0]
    assert car.x_m == pytest.approx(3.0)
    assert abs(math.remainder(car.yaw_deg - 180.0, 360.0)) < 1e-6


def test_a_replay_may_start_late_end_early_and_run_faster(tmp_path):
    log = logged(tmp_path, DRIVE, 1.0)
    assert span_s(log, ReplayOptions(start_s=-1.5)) == (2.5, 4.0)
    assert span_s(log, ReplayOptions(start_s=1.0, duration_s=2.0)) == (1.0, 3.0)
    assert span_s(log, ReplayOptions(start_s=99.0)) == (4.0, 4.0)
    replay = LogReplay(log, ReplayOptions(start_s=1.0, duration_s=2.0, time_factor=2.0))
    assert [item.actor for item in replay.begin().added] == [24, 25]
    step = replay.advance(1.0)
    assert (step.time_s, step.finished, step.placed[0].x_m) == (3.0, True, 6.0)
    assert "Replaying from 1 s - 3 s (4 s) at 2.0x" in replay_text(log, replay.options)


def test_a_replay_leaves_out_whom_it_should(tmp_path):
    log = logged(tmp_path, DRIVE, 0.1)
    step = LogReplay(log, ReplayOptions(ignore_hero=True)).begin()
    assert [item.actor for item in step.added] == [25]
    assert [item.actor for item in step.placed] == [25]
    step = LogReplay(log, ReplayOptions(replay_sensors=True)).begin()
    assert [item.actor for item in step.added] == [24, 25, 26]
    assert step.parents == (Parent(26, 24),)


def test_an_actor_that_comes_and_goes_within_a_step_is_never_shown(tmp_path):
    log = logged(tmp_path, [Content(), Content(added=(CAR,)), Content(removed=(24,)), Content(added=(CAR,)), Content()], 0.1)
    replay = LogReplay(log, ReplayOptions())
    replay.begin()
    step = replay.advance(0.2)
    assert (step.added, step.removed) == ((), ())
    assert [item.actor for item in replay.advance(0.1).added] == [24]


@pytest.mark.parametrize("name", ["run.log", "a/b.rec", "Größe 1.log", "..log", "x" * 200])
def test_names_inside_the_folder_are_taken(tmp_path, name):
    assert inside(tmp_path, name) == tmp_path / name
    recording = LogRecording(inside(tmp_path, name), "town", 0)
    recording.frame(Content(), 0.05)
    recording.close()
    assert open_log(tmp_path / name).extent == (1, 0.0)


@pytest.mark.parametrize(
    "name", ["/home/me/run.log", "/run.log", "C:\\logs\\run.log", "C:/logs/run.log", "\\\\host\\a\\run.log"]
)
def test_of_an_absolute_path_the_last_part_counts(tmp_path, name):
    assert inside(tmp_path, name) == tmp_path / "run.log"


def test_an_absolute_path_inside_the_folder_is_taken(tmp_path, monkeypatch):
    assert inside(tmp_path, str(tmp_path / "a" / "run.log")) == tmp_path / "a" / "run.log"
    monkeypatch.chdir(tmp_path)
    assert inside(Path("data"), str(tmp_path / "data" / "a" / "run.log")) == Path("data/a/run.log")
    with pytest.raises(InputError):
        inside(tmp_path, f"{tmp_path}/../run.log")


OUTSIDE = [
    "", " ", ".", "..", "../x", "a/../../x", "a/..", "/", "/a/..", "/a/", "a//b", "./x", "x/", "\0", "a\0b", "a\nb", "C:x",
    "C:\\", "\\x", "a:b", "x" * 201, "/".join(["d" * 199] * 6), "a\x7f", "\u202ex", "a\ud800", "*", " x", "x\t",
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_names_that_lead_out_are_refused_in_one_line(tmp_path, name):
    with pytest.raises(InputError) as caught:
        inside(tmp_path, name)
    assert "\n" not in str(caught.value)
    assert "\0" not in str(caught.value)


@given(st.text(alphabet="./\\a\0-:~ \n", max_size=20))
def test_no_name_ever_leads_out(name):
    folder = Path("/nonexistent/data")
    try:
        found = inside(folder, name)
    except InputError:
        return
    assert found.resolve().is_relative_to(folder)
    assert found != folder


def test_links_are_not_followed(tmp_path):
    folder, secret = tmp_path / "data", tmp_path / "secret"
    folder.mkdir()
    secret.write_text("secret")
    (folder / "link.log").symlink_to(secret)
    (folder / "dir").symlink_to(tmp_path)
    for name in ("link.log", "dir/secret"):
        with pytest.raises(InputError, match="link"):
            inside(folder, name)
    # Nor when a link appears after the name was looked at.
    with pytest.raises(InputError, match="cannot be written"):
        LogRecording(folder / "link.log", "town", 0)
    assert secret.read_text() == "secret"
    (folder / "sub").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        inside(folder, "sub")


def framed(number, *packets):
    """A frame of any packets."""
    start, end = struct.pack("<BIQdd", 0, 24, number, 0.1, 0.1 * (number - 1)), struct.pack("<BI", 1, 0)
    return start + b"".join(struct.pack("<BI", kind, len(data)) + data for kind, data in packets) + end


ONE_WALKER = (9, struct.pack("<HIf", 1, 25, 1.5))


def test_packets_of_one_kind_in_a_frame_are_put_together_in_order(tmp_path):
    (tmp_path / "run.log").write_bytes(written([]) + framed(1, *[ONE_WALKER] * 1000))
    (frame,) = open_log(tmp_path / "run.log").frames()
    assert frame.content == Content(walkers=(WalkerInput(25, 1.5),) * 1000)


def test_a_frame_of_more_packets_than_there_can_be_is_refused_wherever_it_is_read(tmp_path):
    """Each packet was put behind all before it: a file of 1.2 MB took 7 s, one of 12 MB would have taken ten minutes."""
    path = tmp_path / "run.log"
    path.write_bytes(written([]) + framed(1, *[ONE_WALKER] * 20_000))
    for read in (lambda log: list(log.frames()), lambda log: log.extent):
        with pytest.raises(InputError, match="at most 1024 packets and 16 MiB was wanted, but frame 1 has more"):
            read(open_log(path))


def test_a_frame_of_more_bytes_than_there_can_be_is_refused(tmp_path):
    path = tmp_path / "run.log"
    full = (9, struct.pack("<H", 65535) + struct.pack("<If", 25, 1.5) * 65535)
    path.write_bytes(written([]) + framed(1, *[full] * 40))
    with pytest.raises(InputError, match="16 MiB was wanted"):
        assert open_log(path).extent


LONG_NAME = AddedActor(24, 1, *[0.0] * 6, 1, "vehicle." + "x" * 60_000)


def test_texts_about_a_recording_are_bounded_whatever_names_and_counts_it_has(tmp_path):
    """One long name in the file stood in the text with every collision: 200 KB of recording made 1.2 GB of text."""
    hits = Content(added=(LONG_NAME,), hits=(LogCollision(0, 24, 24),) * 10_000)
    moves = [Content(placed=(placed(24, 1000.0 * number),)) for number in range(1000)]
    log = logged(tmp_path, [hits, *moves], 1.0)
    for text in (collisions_text(log, "a", "a"), blocked_text(log, 0.0, 1.0)):
        assert len(text) < 10_000_000
        assert "... and more: the text ends" in text
        assert text.endswith("Frames: 1001\nDuration: 1000 seconds\n")
    crowd = Content(walkers=(WalkerInput(25, 1.5),) * 60_000)
    text = info_text(logged(tmp_path, [crowd] * 3), everything=True)
    assert text.count("\n") < 100_010
    assert "... and more: the text ends within frame 2" in text


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e30])
def test_a_number_that_no_world_has_is_refused_before_it_is_played(tmp_path, odd):
    contents = (
        Content(placed=(placed(24, odd),)),
        Content(vehicles=(VehicleInput(24, odd, 0.0, 0.0, False, 1),)),
        Content(walkers=(WalkerInput(24, odd),)),
        Content(added=(CAR._replace(yaw_deg=odd),)),
    )
    for content in contents:
        replay = LogReplay(logged(tmp_path, [Content(), Content(), content], 0.1), ReplayOptions())
        replay.begin()
        with pytest.raises(InputError, match=r"frame 3, actor 24: numbers up to 1e\+09 were wanted") as caught:
            replay.advance(0.2)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"precious", b"\0" * 100, WHOLE[2:]])
def test_a_file_that_is_no_recording_is_never_written_over(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    for rehearsed in (False, True) if content else (False,):
        with pytest.raises(InputError, match=r"^notes.txt is there and is no recording, which alone is written over"):
            LogRecording(path, "town", 0, rehearsed=rehearsed)
    assert path.read_bytes() == content


def test_a_recording_is_written_over_by_the_next_one_of_its_name(tmp_path):
    path = tmp_path / "run.log"
    path.write_bytes(WHOLE)
    recording = LogRecording(path, "town", 0)
    recording.frame(Content(), 0.05)
    recording.close()
    log = open_log(path)
    assert (log.header.map_name, log.extent) == ("town", (1, 0.0))


def test_a_pipe_is_no_file_and_holds_nobody_up(tmp_path):
    os.mkfifo(tmp_path / "pipe.log")
    with pytest.raises(InputError, match=r"pipe\.log"):
        LogRecording(tmp_path / "pipe.log", "town", 0)
