"""Other people's logs: what is understood, and what is refused in one line that says what, where and what to do."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samepath.core.errors import InputError, SamepathError
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.traces.importers import Align, ImportOptions, choose_importer, load_cells


def write(path, text):
    path.write_text(text)
    return path


def tidy(repeats=3, ticks=4, actors=2, head="repeat,actor,time,x,y,z", x=lambda r, a, t: 1.5 * t + a):
    rows = [head]
    for r in range(repeats):
        for t in range(ticks):
            rows += [f"{r},{a},{0.1 * t:.1f},{x(r, a, t)!r},{2.0 * a!r},0.0" for a in range(actors)]
    return "\n".join(rows) + "\n"


def read(path, **options):
    return load_cells([path], ImportOptions(**options))


def refusal(path, **options):
    with pytest.raises(SamepathError) as caught:
        for cell in read(path, **options):
            analyse_cell(cell)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path.name) in message
    return message


def test_the_authors_logs_are_known_by_their_header_and_actors_by_their_number(authors_log):
    assert choose_importer(authors_log).name == "tsl"
    (cell,) = read(authors_log)
    assert len(cell.runs) == 12
    assert [actor.type for actor in cell.actors] == ["walker.pedestrian.0001"] * 2
    assert cell.header.step_s == 0.1
    assert cell.header.channels == ("x_m", "y_m", "z_m", "yaw_deg")
    assert "agentID" in cell.header.source, "an ignored column is listed as ignored"


def test_rounded_logs_that_agree_are_identical_at_the_logs_resolution_only(authors_log):
    result = analyse_cell(read(authors_log)[0])
    assert result.judgement.verdict == "identical-at-resolution"
    assert result.summary.max_sigma_m == 0.0
    assert result.spread.resolution.step_m == 0.001


def test_a_tidy_csv_is_found_by_its_column_names(tmp_path):
    (cell,) = read(write(tmp_path / "log.csv", tidy()))
    assert (len(cell.runs), len(cell.actor_ids), len(cell.ticks)) == (3, 2, 4)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_semicolons_and_tabs_separate_too(tmp_path, delimiter):
    (cell,) = read(write(tmp_path / "log.csv", tidy().replace(",", delimiter)))
    assert len(cell.runs) == 3


def test_columns_can_be_mapped_and_units_converted(tmp_path):
    text = tidy(head="episode_nr,who,ms,east,north,up", x=lambda r, a, t: 1234.0 + a)
    text = text.replace(",0.1,", ",100,").replace(",0.2,", ",200,").replace(",0.3,", ",300,").replace(",0.0,", ",0,")
    mapping = {
        "repeat": "episode_nr",
        "actor": "who",
        "time": "ms[ms]",
        "x": "east[cm]",
        "y": "north[cm]",
        "z": "up[cm]",
    }
    (cell,) = read(write(tmp_path / "log.csv", text), columns=mapping)
    assert cell.header.step_s == 0.1
    assert cell.load(0).values[0, 0] == 12.34


def test_units_in_headers_are_obeyed(tmp_path):
    (cell,) = read(write(tmp_path / "log.csv", tidy(head="repeat,actor,time [s],x_mm,y_mm,z_mm")))
    assert cell.load(0).values[2, 0] == 0.0015


def test_a_further_column_becomes_a_channel_when_the_user_says_so(tmp_path):
    lines = tidy().splitlines()
    text = "\n".join([lines[0] + ",soc", *(line + ",0.5" for line in lines[1:])])
    (cell,) = read(write(tmp_path / "log.csv", text), columns={"battery_ratio": "soc"})
    assert cell.header.channels[-1] == "battery_ratio"


def test_actors_may_have_names_instead_of_numbers(tmp_path):
    text = tidy().replace(",0,0.", ",ego,0.").replace(",1,0.", ",npc,0.")
    (cell,) = read(write(tmp_path / "log.csv", text))
    assert [actor.type for actor in cell.actors] == ["ego", "npc"]


def test_one_file_per_run_in_a_folder_is_one_cell(tmp_path):
    for number in range(4):
        lines = tidy(repeats=1).splitlines()
        write(tmp_path / f"run_{number}.csv", "\n".join(line.split(",", 1)[1] for line in lines))
    (cell,) = load_cells([tmp_path])
    assert len(cell.runs) == 4
    assert cell.header.cell == tmp_path.name


def test_parquet_with_full_numbers_is_bit_identical_only_if_the_user_vouches_for_them(tmp_path):
    random = np.random.default_rng(2)
    columns = {"repeat": np.repeat([0, 1], 50), "actor": np.zeros(100, int), "tick": np.tile(np.arange(50), 2)}
    columns |= {axis: np.tile(random.normal(0, 10, 50), 2) for axis in "xyz"}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    result = analyse_cell(read(tmp_path / "log.parquet")[0])
    assert (result.judgement.verdict, result.spread.resolution.step_m) == ("identical-at-resolution", 0.0)
    vouched = analyse_cell(read(tmp_path / "log.parquet", lossless=True)[0])
    assert vouched.judgement.verdict == "bit-identical"


def test_float32_numbers_limit_what_equality_shows_unless_the_user_vouches_for_them(tmp_path):
    values = np.tile(np.random.default_rng(2).normal(0, 10, 50).astype(np.float32), 2)
    columns = {"repeat": np.repeat([0, 1], 50), "actor": np.zeros(100, int), "tick": np.tile(np.arange(50), 2)}
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({**columns, "x": values, "y": values}), path)
    assert analyse_cell(read(path)[0]).judgement.verdict == "identical-at-resolution"
    assert analyse_cell(read(path, lossless=True)[0]).judgement.verdict == "bit-identical"


def test_repeats_that_start_at_different_times_can_be_aligned(tmp_path):
    rows = ["repeat,time,x,y"] + [f"{r},{5.0 * r + 0.1 * t:.1f},{t}.25,0.5" for r in range(2) for t in range(5)]
    path = write(tmp_path / "log.csv", "\n".join(rows))
    assert analyse_cell(read(path, align=Align.START)[0]).judgement.verdict == "identical-at-resolution"
    assert analyse_cell(read(path)[0]).judgement.verdict == "exceeds-tolerance"


def test_a_variable_step_is_refused_unless_rows_are_matched_by_number(tmp_path):
    times = [0.0, 0.1, 0.2, 0.3, 0.34567, 0.5]
    rows = ["repeat,time,x,y"] + [f"{r},{t},{t},0.5" for r in range(2) for t in times]
    path = write(tmp_path / "log.csv", "\n".join(rows))
    assert "--align row" in refusal(path)
    assert len(read(path, align=Align.ROW)[0].ticks) == 6


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is empty"]),
        ("\n\n", ["is empty"]),
        ("repeat,actor,time,x,y\n", ["no rows"]),
        ("alpha,beta\n1,2\n", ["no column for x_m", "--map"]),
        ("1,2,3\n4,5,6\n", ["header", "numbers came"]),
        ("repeat,repeat,time,x,y\n1,1,1,1,1\n", ["twice"]),
        (tidy().replace("4.0", "four", 1), ["line", "column", "'four' came"]),
        (tidy().replace("3.0", "3cm", 1), ["'3cm' came", "unit into the header"]),
        (tidy().replace("3.0", "", 1), ["missing"]),
        (tidy().replace("3.0", "nan", 1), ["finite number", "nan came"]),
        (tidy().replace("3.0", "-inf", 1), ["finite number", "-inf came"]),
        (tidy().replace("3.0", "1e200", 1), ["up to 1e+100", "1e+200 came"]),
        (tidy() + "2,1,0.3,5.5,2.0,0.0\n", ["duplicate row", "line 26", "line 25"]),
        (tidy() + "2,1,0.3\n", ["line 26", "6 values were wanted", "3 came"]),
        (tidy(head="repeat,actor,time,x_m,y_cm,z_m"), ["mixed units", "'y_cm' in cm"]),
        (tidy(head="repeat,actor,time,x[furlong],y,z"), ["furlong", "takes km, m"]),
        (
            tidy(x=lambda r, a, t: (1.5 * t + a + 3) * (100 if r == 2 else 1)).replace(",2.0,", ",0.0,"),
            ["mixed units", "times 100"],
        ),
        (tidy(repeats=1), ["at least 2 repeats"]),
    ],
    ids=lambda value: None if isinstance(value, list) else "",
)
def test_bad_text_is_refused_with_what_where_and_what_to_do(tmp_path, text, words):
    path = write(tmp_path / "bad.csv", text)
    if "at least 2" in words[0]:
        with pytest.raises(InputError, match="at least 2 repeats"):
            analyse_cell(read(path)[0])
        return
    message = refusal(path)
    for word in words:
        assert word in message, message


def test_a_wrong_value_is_found_on_its_line_even_behind_empty_lines(tmp_path):
    lines = tidy().splitlines()
    lines.insert(3, "")
    lines[6] = lines[6].rsplit(",", 3)[0] + ",oops,0.0,0.0"
    message = refusal(write(tmp_path / "bad.csv", "\n".join(lines)))
    assert "line 7," in message
    assert "column 'x'" in message


def test_a_truncated_parquet_file_is_refused(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"repeat": [0, 1], "x": [0.0, 1.0]}), path)
    path.write_bytes(path.read_bytes()[:-20])
    assert "not a whole Parquet file" in refusal(path)


def test_a_parquet_file_with_nan_names_row_and_column(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(
        pa.table({"repeat": [0, 0, 1, 1], "tick": [0, 1, 0, 1], "x": [0.0, 1.0, math.nan, 1.0], "y": [0.0] * 4}), path
    )
    assert "row 3, column 'x'" in refusal(path)


def test_binary_rubbish_is_refused(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(bytes(range(256)) * 10)
    assert "no importer knows" in refusal(path)


def test_a_missing_path_is_refused(tmp_path):
    assert "does not exist" in refusal(tmp_path / "nowhere.csv")


def test_an_empty_folder_is_refused(tmp_path):
    assert "no traces" in refusal(tmp_path)


def test_a_misspelt_column_in_a_mapping_gets_the_nearest_name(tmp_path):
    path = write(tmp_path / "log.csv", tidy())
    assert "did you mean 'actor'" in refusal(path, columns={"actor": "actr"})


def test_an_unknown_importer_is_refused_with_the_list(tmp_path):
    path = write(tmp_path / "log.csv", tidy())
    with pytest.raises(SamepathError, match="known: carla-recorder, tidy, tsl"):
        load_cells([path], importer="tydi")


def test_an_importer_of_another_package_is_found_by_its_entry_point(tmp_path, monkeypatch):
    from importlib.metadata import EntryPoint

    from samepath.instrument.traces import importers

    point = EntryPoint("mine", "samepath.instrument.traces.importers.tidy:TidyImporter", "samepath.importers")
    monkeypatch.setattr(importers, "entry_points", lambda group: [point])
    assert next(iter(importers.importers())) == "mine"


NEXT_TO_EACH_OTHER = (2**53, 2**53 + 1)  # one and the same float64


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("key", ["actor", "repeat", "tick"])
def test_whole_numbers_that_float64_cannot_tell_apart_stay_apart(tmp_path, key, suffix):
    rows = [{"repeat": 0, "actor": 0, "tick": 0, "x": 1.0, "y": 2.0, key: number} for number in NEXT_TO_EACH_OTHER]
    path = tmp_path / f"large.{suffix}"
    if suffix == "csv":
        write(path, "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    (cell,) = read(path)
    found = {
        "actor": cell.actor_ids.tolist(),
        "repeat": [run.repeat for run in cell.runs],
        "tick": cell.ticks.tolist(),
    }
    assert found[key] == list(NEXT_TO_EACH_OTHER)


@pytest.mark.parametrize(("text", "row"), [("9007199254740993.0", 3), ("1e16", 3), ("9223372036854775808", 3)])
def test_a_whole_number_that_cannot_be_kept_exactly_is_refused_with_its_place(tmp_path, text, row):
    path = write(tmp_path / "large.csv", f"repeat,actor,tick,x,y\n0,1.0,0,1.0,2.0\n0,{text},0,1.0,2.0\n")
    message = refusal(path)
    assert f"line {row}, column 'actor'" in message
    assert "cannot be kept exactly" in message


def test_a_large_whole_number_of_parquet_is_refused_where_a_float_was_wanted(tmp_path):
    pq.write_table(
        pa.table({"repeat": [0, 1], "time": [0, 2**53 + 1], "x": [1.0, 1.0], "y": [2.0, 2.0]}), tmp_path / "a.parquet"
    )
    message = refusal(tmp_path / "a.parquet")
    assert "row 2, column 'time': 9007199254740993 cannot be kept exactly" in message


def test_names_and_fractions_are_no_whole_numbers(tmp_path):
    (cell,) = read(write(tmp_path / "named.csv", tidy().replace("\n0,0,", "\n0,ego,").replace("\n0,1,", "\n0,0x10,")))
    assert sorted(actor.type for actor in cell.actors) == ["0", "0x10", "1", "ego"]


def large(path, **columns):
    """A log of two repeats and two moments, with these columns in the place of the usual ones; None: without that one."""
    whole = {
        "repeat": [0, 0, 1, 1],
        "actor": [0] * 4,
        "tick": [0, 1, 0, 1],
        "x": [1.0, 2.0, 1.0, 2.0],
        "y": [2.0] * 4,
    } | columns
    whole = {name: values for name, values in whole.items() if values is not None}
    if path.suffix == ".parquet":
        pq.write_table(pa.table(whole), path)
        return path
    rows = zip(*whole.values(), strict=True)
    return write(path, "\n".join([",".join(whole), *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("column", ["x", "time", "battery_ratio"])
def test_a_whole_number_that_no_float_has_is_refused_in_every_format_and_not_rounded(tmp_path, column, suffix):
    path = large(tmp_path / f"a.{suffix}", **{column: [2**53, 2**53 + 2, 2**53, 2**53 + 1]})
    message = refusal(path, columns={"battery_ratio": "battery_ratio"} if column == "battery_ratio" else {})
    place = "line 5" if suffix == "csv" else "row 4"
    assert f"{place}, column {column!r}: 9007199254740993 cannot be kept exactly" in message


def test_a_decimal_of_parquet_that_no_float_has_is_refused(tmp_path):
    values = pa.array([1, 2, 1, 2**60 + 1], pa.decimal128(30, 0))
    assert "row 4, column 'x': 1152921504606846977 cannot be kept" in refusal(large(tmp_path / "a.parquet", x=values))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_large_whole_numbers_that_floats_do_have_are_read(tmp_path, suffix):
    (cell,) = read(large(tmp_path / f"a.{suffix}", x=[2**60, 2**61, 2**60, 2**61]))
    assert cell.load(0).values[:, 0].tolist() == [2.0**60, 2.0**61]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("align", [Align.START, Align.ROW])
def test_nanoseconds_since_1970_are_counted_from_the_start_of_each_repeat_to_the_last_one(tmp_path, suffix, align):
    first, second = 1_700_000_000_123_456_789, 1_700_000_100_123_456_789
    stamps = [start + step * 100 for start in (first, second) for step in range(3)]
    path = large(tmp_path / f"a.{suffix}", **stamped(stamps))
    (cell,) = read(path, align=align, columns={"time": "stamp[ns]"})
    assert cell.ticks.tolist() == [0, 1, 2]
    assert cell.header.step_s == pytest.approx(1e-7)  # two float64 of 1970's nanoseconds lie 256 apart
    assert "--align start is exact" in refusal(path, columns={"time": "stamp[ns]"})


def stamped(stamps):
    return {
        "repeat": [0] * 3 + [1] * 3,
        "actor": [0] * 6,
        "tick": None,
        "stamp": stamps,
        "x": [float(number) for number in range(6)],
        "y": [0.0] * 6,
    }


def test_ticks_too_far_apart_to_count_from_the_first_are_refused(tmp_path):
    path = large(tmp_path / "a.parquet", tick=[-(2**63), 2**63 - 1, 0, 1])
    assert "too far apart" in refusal(path, align=Align.START)


def test_a_time_of_too_many_steps_is_refused(tmp_path):
    rows = ["repeat,time,x,y"] + [f"{r},{t},1.5,0.5" for r in range(2) for t in ("0", "0.1", "0.2", "0.3", "1e90")]
    assert "too many steps" in refusal(write(tmp_path / "a.csv", "\n".join(rows)))


def test_an_id_that_is_missing_is_said_to_be_missing(tmp_path):
    path = large(tmp_path / "a.parquet", actor=pa.array([0, 0, None, 0]))
    assert "row 3, column 'actor': a number was wanted, but the value is missing" in refusal(path)


def bomb(path, rows, **columns):
    """A small file of many rows: each column is one value and a run length."""
    row = {"repeat": 0, "actor": 0, "tick": 0, "x": 1.0, "y": 2.0} | columns
    runs = pa.array(np.zeros(rows // 4, np.int32))
    group = pa.table({name: pa.DictionaryArray.from_arrays(runs, [value]) for name, value in row.items()})
    with pq.ParquetWriter(path, group.schema, use_dictionary=True, compression="zstd") as writer:
        for _ in range(4):
            writer.write_table(group)
    return path


def test_a_small_parquet_file_that_holds_much_is_refused_by_what_it_would_take(tmp_path):
    path = bomb(tmp_path / "bomb.parquet", 400_000)
    assert path.stat().st_size < 20_000
    message = refusal(path, memory_bytes=8 << 20)
    assert "bomb.parquet (400000 rows)" in message
    assert "numbers that take at most 8 MiB in memory were wanted, but 16 MiB came" in message
    assert "--log-mib" in message


def test_a_long_text_in_every_row_stays_one_text(tmp_path):
    path = bomb(tmp_path / "bomb.parquet", 200_000, actor_type="x" * 100_000)
    assert path.stat().st_size < 1_000_000
    message = refusal(path, memory_bytes=64 << 20)  # 20 GB, if every row had a text of its own
    assert "a duplicate row" in message


def test_columns_that_nobody_asked_for_are_not_read_and_cost_nothing(tmp_path):
    path = tmp_path / "a.parquet"
    columns = {"repeat": [0, 0, 1, 1], "tick": [0, 1, 0, 1], "x": [1.0, 2.0] * 2, "y": [2.0] * 4}
    pq.write_table(pa.table(columns | {"notes": ["n" * 1_000_000] * 4, "points": [[1.0] * 100_000] * 4}), path)
    (cell,) = read(path, memory_bytes=1 << 10)
    assert cell.header.source.endswith("columns ignored: notes, points")


def test_the_bound_is_for_all_logs_together(tmp_path):
    paths = [large(tmp_path / f"{number}.parquet") for number in range(4)]
    assert len(load_cells(paths, ImportOptions(memory_bytes=700))) == 4
    with pytest.raises(InputError, match=r"3\.parquet .*--log-mib"):
        load_cells(paths, ImportOptions(memory_bytes=600))


def test_a_large_csv_is_refused_while_it_is_read(tmp_path):
    path = write(tmp_path / "a.csv", "repeat,actor,tick,x,y\n" + "".join(f"0,{n},0,1.5,2.5\n" for n in range(200_000)))
    assert "--log-mib" in refusal(path, memory_bytes=1 << 20)


def test_actors_that_never_meet_are_refused_before_the_analysis_lays_out_every_tick_of_each(tmp_path):
    path = write(tmp_path / "a.csv", "repeat,actor,tick,x,y\n" + "".join(f"{n % 2},{n},{n},1.5,2.5\n" for n in range(20_000)))
    assert "(20000 ticks times 20000 actors)" in refusal(path)


def test_a_header_of_thousands_of_columns_is_refused(tmp_path):
    text = ",".join(f"c{n}" for n in range(9000))
    assert "at most 2000 columns were wanted, but 9000 came" in refusal(write(tmp_path / "a.csv", f"{text}\n"))


def test_a_column_of_lists_is_no_column_of_numbers(tmp_path):
    path = large(tmp_path / "a.parquet", x=[[1.0]] * 4)
    assert "column 'x': numbers or text were wanted, but list" in refusal(path)


def test_a_column_that_stands_in_a_parquet_file_twice_is_refused(tmp_path):
    table = pa.table([[0, 1], [0, 1], [1.0, 2.0], [1.0, 2.0], [3.0, 4.0]], names=["repeat", "tick", "x", "y", " x"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert "column 'x' stands there twice" in refusal(tmp_path / "a.parquet")


def test_a_text_that_is_no_utf8_is_refused(tmp_path):
    names = pa.array([b"\xff\xfe"] * 4, pa.binary()).cast(pa.string(), safe=False)
    assert "not a whole Parquet file" in refusal(large(tmp_path / "a.parquet", actor=names))


def test_names_of_a_parquet_file_may_be_bytes_or_categories(tmp_path):
    bytes_ = pa.array([b"ego", b"npc"] * 2, pa.binary())
    (cell,) = read(large(tmp_path / "a.parquet", actor=bytes_))
    assert [actor.type for actor in cell.actors] == ["ego", "npc"]
    (cell,) = read(large(tmp_path / "b.parquet", actor=pa.array(["7", "8"] * 2).dictionary_encode()))
    assert cell.actor_ids.tolist() == [7, 8]


def test_a_column_whose_name_is_no_utf8_is_refused(tmp_path):
    path = large(tmp_path / "a.parquet", battery_charge_ratio=[1.0] * 4)
    path.write_bytes(path.read_bytes().replace(b"battery_charge_ratio", b"battery_charge_rati\xdf"))
    assert "not a whole Parquet file" in refusal(path)


def two_cars(actor, *, staggered=False, repeats=2, more="", names=("1", "2")):
    """Two cars side by side; ``actor`` is what the column is called that tells them apart."""
    rows = [f"repeat,time,{actor},x,y{more}"]
    for r in range(repeats):
        for t in range(30):
            for car in (0, 1):
                at = 0.2 * t + (0.1 * car if staggered else 0.0)
                extra = ",3,0.5" if more else ""
                rows.append(f"{r},{at:.1f},{names[car]},{5.0 * at:.3f},{20.0 * car + 0.001 * t:.3f}{extra}")
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("staggered", [False, True])
@pytest.mark.parametrize(
    "actor",
    ["VehicleID", "vehicleId", "vehicle-id", "Vehicle ID", "name", "Name", "role_name", "trackId", "EntityRef", "objectID"],
)
def test_common_names_of_actors_are_known_however_they_are_written(tmp_path, actor, staggered):
    names = ("ego", "other") if actor in ("name", "Name", "role_name", "EntityRef") else ("17", "4")
    (cell,) = read(write(tmp_path / "log.csv", two_cars(actor, staggered=staggered, names=names)))
    assert len(cell.actors) == 2
    assert analyse_cell(cell).judgement.verdict == "identical-at-resolution"


@pytest.mark.parametrize("staggered", [False, True])
@pytest.mark.parametrize(("actor", "names"), [("bolid", ("7", "9")), ("wagen", ("rot", "blau")), ("who", ("0", "1"))])
def test_an_unknown_column_that_looks_like_the_actor_is_named(tmp_path, actor, names, staggered):
    path = write(tmp_path / "log.csv", two_cars(actor, staggered=staggered, more=",gear,soc", names=names))
    message = refusal(path)
    assert f"column {actor!r} looks like the actor; name it with --map actor={actor}" in message
    assert "remove" not in message
    assert len(read(path, columns={"actor": actor})[0].actors) == 2
    table = {
        name: list(column)
        for name, column in zip(
            path.read_text().split("\n")[0].split(","),
            zip(*(row.split(",") for row in path.read_text().split()[1:]), strict=True),
            strict=True,
        )
    }
    typed = {
        name: pa.array([float(v) for v in column]) if name in ("time", "x", "y", "soc") else pa.array(column)
        for name, column in table.items()
    }
    pq.write_table(pa.table(typed), tmp_path / "log.parquet")
    assert f"--map actor={actor}" in refusal(tmp_path / "log.parquet")


def test_rows_for_one_moment_are_never_to_be_removed_where_no_column_tells_actors_apart(tmp_path):
    text = "repeat,time,x,y\n" + "".join(
        f"{r},{t / 10},{t + 9.5 * car},1\n" for r in (0, 1) for t in range(9) for car in (0, 1)
    )
    message = refusal(write(tmp_path / "log.csv", text))
    assert "no column tells actors apart among: repeat, time, x, y" in message
    assert "--map actor=COLUMN" in message
    assert "remove" not in message


def test_a_column_that_is_read_as_the_actor_and_does_not_tell_all_apart_is_said(tmp_path):
    text = two_cars("bolid", more=",vehicle,soc").replace("3,0.5", "truck,0.5")
    assert "column 'bolid' looks like the actor" in refusal(write(tmp_path / "log.csv", text))


def test_columns_of_one_car_are_not_taken_for_actors(tmp_path):
    random = np.random.default_rng(3)
    rows = ["repeat,time,x,y,gear,lane,phase,index"]
    for r in range(2):
        for t in range(60):
            x, y = 0.7 * t, 3.5 * (t // 20)  # changes lanes at once, and stands at the end
            rows.append(f"{r},{t / 10},{min(x, 30.0) + 1e-3 * random.normal():.6f},{y},{1 + t % 5},{t // 20},{'ab'[t % 2]},{t}")
    (cell,) = read(write(tmp_path / "log.csv", "\n".join(rows)))
    assert len(cell.actors) == 1


def test_an_id_that_is_another_type_in_another_run_is_a_difference(tmp_path):
    rows = [f"{r},{t / 10},1,{kind},{t},1" for r, kind in enumerate(("car", "car", "lorry")) for t in range(3)]
    (cell,) = read(write(tmp_path / "log.csv", "\n".join(["repeat,time,actor,type,x,y", *rows])))
    result = analyse_cell(cell)
    assert [run.actors[0].type for run in cell.runs] == ["car", "car", "lorry"]
    assert len(result.outcomes) == 2
    assert result.judgement.verdict == "exceeds-tolerance"
    assert (result.first_divergence.repeat, result.first_divergence.field) == (2, "type")
