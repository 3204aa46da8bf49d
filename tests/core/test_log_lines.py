"""A log that nobody can flood: a few lines of each kind in a while, and how many were left out."""

from samepath.core.service import KIND_MOST, WINDOW_S, LineLimiter


class HandClock:
    """Stands until it is moved."""

    def __init__(self):
        self.now_s = 1.0

    def monotonic_s(self):
        return self.now_s


def made():
    lines, clock = [], HandClock()
    return LineLimiter(lines.append, clock), lines, clock


def test_what_is_said_now_and_then_is_all_there():
    log, lines, clock = made()
    for number in range(100):
        log(f"127.0.0.1:{number} was turned away: 128 clients are connected already")
        clock.now_s += WINDOW_S / 10.0
    assert len(lines) == 100


def test_of_a_flood_the_first_lines_are_there_and_the_number_of_the_others():
    log, lines, clock = made()
    for number in range(10_000):
        log(f"127.0.0.1:{number} was disconnected: it sent 'x{number}'")
    assert len(lines) == KIND_MOST
    clock.now_s += WINDOW_S
    log("stopping")
    last = "127.0.0.1:9999 was disconnected: it sent 'x9999'"
    assert lines[KIND_MOST:] == [f"{10_000 - KIND_MOST} more lines like the last one were left out: {last}", "stopping"]


def test_other_lines_come_through_a_flood():
    log, lines, _ = made()
    for number in range(1000):
        log(f"a stream was refused: {number} are listened to already")
    log("the episode has ended at frame 7")
    assert lines[-1] == "the episode has ended at frame 7"


def test_after_a_while_lines_of_the_kind_are_written_again():
    log, lines, clock = made()
    for _ in range(KIND_MOST + 1):
        log("a 1")
    clock.now_s += WINDOW_S
    log("a 2")
    assert lines[-2:] == ["1 more lines like the last one were left out: a 1", "a 2"]


def test_kinds_without_end_are_not_remembered_without_end():
    log, lines, _ = made()
    for number in range(2000):
        log("x" * (number % 600))
    assert len(log._counts) <= 256
    assert lines[-1] == "x" * (1999 % 600)
