"""A whole study: the two questions of the paper are answered, from controls whose answers are known."""

from dataclasses import replace

import numpy as np
import pytest

from samepath.engines import registry
from samepath.engines.interface import RunRequest
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.analysis.study import DETERMINISTIC, PERMISSIBLE, MissingCell, analyse_study
from samepath.instrument.traces.cell import MemoryCell
from samepath.instrument.traces.recorder import Recorder
from samepath.instrument.traces.records import Header, frame_of
from tests.support.study_cells import cell, elsewhere, noisy, run


def control(name, repeats=20, condition=None, **settings):
    with registry.create(name) as simulator:
        info = simulator.info()
        runs = []
        for number in range(repeats):
            recorder = Recorder(number, info.channels, info.step_s, log_every=20)
            simulator.run(RunRequest("crossing", number, seed=1, settings=settings), recorder)
            runs.append(recorder.finish())
    title = " ".join([name, *(f"{key}={level}" for key, level in settings.items())])
    header = Header(
        "controls",
        title,
        "crossing",
        info.channels,
        info.step_s,
        simulator=name,
        condition=condition or {},
        settings={**info.settings, **settings},
        lossless=info.capabilities.lossless,
    )
    return analyse_cell(MemoryCell(header, runs))


def answers(study):
    return {(answer.variant, answer.question): answer for answer in study.answers}


def test_the_exact_control_is_deterministic_and_permissible_everywhere():
    exact = control("control-exact")
    study = analyse_study([elsewhere(exact, condition={"cpu_load": load}, cell=f"at {load}") for load in (0.0, 0.95)])
    found = answers(study)
    assert found["control-exact", DETERMINISTIC].short == "yes"
    assert found["control-exact", DETERMINISTIC].words() == (
        "control-exact: yes, as far as 40 repeats of 2 cells show: bit-identical within every cell, and the same bits under "
        "all conditions of the host (true rate of divergence on average below 7.58 %, 95 % confidence)"
    )
    assert found["control-exact", PERMISSIBLE].short == "everywhere"
    assert [rank.matters for rank in study.effects.ranks] == [False]


def test_a_control_with_noise_is_not_and_its_noise_setting_is_what_matters():
    study = analyse_study([control("control-gaussian", sigma_m=sigma_m) for sigma_m in (0.0005, 0.002, 0.05)])
    found = answers(study)
    assert found["control-gaussian", DETERMINISTIC].short == "no"
    assert found["control-gaussian", DETERMINISTIC].text.startswith("no: 3 of 3 cells vary; 57 of 60 repeats diverge from the ")
    domain = found["control-gaussian", PERMISSIBLE]
    assert domain.short == "in a domain"
    assert domain.text.startswith("sigma_m up to 0.002: permissible (0 of 40 repeats beyond 1 cm; ")
    assert "; not with sigma_m 0.05 (control-gaussian sigma_m=0.05: max sigma " in domain.text
    assert domain.text.endswith("; also before the first collision (measured: sigma_m 0.0005 to 0.05)")
    assert [(factor.name, factor.kind, factor.ordered) for factor in study.factors] == [("sigma_m", "setting", True)]
    assert [(rank.factor, rank.matters) for rank in study.effects.ranks] == [("sigma_m", True)]
    assert study.effects.growth()[0].grows


def test_two_outcomes_are_no_noise_and_have_no_domain_after_the_collision():
    (determinism, domain) = analyse_study([control("control-two-outcomes")]).answers
    assert determinism.short == "no"
    assert domain.text.startswith(
        "before the first collision: permissible (every repeat bit-identical, 0 of 20 repeats beyond "
    )
    assert "; not after the first collision (control-two-outcomes: max sigma " in domain.text


def test_a_rounded_log_is_only_not_seen_to_vary():
    determinism, domain = analyse_study([control("control-below-resolution")]).answers
    assert determinism.short == "not seen to vary"
    assert "equal within each cell, but rounded" in determinism.text
    assert domain.short == "everywhere"


def test_cells_that_repeat_themselves_but_differ_under_another_condition_are_not_deterministic():
    cells = [cell([run(n, off_m) for n in range(5)], condition={"cpu_load": off_m * 100}) for off_m in (0.0, 0.005)]
    determinism, _ = analyse_study(cells).answers
    assert determinism.short == "no"
    assert determinism.text == (
        "no: each cell repeats itself, but s cpu_load=0.0 and s cpu_load=0.5 differ in bits, and otherwise in conditions of "
        "the host only"
    )


def seeing(repeat, colour=7):
    """A run that never varies, with a camera that sees one colour."""
    plain = run(repeat)
    picture = np.full((4, 5, 4), colour, np.uint8)
    return replace(plain, sensors=(frame_of(2, "front", "sensor.camera.rgb", picture, keep=True),))


def test_what_sensors_saw_belongs_to_the_answer():
    determinism, _ = analyse_study([cell([seeing(n) for n in range(5)], condition={"cpu_load": x}) for x in (0.0, 0.5)]).answers
    assert determinism.short == "yes"
    assert "bit-identical within every cell, what sensors saw included, and the same bits under all" in determinism.text


def test_paths_that_repeat_themselves_with_sensors_that_do_not_are_not_deterministic():
    cells = [
        cell([seeing(n) for n in range(5)], condition={"cpu_load": 0.0}),
        cell([seeing(n, 7 + n // 4) for n in range(5)], condition={"cpu_load": 0.5}),
    ]
    determinism, domain = analyse_study(cells).answers
    assert (determinism.short, domain.short) == ("no", "everywhere")
    assert determinism.text.startswith(
        "no: every path repeats itself to the bit, but in 1 of 2 cells sensors saw something else (s cpu_load=0.5: front: 1 of "
        "5 repeats see something else, first repeat 4 at tick 2"
    )


def test_sensors_that_see_something_else_under_another_condition_are_found():
    cells = [cell([seeing(n, colour) for n in range(5)], condition={"cpu_load": colour / 10}) for colour in (1, 5)]
    determinism, _ = analyse_study(cells).answers
    assert determinism.short == "no"
    assert determinism.text == (
        "no: each cell repeats itself, but s cpu_load=0.1 and s cpu_load=0.5 differ in what sensor front saw, and otherwise in "
        "conditions of the host only"
    )
    blind = [cells[0], cell([run(n) for n in range(5)], condition={"cpu_load": 0.5})]
    assert "differ in what sensor front saw" in analyse_study(blind).answers[0].text


def test_variants_are_answered_apart_and_in_the_order_of_the_questions():
    still, shaky = cell([run(n) for n in range(10)]), noisy(0.05, repeats=10)
    study = analyse_study([elsewhere(still, variant="lockstep"), elsewhere(shaky, variant="game-loop")])
    assert [(answer.question, answer.variant, answer.short) for answer in study.answers] == [
        (DETERMINISTIC, "lockstep", "yes"),
        (DETERMINISTIC, "game-loop", "no"),
        (PERMISSIBLE, "lockstep", "everywhere"),
        (PERMISSIBLE, "game-loop", "nowhere"),
    ]


def test_what_is_missing_is_kept_with_its_reason():
    missing = MissingCell("fifo", "sim", "v", "s", {"scheduler": "fifo"}, "needs CAP_SYS_NICE", "not applicable")
    study = analyse_study([noisy(0.001)], [missing])
    assert study.missing == (missing,)
    assert missing.words() == "fifo: not applicable: needs CAP_SYS_NICE"


@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_confidence_is_that_of_every_statement(confidence):
    cells = [noisy(0.001, seed=n, condition={"nice": n}) for n in (0, 1)]
    study = analyse_study(cells, confidence=confidence)
    assert study.domains[0].confidence == confidence
    assert study.effects.threshold == pytest.approx(1 - confidence)
    assert f"{100 * confidence:g} % confidence" in study.answers[1].text


def test_an_analysis_repeats_itself():
    cells = [noisy(0.001, 0.1, seed=n, condition={"nice": n, "cpu_load": 0.5 * (n % 2)}) for n in range(4)]
    first, again = analyse_study(cells), analyse_study([replace(cell) for cell in cells])
    assert first.domains == again.domains
    assert first.effects == again.effects
    assert first.answers == again.answers
