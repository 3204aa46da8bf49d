"""A study as plain data for JSON: answers, domains, effects, leaks, controllers, what is missing, side by side, published."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Final

from samepath.analysis.asked import ConditionCheck
from samepath.analysis.domains import Domain
from samepath.analysis.effects import Effect, Effects, Evidence, FactorRank, Rate
from samepath.analysis.side_by_side import SettingChange, SideBySide, SideRow, SideVariant
from samepath.analysis.study import StudyAnalysis
from samepath.report import published

_MOST_ENDINGS: Final = 20


def study_object(study: StudyAnalysis) -> dict[str, object]:
    """Return everything a study shows beyond its cells; units are in the names."""
    return {
        "answers": [asdict(one) for one in study.answers],
        "domains": [_domain(one) for one in study.domains],
        "factors": [asdict(one) for one in study.factors],
        "effects": _effects(study.effects),
        "leaks": [{**asdict(one), "words": one.words()} for one in study.leaks],
        "controllers": [{**asdict(one), "words": one.words()} for one in study.controllers],
        "missing": [{**asdict(one), "words": one.words()} for one in study.missing],
        "side_by_side": None if study.side_by_side is None else side_object(study.side_by_side),
    }


def side_object(side: SideBySide) -> dict[str, object]:
    """Return the variants side by side."""
    return {
        "conclusions": [
            {
                "simulator": one.simulator,
                "variants": list(one.variants),
                "installed": one.installed,
                "flips": one.flips,
                "changes": [_change(change) for change in one.changes],
                "text": one.text,
                "words": one.words(),
            }
            for one in side.conclusions
        ],
        "variants": [_side_variant(one) for one in side.variants],
        "absent": [{**asdict(one), "words": one.words()} for one in side.absent],
    }


def condition_object(check: ConditionCheck) -> dict[str, object]:
    """Return one condition of a cell, as asked and as measured."""
    return {**asdict(check), "words": check.words()}


def published_objects(scenarios: Iterable[str]) -> list[dict[str, object]]:
    """Return what was published about these scenarios, as printed: a value below a nanometre is rounding."""
    found = []
    for one in published.published_among(scenarios):
        per_load = {
            "cpu_and_gpu_load": list(published.LOADS),
            "max_sigma_m": list(one.max_sigma_m),
            "before_collision_max_sigma_m": list(one.before_m),
            "after_collision_max_sigma_m": list(one.after_m),
        }
        found.append(
            {
                "scenario": one.scenario,
                "simulator": published.SYSTEM,
                "unrestricted_sigma_m": one.unrestricted_sigma_m,
                "restricted_sigma_m": one.restricted_sigma_m,
                "log_resolution_m": published.LOG_RESOLUTION_M,
                "per_load": per_load,
                "source": f"{published.AUTHORS}: {published.TITLE}",
            }
        )
    return found


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
        "rows": [_side_row(one) for one in variant.rows],
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
                "collisions": [list(pair) for pair in one.collisions],
                "reason": one.reason,
                "completed": one.completed,
                "repeats": len(one.repeats),
            }
            for one in row.endings[:_MOST_ENDINGS]
        ],
        "shift": None if row.shift is None else asdict(row.shift),
        "pace": None if row.pace is None else asdict(row.pace),
    }


def _domain(domain: Domain) -> dict[str, object]:
    whole, before = domain.whole_run, domain.before_split
    return {
        **asdict(domain),
        "verdict": None if domain.verdict is None else domain.verdict.value,
        "limits": [{**asdict(one), "restricts": one.restricts, "words": one.words()} for one in domain.limits],
        "outside": [{**asdict(one), "words": one.words()} for one in domain.outside],
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
        "ranks": [_rank(one) for one in effects.ranks],
        "effects": [_effect(one) for one in effects.effects],
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


def _rate(rate: Rate) -> dict[str, object]:
    return {"low": rate.low, "high": rate.high, "difference": rate.difference, **_evidence(rate.evidence)}


def _evidence(evidence: Evidence) -> dict[str, object]:
    return {
        "p_value": evidence.p_value,
        "p_value_corrected": evidence.corrected,
        "p_value_attainable": evidence.attainable,
        "tellable": evidence.tellable,
        "shown": evidence.shown,
    }
