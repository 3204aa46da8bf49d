"""Queues differ in how they break ties, and in nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samepath.core.errors import UnknownNameError
from samepath.core.streams import stream
from samepath.scenarios.astar import QUEUES, RandomisedQueue, StableQueue, UnstableQueue, make_queue

priorities = st.lists(st.integers(0, 5), max_size=60)


def drained(queue):
    return [queue.pop() for _ in range(len(queue))]


@pytest.mark.parametrize("name", sorted(QUEUES))
@given(values=priorities)
def test_items_leave_smallest_priority_first(name, values):
    queue = make_queue(name, stream(1, "queue"))
    for item, priority in enumerate(values):
        queue.push(priority, item)
    assert len(queue) == len(values)
    order = drained(queue)
    assert [values[item] for item in order] == sorted(values)
    assert sorted(order) == list(range(len(values)))


@pytest.mark.parametrize("name", sorted(QUEUES))
@given(steps=st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=80))
def test_pushes_and_pops_may_alternate(name, steps):
    queue, held = make_queue(name, stream(1, "queue")), {}
    for item, priority in enumerate(steps):
        if priority is not None:
            queue.push(priority, item)
            held[item] = priority
        elif held:
            smallest = min(held.values())
            assert held.pop(queue.pop()) == smallest
    assert len(queue) == len(held)


@given(priorities)
def test_the_stable_queue_keeps_ties_in_the_order_they_came(values):
    queue = StableQueue()
    for item, priority in enumerate(values):
        queue.push(priority, item)
    assert drained(queue) == sorted(range(len(values)), key=lambda item: values[item])


def test_the_unstable_queue_gives_ties_in_heap_order_which_is_not_the_order_they_came():
    queue = UnstableQueue()
    for item in range(5):
        queue.push(7, item)
    # 0 leaves and 4 takes its place at the top, then 3 takes the place of 4, ...
    assert drained(queue) == [0, 4, 3, 2, 1]


@given(priorities)
def test_the_unstable_queue_repeats_itself_for_the_same_history(values):
    orders = []
    for _ in range(2):
        queue = UnstableQueue()
        for item, priority in enumerate(values):
            queue.push(priority, item)
        orders.append(drained(queue))
    assert orders[0] == orders[1]


def randomised_order(generator):
    queue = RandomisedQueue(generator)
    for item in range(300):
        queue.push(0, item)
    return drained(queue)


def test_the_randomised_queue_draws_ties_from_its_generator():
    assert randomised_order(stream(1, "queue")) == randomised_order(stream(1, "queue"))
    assert randomised_order(stream(1, "queue")) != randomised_order(stream(2, "queue"))


def test_the_unseeded_randomised_queue_never_repeats_itself():
    assert randomised_order(None) != randomised_order(None)


def test_every_tie_has_the_same_chance():
    generator = stream(3, "queue")
    counts = [0, 0, 0]
    for _ in range(3000):
        queue = RandomisedQueue(generator)
        for item in range(3):
            queue.push(0, item)
        counts[queue.pop()] += 1
    # Standard deviation 26; the stream is fixed, so this cannot fail by chance.
    assert all(abs(count - 1000) < 100 for count in counts)


@pytest.mark.parametrize("name", sorted(QUEUES))
def test_an_empty_queue_has_nothing_to_give(name):
    with pytest.raises(IndexError):
        make_queue(name).pop()


def test_an_unknown_queue_is_answered_with_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'randomised'"):
        make_queue("randomized")
