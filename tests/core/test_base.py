"""Units, streams, suggestions, fingerprints and atomic files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.digests import fingerprint
from samepath.core.errors import InputError, StoreError, nearest
from samepath.core.files import write_text_atomically
from samepath.core.streams import stream
from samepath.core.units import format_length, parse_duration_s, parse_length_m, parse_tolerance_m


@pytest.mark.parametrize(
    ("text", "metres"),
    [
        ("1cm", 0.01),
        ("5 mm", 0.005),
        ("0.01", 0.01),
        ("1e-3 m", 0.001),
        (" 2m ", 2.0),
        ("3km", 3000.0),
        ("7µm", 7e-6),
        ("0", 0.0),
    ],
)
def test_lengths_are_read_with_their_units(text, metres):
    assert parse_length_m(text) == metres


@pytest.mark.parametrize("text", ["", "cm", "1 kg", "one cm", "1cm2", "nan", "inf", "1e999", "1,5cm", "--1"])
def test_other_texts_are_refused_with_an_example(text):
    with pytest.raises(InputError, match="was wanted"):
        parse_length_m(text)


def test_a_negative_tolerance_is_refused():
    with pytest.raises(InputError, match="at least 0"):
        parse_tolerance_m("-1cm")


def test_durations_too():
    assert parse_duration_s("100 ms") == 0.1
    assert parse_duration_s("2min") == 120.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.00547, "5.47 mm"),
        (0.59, "59 cm"),
        (1.5, "1.5 m"),
        (5.6e-13, "5.6e-13 m"),
        (9.9996e-4, "1 mm"),
        (2e-5, "20 µm"),
    ],
)
def test_lengths_are_printed_for_people(value, text):
    assert format_length(value) == text


@given(st.floats(1e-12, 1e6))
def test_a_printed_length_is_the_length_to_three_figures(value):
    number, unit = format_length(value).split()
    assert float(number) * {"km": 1e3, "m": 1, "cm": 1e-2, "mm": 1e-3, "µm": 1e-6, "nm": 1e-9}[unit] == pytest.approx(
        value, rel=6e-3
    )


def test_a_stream_is_its_name_and_nothing_else():
    assert stream(1, "noise", 7).random() == stream(1, "noise", 7).random()
    names = [(1, "noise", 7), (2, "noise", 7), (1, "noise", 8), (1, "noise", "7"), (1, "noise7"), (1, "noi", "se", 7)]
    assert len({stream(*name).random() for name in names}) == len(names)


def test_a_new_consumer_of_chance_moves_no_other():
    first = stream(1, "a").random(3)
    stream(1, "b").random(100)
    assert (stream(1, "a").random(3) == first).all()


def test_fingerprints_ignore_the_order_of_keys_and_nothing_else():
    assert fingerprint({"a": 1, "b": 2.5}) == fingerprint({"b": 2.5, "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 1.5})


def test_the_nearest_name_is_offered():
    assert nearest("tolerence", ["tolerance", "repeats"]) == "tolerance"
    assert nearest("xyz", ["tolerance"]) is None


def test_a_file_that_cannot_be_written_is_one_line_and_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.txt"
    write_text_atomically(path, "old")
    with pytest.raises(StoreError, match="could not be written"):
        write_text_atomically(tmp_path / "nowhere" / "a.txt", "new")
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
