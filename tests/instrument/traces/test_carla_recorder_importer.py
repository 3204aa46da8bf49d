"""CARLA's recorder files as logs: one file a repeat, actors by the order of their appearance."""

import dataclasses
import struct

import pytest

from samepath.core.errors import InputError, SamepathError
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.traces.importers import Align, ImportOptions, load_cells
from samepath.simulator.carla.recorder_file import (
    NO_ACTOR,
    AddedActor,
    Content,
    Kinematics,
    LogCollision,
    LogHeader,
    LogPose,
    LogWriter,
    VehicleInput,
    WalkerInput,
)


def added(actor, name):
    kind = {"vehicle": 1, "walker": 2, "traffic": 3}.get(name.partition(".")[0], 0)
    return AddedActor(actor, kind, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1, name)


def drive(first_id, off_m=0.0, hit_at=3):
    """A car that starts beside a walker, hits it, drives on and is taken away; a camera rides along."""
    car, walker, camera = first_id, first_id + 1, first_id + 2
    names = {car: "vehicle.audi.tt", walker: "walker.pedestrian.0001", camera: "sensor.camera.rgb"}
    contents = []
    for tick in range(6):
        at = LogPose(car, 1.5 * tick + (off_m if tick > hit_at else 0.0), 2.0, 0.5, 0.0, 0.0, 90.0)
        contents.append(
            Content(
                added=tuple(added(actor, name) for actor, name in names.items()) if tick == 0 else (),
                removed=(car,) if tick == 5 else (),
                placed=(at, LogPose(walker, 4.0, 2.0, 1.0, 0.0, 0.0, 0.0), LogPose(camera, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
                vehicles=(VehicleInput(car, 0.25, 1.0, 0.0, False, 2),),
                walkers=(WalkerInput(walker, 1.5),),
                hits=(LogCollision(0, car, walker), LogCollision(1, car, NO_ACTOR)) if tick == hit_at else (),
            )
        )
    return contents


def write(path, contents, step_s=0.05, map_name="Carla/Maps/Town03"):
    with path.open("wb") as file:
        writer = LogWriter(file, LogHeader(map_name, 0))
        for content, step in zip(contents, step_s if isinstance(step_s, list) else [step_s] * len(contents), strict=True):
            writer.frame(content, step)
    return path


def column(cell, repeat, actor, channel):
    run = cell.load(repeat)
    return run.values[run.actor == actor, run.channels.index(channel)].tolist()


def test_files_are_repeats_and_actors_keep_their_place_though_their_ids_change(tmp_path):
    paths = [write(tmp_path / f"run{number}.log", drive(24 + 100 * number)) for number in range(3)]
    (cell,) = load_cells(paths)
    assert [run.repeat for run in cell.runs] == [0, 1, 2]
    assert [(actor.id, actor.type) for actor in cell.actors] == [(1, "vehicle.audi.tt"), (2, "walker.pedestrian.0001")]
    assert cell.header.step_s == 0.05
    assert cell.header.scenario == "Town03"
    assert not cell.header.lossless
    assert column(cell, 1, 1, "x_m") == [0.0, 1.5, 3.0, 4.5, 6.0, 7.5]
    assert column(cell, 1, 1, "yaw_deg") == [90.0] * 6
    assert column(cell, 1, 1, "steer_ratio") == [0.25] * 6
    assert column(cell, 1, 2, "walk_speed_mps") == [1.5] * 6
    events = [(event.tick, event.kind, event.actor, event.other) for event in cell.load(2).events]
    assert events == [
        (0, "spawn", 1, None),
        (0, "spawn", 2, None),
        (3, "collision", 1, 2),
        (3, "collision", 1, None),
        (5, "destroy", 1, None),
    ]
    result = analyse_cell(cell)
    assert len(result.outcomes) == 1


def test_a_difference_is_found_after_the_collision_and_measured(tmp_path):
    paths = [write(tmp_path / f"run{number}.log", drive(1, off_m=0.5 if number == 2 else 0.0)) for number in range(3)]
    (cell,) = load_cells([tmp_path])
    assert [path.name for path in paths] == ["run0.log", "run1.log", "run2.log"]
    assert column(cell, 2, 1, "x_m")[3:] == [4.5, 6.5, 8.0]
    result = analyse_cell(cell)
    assert len(result.outcomes) == 2
    assert result.first_collision_tick == 3
    assert (result.first_divergence.tick, result.first_divergence.distance_m) == (4, 0.5)


def test_velocities_are_channels_where_they_were_recorded(tmp_path):
    contents = [
        dataclasses.replace(content, kinematics=(Kinematics(7, 30.0, 0.0, 0.0, 0.0, 0.0, 5.0),)) for content in drive(7)
    ]
    paths = [write(tmp_path / f"run{number}.rec", contents) for number in range(2)]
    (cell,) = load_cells(paths, ImportOptions(lossless=True))
    assert cell.header.lossless
    assert column(cell, 0, 1, "vx_mps") == [30.0] * 6
    assert column(cell, 0, 1, "wz_degps") == [5.0] * 6
    (plain,) = load_cells([paths[0], write(tmp_path / "plain.rec", drive(7))])
    assert "vx_mps" not in plain.header.channels


def test_a_variable_step_needs_to_be_asked_for(tmp_path):
    steps = [0.05, 0.05, 0.05, 0.08, 0.05, 0.05]
    paths = [write(tmp_path / f"run{number}.log", drive(1), steps) for number in range(2)]
    with pytest.raises(InputError, match=r"frame 4 comes 0\.08 s after the one before.*--align row"):
        load_cells(paths)
    (cell,) = load_cells(paths, ImportOptions(align=Align.ROW))
    assert cell.ticks.tolist() == [0, 1, 2, 3, 4, 5]


def test_recordings_that_do_not_belong_together_are_refused(tmp_path):
    first = write(tmp_path / "a.log", drive(1))
    with pytest.raises(InputError, match=r"recorded on Town01, but a\.log on Carla/Maps/Town03"):
        load_cells([first, write(tmp_path / "b.log", drive(1), map_name="Town01")])
    with pytest.raises(InputError, match=r"have 0\.05 to 0\.1 s"):
        load_cells([first, write(tmp_path / "b.log", drive(1), 0.1)])
    with pytest.raises(InputError, match="at least two frames was wanted, but it has 1"):
        load_cells([first, write(tmp_path / "b.log", drive(1)[:1])])
    with pytest.raises(InputError, match="no columns to map"):
        load_cells([first], ImportOptions(columns={"x": "y"}))


def test_a_folder_is_searched_for_recordings_but_other_logs_in_it_are_left_alone(tmp_path):
    (tmp_path / "server.log").write_text("hello\n")
    for number in range(2):
        write(tmp_path / f"run{number}.log", drive(1))
    (cell,) = load_cells([tmp_path])
    assert len(cell.runs) == 2


def frame_ends(data, at):
    """Where the frames of a recording end whose first packet is at ``at``."""
    while at < len(data):
        number, length = struct.unpack_from("<BI", data, at)
        at += 5 + length
        if number == 1:
            yield at


def test_a_recording_that_was_not_ended_is_read_up_to_its_last_whole_frame_and_says_so(tmp_path):
    whole = write(tmp_path / "a.log", drive(1)).read_bytes()
    ends = list(frame_ends(whole, 28 + len("Carla/Maps/Town03")))
    for cut in range(40, len(whole), 7):
        (tmp_path / "b.log").write_bytes(whole[:cut])
        frames = sum(end <= cut for end in ends)
        if frames < 2:
            with pytest.raises(SamepathError) as caught:
                load_cells([tmp_path / "b.log"])
            assert "\n" not in str(caught.value)
            continue
        (cell,) = load_cells([tmp_path / "b.log"])
        assert len(cell.ticks) == frames
        assert cell.header.source.endswith(f"b.log (cut off after frame {frames})" if cut not in ends else "b.log")


def test_a_place_that_is_no_number_is_refused(tmp_path):
    contents = drive(1)
    contents[2] = dataclasses.replace(contents[2], placed=(LogPose(1, float("nan"), 0.0, 0.0, 0.0, 0.0, 0.0),))
    with pytest.raises(InputError, match=r"a\.log: repeat 0, tick 2, actor 1: x_m is nan"):
        load_cells([write(tmp_path / "a.log", contents)])


def test_an_id_used_again_is_another_actor(tmp_path):
    contents = [*drive(1), Content(added=(added(1, "vehicle.bmw.grandtourer"),)), Content(placed=(LogPose(1, *[1.0] * 6),))]
    (cell,) = load_cells([write(tmp_path / f"run{number}.log", contents) for number in range(2)])
    assert [actor.type for actor in cell.actors] == ["vehicle.audi.tt", "walker.pedestrian.0001", "vehicle.bmw.grandtourer"]


def test_equal_recordings_only_show_equality_at_the_resolution_of_the_file(tmp_path):
    contents = [
        dataclasses.replace(content, placed=(LogPose(1, 123.456 + tick / 7.0, 2.0 / 3.0, 0.1, 0.0, 0.0, 0.0),))
        for tick, content in enumerate(drive(1))
    ]
    paths = [write(tmp_path / f"run{number}.log", contents) for number in range(2)]
    (cell,) = load_cells(paths)
    resolution = analyse_cell(cell).spread.resolution
    assert resolution.kind == "float32"
    assert resolution.step_m == pytest.approx(2.0**-10 / 100.0)  # of 12 417 cm
    (native,) = load_cells(paths, ImportOptions(lossless=True))
    assert not analyse_cell(native).spread.resolution.limits_equality


def test_recordings_of_a_folder_are_known_by_their_content_whatever_their_names(tmp_path):
    for number in range(2):
        write(tmp_path / f"run{number}", drive(7))
    (tmp_path / "notes.md").write_text("first, second\n")
    (tmp_path / "empty.bin").write_bytes(b"")
    (cell,) = load_cells([tmp_path])
    assert [run.repeat for run in cell.runs] == [0, 1]
