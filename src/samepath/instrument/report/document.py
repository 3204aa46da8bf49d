"""The report's content, before it is drawn: what was run, on what, and the analyses; and its JSON form."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from samepath.core.verdicts import Verdict
from samepath.instrument.analysis.assertions import Assertion, AssertionRow, assertion_rows
from samepath.instrument.analysis.cell import CellAnalysis, Phase
from samepath.instrument.analysis.conditions import ConditionCheck
from samepath.instrument.analysis.divergence import FirstDivergence
from samepath.instrument.analysis.domains import Domain
from samepath.instrument.analysis.effects import Effect, Effects, Evidence, FactorRank, RateChange
from samepath.instrument.analysis.explain import ExplainedParting
from samepath.instrument.analysis.factors import variant_of
from samepath.instrument.analysis.outcomes import OutcomeTree
from samepath.instrument.analysis.sensors import SensorAnalysis
from samepath.instrument.analysis.side_by_side import SettingChange, SideBySide, SideRow, SideVariant
from samepath.instrument.analysis.study import (
    MissingCell,
    Restriction,
    ScenarioRow,
    StudyAnalysis,
    analyse_study,
    overall,
    table_one,
)
from samepath.instrument.analysis.verdict import chance_to_see, repeats_needed, repeats_until_stop
from samepath.instrument.report import published
from samepath.instrument.report.published import how_run_object

_MOST_ENDINGS: Final = 20


@dataclass(frozen=True)
class Document:
    """Everything a report shows. ``provenance`` is the host's own description, ``command`` runs it again.

    ``missing`` are the cells that were asked for and have no figures. ``roads`` are outlines to draw paths on, by scenario,
    x and y in metres; ``viewer`` is the address of a page that shows the runs, beside the report. Both may be absent.
    """

    title: str
    cells: tuple[CellAnalysis, ...]
    restriction: Restriction
    command: str
    provenance: dict[str, object] = field(default_factory=dict)
    partial: str = ""
    missing: tuple[MissingCell, ...] = ()
    roads: Mapping[str, tuple[NDArray[np.float64], ...]] = field(default_factory=dict, repr=False, compare=False)
    viewer: str = ""

    @property
    def tolerance_m(self) -> float:
        """The tolerance all cells were judged by."""
        return self.cells[0].options.tolerance_m

    @property
    def verdict(self) -> Verdict:
        """The worst of all cells."""
        return overall(self.cells)

    @property
    def differs_from_lock(self) -> tuple[str, ...]:
        """The libraries of the measurement whose versions are not those of the lock; empty for logs and older studies."""
        found = self.provenance.get("differs_from_lock", ())
        return (found,) if isinstance(found, str) else tuple(str(line) for line in found) if isinstance(found, list) else ()

    @cached_property
    def study(self) -> StudyAnalysis:
        """What all cells show together."""
        return analyse_study(self.cells, self.missing, self.cells[0].options.confidence)

    @cached_property
    def assertions(self) -> tuple[AssertionRow, ...]:
        """What monitors say over all cells; empty without any."""
        return assertion_rows([(cell.header.cell, cell.header.scenario, cell.assertions) for cell in self.cells])

    @cached_property
    def table(self) -> tuple[ScenarioRow, ...]:
        """Table I."""
        return table_one(self.cells, self.restriction)


def to_json(document: Document) -> str:
    """Print the document as one JSON object."""
    return json.dumps(_plain(as_object(document)), indent=2, ensure_ascii=False, allow_nan=False)


def as_object(document: Document) -> dict[str, object]:
    """Return the document as plain data; units are in the names."""
    return {
        "samepath_json_version": 2,
        "title": document.title,
        "tolerance_m": document.tolerance_m,
        "criterion": document.cells[0].options.criterion.value,
        "verdict": document.verdict.value,
        **study_object(document.study),
        "table": [row.__dict__ for row in document.table],
        "restriction": str(document.restriction),
        "assertions": [{**asdict(row), "words": row.words()} for row in document.assertions],
        "published": published_objects(cell.header.scenario for cell in document.cells),
        "cells": [cell_object(cell) for cell in document.cells],
        "command": document.command,
        "partial": document.partial,
        "provenance": document.provenance,
    }


def _plain(value: object) -> object:
    """Make data fit for strict JSON: enums by value, no NaN or infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def cell_object(cell: CellAnalysis) -> dict[str, object]:
    """Return one cell as plain data."""
    summary = cell.summary
    return {
        "cell": cell.header.cell,
        "variant": variant_of(cell.header),
        "simulator": cell.header.simulator,
        "scenario": cell.header.scenario,
        "condition": cell.header.condition,
        "conditions_measured": [condition_object(condition) for condition in cell.conditions],
        "frame_times": None if cell.frame_times is None else {**asdict(cell.frame_times), "words": cell.frame_times.words()},
        "repeats": cell.repeats,
        "actors": len(cell.spread.actor_ids),
        "ticks": len(cell.spread.ticks),
        "max_sigma_m": summary.max_sigma_m,
        "max_sigma_total_m": summary.max_sigma_total_m,
        "max_sigma_at": {
            "tick": summary.max_sigma_tick,
            "time_s": None if summary.max_sigma_tick is None else summary.max_sigma_tick * cell.header.step_s,
            "actor": summary.max_sigma_actor,
            "axis": summary.max_sigma_axis,
        },
        "psi_m2": summary.psi_m2,
        "mean_sigma_m": summary.mean_sigma_m,
        "max_deviation_m": summary.max_deviation_m,
        "max_range_m": summary.max_range_m,
        "other_max_sigma": summary.other_max_sigma,
        "outcomes": len(cell.outcomes),
        "outcome_sizes": [len(outcome.repeats) for outcome in cell.outcomes[:20]],
        "outcome_split_ticks": [outcome.split_tick for outcome in cell.outcomes[:20]],
        "outcome_pattern": cell.clusters.pattern.value,
        "cluster_sizes": list(cell.clusters.sizes),
        "outcome_tree": _tree(cell.tree),
        "divergent_repeats": cell.divergent,
        "divergence_rate_lower": cell.bounds.lower,
        "divergence_rate_upper": cell.bounds.upper,
        "divergence_rate_upper_anytime": cell.bounds.anytime_upper,
        "confidence": cell.bounds.confidence,
        "repeats_beyond_tolerance": cell.beyond_tolerance,
        "sample_size": sample_size(cell),
        "growth": [point.__dict__ for point in cell.spread.growth],
        "log_resolution_m": cell.spread.resolution.step_m,
        "log_resolution_kind": cell.spread.resolution.kind.value,
        "verdict": cell.judgement.verdict.value,
        "reason": cell.judgement.reason,
        "verdict_by_sigma": cell.judgement_by_sigma.verdict.value,
        "sensors": [sensor_object(sensor, cell.header.step_s) for sensor in cell.sensors],
        "accuracy": _accuracy(cell),
        "limits": [{**asdict(limit), "words": limit.words()} for limit in cell.limits],
        "monitors": [
            assertion_object(assertion, cell.header.step_s)
            for assertion in (() if cell.assertions is None else cell.assertions.assertions)
        ],
        "coverage": _coverage(cell),
        "differences": [
            {"kind": finding.kind.value, "repeats": len(finding.repeats), "message": finding.message}
            for finding in cell.findings
        ],
        "first_divergence": None if cell.first_divergence is None else _divergence(cell.first_divergence),
        "why": None if cell.why is None else _why(cell.why),
        "first_collision_tick": cell.first_collision_tick,
        "split_tick": cell.boundary.first_tick,
        "split_at": cell.boundary.split.name,
        "pre_collision": phase_object(cell.before),
        "post_collision": phase_object(cell.after),
        "post_collision_involved": phase_object(cell.after_involved),
        "post_collision_uninvolved": phase_object(cell.after_uninvolved),
        "lossless": cell.header.lossless,
        "source": cell.header.source,
        **how_run_object(cell),
    }


def assertion_object(assertion: Assertion, step_s: float) -> dict[str, object]:
    """Return what a monitor said of all repeats of a cell."""
    return {
        "name": assertion.name,
        "expression": assertion.source,
        "unit": assertion.unit,
        "verdicts": {"pass": assertion.passes, "fail": assertion.fails},
        "not_judged": assertion.silent,
        "not_applicable": assertion.not_applicable,
        "flips": assertion.flips,
        "flip_rate": assertion.flip_rate,
        "flip_rate_upper": assertion.flip_rate_upper,
        "margin_min": assertion.margin_min,
        "margin_max": assertion.margin_max,
        "margin_mean": assertion.margin_mean,
        "margin_sigma": assertion.margin_sigma,
        "margin_needed": assertion.margin_needed,
        "needed_share": assertion.needed_share,
        "margins_unbounded": assertion.unbounded,
        "minority_repeats": list(assertion.minority),
        "worst_repeat": assertion.worst_repeat,
        "worst_time_s": None if assertion.worst_tick is None else assertion.worst_tick * step_s,
        "words": assertion.words(),
    }


def _accuracy(cell: CellAnalysis) -> dict[str, object] | None:
    if cell.accuracy is None:
        return None
    drawn = ("time_s", "bias_m", "spread_m")
    actors = [
        {**{name: value for name, value in actor.__dict__.items() if name not in drawn}, "words": actor.words()}
        for actor in cell.accuracy.actors
    ]
    return {"reference": cell.accuracy.reference, "actors": actors, "left_out": list(cell.accuracy.left_out)}


def _coverage(cell: CellAnalysis) -> dict[str, object] | None:
    found = None if cell.assertions is None else cell.assertions.coverage
    if found is None:
        return None
    return {
        "stable": found.stable,
        "situations": [
            {"kind": situation.kind, "actor": situation.actor or None, "what": situation.what, "repeats": count}
            for situation, count in found.situations
        ],
        "words": found.words(),
    }


def _why(why: ExplainedParting) -> dict[str, object]:
    """Return the cause of the first divergence, and what follows; ``samepath explain`` tells more."""
    plain = why.to_json()
    wanted = ("cause", "evidence", "to_record", "tick", "last_common_tick", "growth", "followers", "host", "sampling")
    return {name: plain[name] for name in wanted}


def condition_object(check: ConditionCheck) -> dict[str, object]:
    """Return one condition of a cell, as asked and as measured."""
    return {**asdict(check), "words": check.words()}


def sensor_object(sensor: SensorAnalysis, step_s: float) -> dict[str, object]:
    """Return what a sensor showed as plain data."""
    return {
        "sensor": sensor.sensor,
        "kind": sensor.kind,
        "frames": sensor.frames,
        "outcomes": len(sensor.outcomes),
        "outcome_sizes": [len(repeats) for repeats in sensor.outcomes[:20]],
        "digest": sensor.digest,
        "divergent_repeats": sensor.divergent,
        "first_tick": sensor.first_tick,
        "first_time_s": None if sensor.first_tick is None else sensor.first_tick * step_s,
        "first_repeat": sensor.first_repeat,
        "first_is_gap": sensor.first_is_gap,
        "frames_differing": sensor.frames_differing,
        "frames_compared": sensor.frames_compared,
        "samples_compared": sensor.samples_compared,
        "first_difference": None if sensor.first is None else sensor.first.__dict__,
        "worst_difference": None if sensor.worst is None else sensor.worst.__dict__,
        "words": sensor.words(step_s),
    }


def phase_object(phase: Phase) -> dict[str, object]:
    """Return a phase as plain data; an empty one has nulls."""
    summary = phase.summary
    return {
        "phase": phase.name,
        "pairs": summary.pairs,
        "max_sigma_m": summary.max_sigma_m,
        "psi_m2": summary.psi_m2,
        "mean_sigma_m": summary.mean_sigma_m,
        "max_deviation_m": summary.max_deviation_m,
        "verdict": None if phase.judgement is None else phase.judgement.verdict.value,
    }


def sample_size(cell: CellAnalysis) -> dict[str, float | int]:
    """What this many repeats can show, and how many would be needed for rarer divergence."""
    return {
        "rate_seen_with_95_percent": 1 - 0.05 ** (1 / cell.repeats),
        "chance_to_see_1_percent": chance_to_see(0.01, cell.repeats),
        "chance_to_see_1_permille": chance_to_see(0.001, cell.repeats),
        "repeats_for_1_percent": repeats_needed(0.01, 0.95),
        "repeats_for_1_permille": repeats_needed(0.001, 0.95),
        "repeats_until_stop_1_percent": repeats_until_stop(0.01),
    }


def _divergence(found: FirstDivergence) -> dict[str, object]:
    return {**found.__dict__, "words": found.words()}


def _tree(tree: OutcomeTree) -> dict[str, object]:
    return {
        "repeats": tree.repeats,
        "outcomes": len(tree.outcomes),
        "until_tick": tree.until_tick,
        "children": [_tree(child) for child in tree.children],
    }


def study_object(study: StudyAnalysis) -> dict[str, object]:
    """Return everything a study shows beyond its cells; units are in the names."""
    return {
        "answers": [asdict(answer) for answer in study.answers],
        "domains": [_domain(domain) for domain in study.domains],
        "factors": [asdict(factor) for factor in study.factors],
        "effects": _effects(study.effects),
        "leaks": [{**asdict(leak), "words": leak.words()} for leak in study.leaks],
        "controllers": [{**asdict(controller), "words": controller.words()} for controller in study.controllers],
        "shares": [{**asdict(shares), "words": shares.words()} for shares in study.shares],
        "versions": [{**asdict(pair), "same_test": pair.same_test, "words": pair.words()} for pair in study.versions],
        "missing": [{**asdict(cell), "words": cell.words()} for cell in study.missing],
        "side_by_side": None if study.side_by_side is None else side_object(study.side_by_side),
    }


def _domain(domain: Domain) -> dict[str, object]:
    whole, before = domain.whole_run, domain.before_split
    return {
        **asdict(domain),
        "verdict": None if domain.verdict is None else domain.verdict.value,
        "limits": [{**asdict(limit), "restricts": limit.restricts, "words": limit.words()} for limit in domain.limits],
        "outside": [{**asdict(example), "words": example.words()} for example in domain.outside],
        "whole_run": None if whole is None else _domain(whole),
        "before_split": None if before is None else _domain(before),
        "empty": domain.empty,
        "everything": domain.everything,
        "region": "" if domain.empty else domain.region(),
        "words": domain.words(),
    }


def _effects(effects: Effects) -> dict[str, object]:
    return {
        "method": effects.method,
        "tests": effects.tests,
        "threshold": effects.threshold,
        "ranks": [_rank(rank) for rank in effects.ranks],
        "effects": [_effect(effect) for effect in effects.effects],
    }


def _rank(rank: FactorRank) -> dict[str, object]:
    return {
        "rank": rank.rank,
        "variant": rank.variant,
        "factor": rank.factor,
        "matters": rank.matters,
        "words": rank.words(),
    }


def _effect(effect: Effect) -> dict[str, object]:
    size = effect.size
    return {
        **{name: value for name, value in asdict(effect).items() if name != "beyond"},
        "size": {
            "superiority": size.superiority,
            "median_low_m": size.median_low_m,
            "median_high_m": size.median_high_m,
            "ratio": size.ratio,
            **_evidence(size.evidence),
        },
        "diverging": _rate(effect.diverging),
        "beyond_tolerance": _rate(effect.beyond),
        "shown": effect.shown,
        "grows": effect.grows,
        "words": effect.words(),
    }


def _rate(rate: RateChange) -> dict[str, object]:
    return {"low": rate.low, "high": rate.high, "difference": rate.difference, **_evidence(rate.evidence)}


def _evidence(evidence: Evidence) -> dict[str, object]:
    return {
        "p_value": evidence.p_value,
        "p_value_corrected": evidence.corrected,
        "p_value_attainable": evidence.attainable,
        "tellable": evidence.tellable,
        "shown": evidence.shown,
    }


def side_object(side: SideBySide) -> dict[str, object]:
    """Return the variants side by side."""
    return {
        "conclusions": [
            {
                "simulator": conclusion.simulator,
                "variants": list(conclusion.variants),
                "installed": conclusion.installed,
                "flips": conclusion.flips,
                "changes": [_change(change) for change in conclusion.changes],
                "text": conclusion.text,
                "words": conclusion.words(),
            }
            for conclusion in side.conclusions
        ],
        "variants": [_side_variant(variant) for variant in side.variants],
        "absent": [{**asdict(variant), "words": variant.words()} for variant in side.absent],
    }


def _change(change: SettingChange) -> dict[str, object]:
    settings = [{"name": name, "from_level": before, "to_level": after} for name, before, after in change.settings]
    return {**asdict(change), "settings": settings, "to_verdict": change.to_verdict.value, "words": change.words()}


def _side_variant(variant: SideVariant) -> dict[str, object]:
    return {
        "variant": variant.variant,
        "simulator": variant.simulator,
        "scenario": variant.scenario,
        "repeatable": variant.repeatable,
        "verdict": variant.verdict.value,
        "flips": variant.flips,
        "flip_words": variant.flip_words(),
        "region": "" if variant.domain.empty else variant.domain.region(),
        "rows": [_side_row(row) for row in variant.rows],
    }


def _side_row(row: SideRow) -> dict[str, object]:
    return {
        "cell": row.cell,
        "levels": [{"name": name, "level": level} for name, level in row.levels],
        "repeats": row.repeats,
        "verdict": row.verdict.value,
        "max_sigma_m": row.max_sigma_m,
        "before_sigma_m": row.before_sigma_m,
        "after_sigma_m": row.after_sigma_m,
        "outcomes": row.outcomes,
        "collided": row.collided,
        "flips": row.flips,
        "flip_words": row.flip_words(),
        "endings": [
            {
                "collisions": [list(pair) for pair in ending.collisions],
                "reason": ending.reason,
                "completed": ending.completed,
                "repeats": len(ending.repeats),
            }
            for ending in row.endings[:_MOST_ENDINGS]
        ],
        "shift": None if row.shift is None else asdict(row.shift),
        "pace": None if row.pace is None else asdict(row.pace),
    }


def published_objects(scenarios: Iterable[str]) -> list[dict[str, object]]:
    """Return what was published about these scenarios, as printed: a value below a nanometre is rounding."""
    found = []
    for test in published.published_among(scenarios):
        per_load = {
            "cpu_and_gpu_load": list(published.PUBLISHED_LOADS),
            "max_sigma_m": list(test.max_sigma_m),
            "before_collision_max_sigma_m": list(test.before_m),
            "after_collision_max_sigma_m": list(test.after_m),
        }
        found.append(
            {
                "scenario": test.scenario,
                "simulator": published.SYSTEM,
                "unrestricted_sigma_m": test.unrestricted_sigma_m,
                "restricted_sigma_m": test.restricted_sigma_m,
                "log_resolution_m": published.LOG_RESOLUTION_M,
                "per_load": per_load,
                "source": f"{published.AUTHORS}: {published.TITLE}",
            }
        )
    return found
