"""Growing n and flip rates keep their word: thousands of simulated studies of known rates, every rule at its stated confidence.

False acceptance is a study that stops with «the rate is below the target» while it is not. It is counted where it is hardest
not to make: at the target itself and just above it. The simulated studies use the very rule that a study uses; only the
digests of the repeats are drawn instead of run.
"""

import os

import numpy as np
from scipy import stats

from bench.coverage import Decisions, until_stops
from bench.tools import save, show, verdict
from samepath.core.streams import stream
from samepath.instrument.analysis.assertions import flip_upper
from samepath.instrument.analysis.stopping import RateRule, SigmaRule
from samepath.instrument.traces.recorder import Recorder

STUDIES = int(os.environ.get("SAMEPATH_BENCH_STUDIES", "10000"))
MOST = 3000
ALLOWED = 0.05
_BLOCK = 200


def sequential(rate: float, decisions: Decisions, name: str) -> tuple[int, int, float]:
    """How many of the studies accept, how many reject, and after how many runs on average."""
    accepted = rejected = stopped = 0
    for block in range(0, STUDIES, _BLOCK):
        chance = stream(11, "studies", name, block)
        drawn = (chance.random((min(_BLOCK, STUDIES - block), MOST)) < rate).astype(np.int64)
        stops = until_stops(decisions, drawn)
        accepted += int(stops.accepted.sum())
        rejected += int(stops.rejected.sum())
        stopped += int(stops.runs.sum())
    return accepted, rejected, stopped / STUDIES


def same_as_the_rule(target: float, decisions: Decisions) -> bool:
    """The tabulated decisions are those of the rule, on some studies run by run."""
    for study in range(20):
        rate = (0.0, target, 4 * target)[study % 3]
        drawn = (stream(12, "rule", study).random(600) < rate).astype(np.int64)
        rule, reason = RateRule(target), ""
        for outcome in drawn:
            reason = rule.add_digest(str(outcome))
            if reason:
                break
        # The tables reach farther than these runs: an undecided study stops later, or not at all.
        padded = np.concatenate([drawn, np.zeros(decisions.most - len(drawn), np.int64)])
        stops = until_stops(decisions, padded[None])
        if not reason and stops.runs[0] <= len(drawn):
            return False
        if reason and (stops.runs[0] != rule.repeats or bool(stops.accepted[0]) != ("below" in reason)):
            return False
    return True


def flip_coverage(rate: float, repeats: int) -> float:
    """In which share of studies the bound of the flip rate is below the true one."""
    fails = stream(13, "flips", repeats, str(rate)).binomial(repeats, rate, STUDIES)
    bounds = {count: flip_upper(count, repeats, 0.95) for count in {min(int(k), repeats - int(k)) for k in fails}}
    return float(np.mean([bounds[min(int(k), repeats - int(k))] < min(rate, 1 - rate) - 1e-12 for k in fails]))


def sigma_misses(studies: int) -> tuple[float, float]:
    """How often «sigma known within 20 %» is wrong on normal repeats, and after how many repeats it stops on average."""
    wrong, stops = 0, []
    for study in range(studies):
        draws = stream(14, "sigma", study).normal(0.0, 1.0, 2000)
        rule, stopped = SigmaRule(0.2), ""
        for number, value in enumerate(draws):
            recorder = Recorder(number, ("x_m", "y_m"), 0.1)
            recorder.actor(1, "car")
            recorder.state(1, 1, {"x_m": float(value), "y_m": 0.0})
            recorder.end(1, "done")
            stopped = rule.add(recorder.finish())
            if stopped:
                used = draws[10 : number + 1]
                found = float(np.std(used, ddof=1))
                wrong += not (1 - 0.2) * found <= 1.0 <= (1 + 0.2) * found
                stops.append(number + 1)
                break
    return wrong / studies, float(np.mean(stops)) if stops else float("nan")


def main() -> bool:
    """Count."""
    rows, figures, good = [], {}, True
    for target in (0.01, 0.05):
        decisions = Decisions(target, MOST)
        agrees = same_as_the_rule(target, decisions)
        for factor in (0.0, 0.25, 1.0, 1.2, 2.0):
            rate = target * factor
            accepted, rejected, stop = sequential(rate, decisions, f"{target} {factor}")
            false = accepted / STUDIES if rate >= target else rejected / STUDIES
            right = agrees and false <= ALLOWED
            good = good and right
            name = f"rate {rate:.4g}, until rate < {target:g}"
            counted = {"accepted": accepted, "rejected": rejected, "mean_stop": stop, "wrong_share": false}
            figures[name] = {"studies": STUDIES, **counted}
            rows.append([name, str(accepted), str(rejected), f"{stop:.0f}", f"{100 * false:.2f} %", verdict(met=right)])
    for rate, repeats in ((0.03, 100), (0.3, 20), (0.5, 100), (0.01, 1000)):
        missed = flip_coverage(rate, repeats)
        # 10,000 studies know a share of 5 % only to within half a per cent, three standard deviations.
        right = missed <= ALLOWED + 3 * (ALLOWED * (1 - ALLOWED) / STUDIES) ** 0.5
        good = good and right
        figures[f"flip rate {rate}, {repeats} repeats"] = {"studies": STUDIES, "bound_below_truth": missed}
        rows.append([f"flip rate {rate:g}, {repeats} repeats", "", "", "", f"{100 * missed:.2f} %", verdict(met=right)])
    studies = max(20, STUDIES // 50)
    wrong, stop = sigma_misses(studies)
    most_wrong = float(stats.binom.ppf(0.999, studies, ALLOWED)) / studies
    good = good and wrong <= most_wrong
    figures["sigma known within 20 %"] = {"studies": studies, "wrong_share": wrong, "mean_stop": stop}
    rows.append(["sigma known within 20 %", "", "", f"{stop:.0f}", f"{100 * wrong:.2f} %", verdict(met=wrong <= most_wrong)])
    show(f"growing n: {STUDIES} simulated studies each", ["study", "accept", "reject", "repeats", "wrong", "at most 5 %"], rows)
    save("growing", figures)
    return good
