"""The memory test: silent on sound memory, exact about a wrong bit, bounded in what it takes."""

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.instrument.host import doctor as memory_test
from samepath.instrument.host.doctor import (
    BLOCK_WORDS,
    LISTED_MAX,
    WrongWord,
    bounded_bytes,
    check_memory,
    count_steps,
    describe,
    format_size,
    parse_size_bytes,
)

MIB = 2**20
PATTERNS = ("0x00", "0xFF", "0x55", "0xAA", "address", "address, complement", "random", "random, complement")


def flip(pattern, index, *bits):
    def hook(name, words):
        if name == pattern:
            for bit in bits:
                words[index] ^= np.uint64(1 << bit)

    return hook


def test_sound_memory_passes_with_every_pattern():
    test = check_memory(3 * MIB + 8)
    assert (test.bytes_tested, test.patterns) == (3 * MIB + 8, PATTERNS)
    assert (test.wrong_count, test.wrong_words) == (0, ())
    assert describe(check_memory(2 * MIB)) == "no wrong word in 2 MiB with 8 patterns"


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("index", "bit"), [(0, 0), (BLOCK_WORDS - 1, 63), (BLOCK_WORDS, 31)])
def test_one_flipped_bit_is_found_where_it_is(pattern, index, bit):
    test = check_memory(MIB + 8, before_reading=flip(pattern, index, bit))
    (wrong,) = test.wrong_words
    assert test.wrong_count == 1
    assert (wrong.pattern, wrong.index, wrong.bits) == (pattern, index, (bit,))
    assert wrong.written ^ wrong.read == 1 << bit


def test_a_wrong_word_tells_what_was_written_and_what_was_read():
    test = check_memory(MIB, before_reading=flip("0x55", 7, 1, 62))
    assert test.wrong_words == (WrongWord("0x55", 7, 0x5555555555555555, 0x1555555555555557),)
    assert describe(test) == (
        "1 wrong in 1 MiB with 8 patterns, first word 7, bits 1, 62 (0x55: wrote 0x5555555555555555, read 0x1555555555555557)"
    )


@pytest.mark.parametrize(("level", "missing"), [(0, 4), (1, 4)])
def test_a_stuck_bit_is_seen_by_patterns_that_want_it_otherwise(level, missing):
    def stick(_, words):
        words[5] = words[5] & ~np.uint64(1) | np.uint64(level)

    found = {wrong.pattern for wrong in check_memory(4096, before_reading=stick).wrong_words}
    constants = {0: {"0xFF", "0x55"}, 1: {"0x00", "0xAA"}}[level]
    assert constants <= found
    # Each of the two other patterns stands beside its complement, so exactly one of either pair differs.
    assert len(found) == missing


def test_an_address_line_that_is_dead_is_seen():
    def alias(_, words):
        words[8:16] = words[0:8]

    assert {"address", "random"} <= {wrong.pattern for wrong in check_memory(4096, before_reading=alias).wrong_words}


def test_many_wrong_words_are_counted_exactly_and_listed_up_to_a_limit():
    def spoil(_, words):
        words ^= np.uint64(1)

    test = check_memory(MIB, before_reading=spoil)
    assert test.wrong_count == 8 * MIB // 8
    assert len(test.wrong_words) == LISTED_MAX
    assert describe(test).count("word ") == 3


def test_equal_seeds_write_equal_random_words():
    def words_of(seed):
        kept = {}
        check_memory(4096, seed=seed, before_reading=lambda name, words: kept.update({name: words.tobytes()}))
        return kept["random"]

    assert words_of(1) == words_of(1) != words_of(2)


def test_progress_counts_every_step_up_to_the_total():
    steps = []
    check_memory(2 * MIB + 8, progress=lambda pattern, done: steps.append((pattern, done)))
    assert [done for _, done in steps] == list(range(1, count_steps(2 * MIB + 8) + 1))
    assert tuple(dict.fromkeys(pattern for pattern, _ in steps)) == PATTERNS


def test_at_most_a_quarter_of_the_available_memory_is_taken():
    assert bounded_bytes(256 * MIB, 2**34) == 256 * MIB
    assert bounded_bytes(256 * MIB, 400 * MIB) == 100 * MIB
    assert bounded_bytes(1001, 2**34) == 1000
    assert bounded_bytes(MIB, 0) == bounded_bytes(MIB, -1) == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [("256MiB", 256 * MIB), ("1 GiB", 2**30), ("500MB", 500_000_000), ("1.5GiB", 3 * 2**29), ("0", 0), ("0MiB", 0)],
)
def test_sizes_are_read_with_their_units(text, size):
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["", "much", "256", "256.", "1e9", "256 mib", "256Mib", "-1GiB", "10KiB", "1e999GiB", "MiB", "nan"]
)
def test_sizes_that_make_no_sense_are_refused_in_one_line(text):
    with pytest.raises(InputError, match="wanted") as refusal:
        parse_size_bytes(text)
    assert "\n" not in str(refusal.value)
    assert repr(text) in str(refusal.value)


def test_sizes_are_printed_for_people():
    assert [format_size(size) for size in (0, 512, 2**10, 256 * MIB, 3 * 2**29)] == [
        "0 B",
        "512 B",
        "1 KiB",
        "256 MiB",
        "1.5 GiB",
    ]


def test_the_module_says_what_it_is_not():
    assert "no memtest86" in memory_test.__doc__
