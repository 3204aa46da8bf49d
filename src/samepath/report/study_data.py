"""A study as plain data for JSON: answers, domains, effects, leaks, controllers, what is missing, what was published."""

from collections.abc import Iterable
from dataclasses import asdict

from samepath.analysis.asked import ConditionCheck
from samepath.analysis.domains import Domain
from samepath.analysis.effects import Effect, Effects, Evidence, FactorRank, Rate
from samepath.analysis.study import StudyAnalysis
from samepath.report import published


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
