"""The order of a study: every repeat once, whatever the sizes, and the same for the same seed."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from samepath.instrument.study.plan import draw_slots, loads_of, make_plan
from samepath.instrument.study.records import Order, PlannedCell

LOADS = st.sampled_from(
    [{}, {"cpu_load": 0.0}, {"cpu_load": 0.5}, {"cpu_load": 0.5, "instances": 2}, {"cpu_load": 0.95, "nice": 5}]
)


@st.composite
def studies(draw):
    blocks = draw(st.integers(1, 7))
    sizes = draw(st.lists(st.tuples(st.integers(max(blocks, 2), 40), LOADS), min_size=1, max_size=8))
    cells = [
        PlannedCell(f"c{index}", f"c{index}", "s", "t", {}, condition, repeats)
        for index, (repeats, condition) in enumerate(sizes)
    ]
    return cells, draw(st.sampled_from(list(Order))), blocks, draw(st.integers(0, 2**63 - 1))


@given(studies())
def test_every_repeat_of_every_cell_is_run_exactly_once(study):
    cells, order, blocks, seed = study
    run = sorted(
        (slot.cell, number) for slot in draw_slots(cells, order, blocks, seed) for number in range(slot.first, slot.stop)
    )
    assert run == [(index, number) for index, cell in enumerate(cells) for number in range(cell.repeats)]


@given(studies())
def test_every_block_runs_every_cell_and_an_even_share_of_it(study):
    cells, order, blocks, seed = study
    slots = draw_slots(cells, order, blocks, seed)
    assert [slot.block for slot in slots] == [block for block in range(blocks) for _ in cells]
    for index, cell in enumerate(cells):
        shares = [slot.stop - slot.first for slot in slots if slot.cell == index]
        assert len(shares) == blocks
        assert max(shares) - min(shares) <= 1
        assert min(shares) == cell.repeats // blocks
        assert [slot.first for slot in slots if slot.cell == index] == sorted(
            slot.first for slot in slots if slot.cell == index
        )


@given(studies())
def test_the_same_seed_draws_the_same_order_and_a_new_cell_leaves_that_of_the_others(study):
    cells, order, blocks, seed = study
    slots = draw_slots(cells, order, blocks, seed)
    assert slots == draw_slots(cells, order, blocks, seed)
    fewer = draw_slots(cells[:-1], order, blocks, seed)
    assert fewer == tuple(slot for slot in slots if slot.cell != len(cells) - 1)


@given(studies())
def test_split_plot_sets_every_load_once_a_block(study):
    cells, _, blocks, seed = study
    slots = draw_slots(cells, Order.SPLIT_PLOT, blocks, seed)
    for block in range(blocks):
        loads = [loads_of(cells[slot.cell]) for slot in slots if slot.block == block]
        changes = 1 + sum(a != b for a, b in itertools.pairwise(loads))
        assert changes == len(set(loads))


def test_blocks_and_seeds_differ_in_their_order_and_listed_does_not():
    asked = "name: x\ndesign: {{simulators: a, scenarios: [{names}], repeats: 8, seed: {seed}}}\n"
    text = asked + "execution: {{order: {order}, blocks: 4}}"

    def orders(order, seed=0):
        names = ", ".join(f"s{number}" for number in range(12))
        slots = make_plan(text.format(names=names, seed=seed, order=order), "x").slots
        return [tuple(slot.cell for slot in slots if slot.block == block) for block in range(4)]

    assert orders("listed") == [tuple(range(12))] * 4
    assert len(set(orders("random"))) == 4
    assert orders("random", 0) != orders("random", 1)
    assert orders("random")[0] != tuple(range(12))
