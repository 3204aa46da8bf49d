"""CPU and GPU raised together: one factor of a study, two loads of every cell, one factor again in the analysis."""

import pytest

from samepath.core.errors import SamepathError
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.factors import find_factors, level_of, level_words, title
from samepath.instrument.study.plan import make_plan
from tests.conftest import cell_of, straight_run

TEXT = """
name: together
design: {simulators: control-exact, scenarios: crossing}
conditions: {cpu_and_gpu_load: [0, 50%, 75%], nice: 0}
"""


def test_every_cell_has_both_loads_and_is_named_by_the_factor():
    plan = make_plan(TEXT, "here")
    assert [cell.condition for cell in plan.cells] == [{"cpu_load": v, "gpu_load": v, "nice": 0} for v in (0.0, 0.5, 0.75)]
    assert [cell.name for cell in plan.cells] == [f"cpu_and_gpu_load {level}" for level in ("0 %", "50 %", "75 %")]
    assert [factor.name for factor in plan.factors] == ["cpu_and_gpu_load"]


def test_giving_one_of_the_two_as_well_is_refused_in_a_line():
    with pytest.raises(SamepathError, match="cpu_and_gpu_load is cpu_load and another") as error:
        make_plan(TEXT.replace("nice: 0", "cpu_load: 50%"), "here")
    assert "\n" not in str(error.value)


def cells(*conditions):
    return [
        analyse_cell(cell_of([straight_run(0), straight_run(1)], cell=str(index), simulator="it", condition=condition))
        for index, condition in enumerate(conditions)
    ]


def test_loads_that_rise_together_are_one_factor():
    found = cells(*({"cpu_load": level, "gpu_load": level} for level in (0.0, 0.5, 0.75)))
    (factor,) = find_factors(found)
    assert (factor.name, factor.levels, factor.ordered, factor.load) == ("cpu_and_gpu_load", (0.0, 0.5, 0.75), True, True)
    assert title(factor.name) == "CPU and GPU load"
    assert [level_words(factor.name, level_of(cell, factor)) for cell in found] == ["0 %", "50 %", "75 %"]


def test_loads_that_do_not_are_two():
    found = cells({"cpu_load": 0.0, "gpu_load": 0.0}, {"cpu_load": 0.5, "gpu_load": 0.0}, {"cpu_load": 0.5, "gpu_load": 0.5})
    assert {factor.name for factor in find_factors(found)} == {"cpu_load", "gpu_load"}


def test_a_cpu_load_alone_is_itself():
    (factor,) = find_factors(cells({"cpu_load": 0.0}, {"cpu_load": 0.5}))
    assert factor.name == "cpu_load"
