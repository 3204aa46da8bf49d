"""How late may a warning be? A pedestrian steps onto the road in front of a car; the car brakes when the message has arrived.

Nobody in the car sees anything: without a warning the two meet. The pedestrian leaves the kerb ``STEP_OUT_S`` before the car
would pass, and from then on a message is sent ten times a second, as cooperative awareness messages are, until one arrives.
Physics is the simulator's (tyres, suspension, brakes), so that the answer holds for this car on dry road and no other. First
the delay is a plain number; then each network profile's own delays, drawn from its named streams, are held against the answer.

``python -m bench vru`` prints the tables, writes ``bench/results/vru.json`` and draws ``docs/v2x-warning.svg``.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.tools import ROOT, save, show
from samepath.core.states import VehicleCommand
from samepath.scenarios.model import ScenarioSpec, build_scenario
from samepath.simulator.sensors.radio import CUSTOM_NAME, IN_SIGHT, PROFILES, Link, Radio
from samepath.simulator.simulation import Simulation

SPEEDS_KMH = (30, 40, 50, 60)
STEP_S = 0.01
STEP_OUT_S = 2.0
LEAD_S = 3.0  # of steady driving before anybody steps out
WALK_MPS = 1.5
DELAYS_S = tuple(round(0.05 * number, 2) for number in range(0, 41))
REPEAT_S = 0.1
MESSAGES = 20_000
APART_M = 60.0
CAR, WALKER = "vehicle.tesla.model3", "walker.pedestrian.0001"
FIGURE = ROOT / "docs" / "v2x-warning.svg"


@dataclass(frozen=True)
class Outcome:
    """What became of one run: the speed at which the car hit, 0 if it did not, and the digest of the whole run."""

    impact_mps: float
    hit: bool
    digest: str


@dataclass(frozen=True)
class NetworkDelays:
    """What a profile did to the warnings; ``in_time`` by speed in km/h."""

    median_s: float
    late_1_in_1000_s: float
    in_time: dict[str, float]


def scenario(speed_mps: float) -> ScenarioSpec:
    """The car passes x = 0 when the pedestrian is in the middle of its lane, unless somebody does something."""
    meets_s = LEAD_S + STEP_OUT_S
    over_s = meets_s + 3.0
    kerb_m = WALK_MPS * STEP_OUT_S
    car = {
        "id": 1, "type": CAR, "start_speed": speed_mps,
        "path": [[-speed_mps * meets_s, 0.0], [speed_mps * 3.0, 0.0]], "times": [0.0, over_s],
    }  # fmt: skip
    walker = {
        "id": 2, "type": WALKER, "after_collision": "fall",
        "path": [[0.0, kerb_m], [0.0, kerb_m], [0.0, kerb_m - WALK_MPS * (over_s - LEAD_S)]], "times": [0.0, LEAD_S, over_s],
    }  # fmt: skip
    return build_scenario(
        {"name": "vru-warning", "duration": over_s, "step": STEP_S, "substeps": 2, "end": "duration", "actors": [car, walker]},
        "bench vru",
    )


def run(speed_mps: float, delay_s: float | None) -> Outcome:
    """Drive once; the brakes are on from ``delay_s`` after the pedestrian has left the kerb. None: no warning."""
    simulation = Simulation(scenario(speed_mps))
    warned_s = None if delay_s is None else LEAD_S + delay_s
    impact_mps, hit = 0.0, False
    ended = None
    while ended is None:
        commands = simulation.decide(simulation.view())
        if warned_s is not None and simulation.world.time_s >= warned_s - 1e-9:
            commands[1] = VehicleCommand(brake=1.0)
        before_mps = simulation.world.state(1).velocity_mps.x
        result = simulation.advance(commands)
        if result.collisions and not hit:
            hit, impact_mps = True, before_mps
        ended = result.ended
    return Outcome(impact_mps, hit, str(simulation.world.digest))


def delays_of(profile: str) -> list[float]:
    """When a warning arrives that is repeated until one does, over ``MESSAGES`` warnings; inf: none within two seconds."""
    radio = Radio.from_attributes(CUSTOM_NAME, {"network_profile": profile, "scenario": "urban"})
    link = Link(APART_M, 1.5, 1.8, IN_SIGHT)
    found = []
    for warning in range(MESSAGES):
        best_s = np.inf
        for attempt in range(20):
            normal, lost, late = radio.chance(1, 2, 20 * warning + attempt)
            sent_s = attempt * REPEAT_S
            if sent_s >= best_s:
                break
            if radio.received_dbm(radio.transmit_dbm, link, normal) is None:
                continue
            arrival_s, _ = radio.arrives_s(sent_s, 0.0, 200, lost, late)
            best_s = min(best_s, np.inf if arrival_s is None else arrival_s)
        found.append(float(best_s))
    return found


def main() -> bool:
    """Run everything; true if each speed has an answer and runs repeat to the bit."""
    curves: dict[int, list[float]] = {}
    latest: dict[int, float | None] = {}
    same = True
    for kmh in SPEEDS_KMH:
        speed_mps = kmh / 3.6
        outcomes = [run(speed_mps, delay_s) for delay_s in DELAYS_S]
        curves[kmh] = [outcome.impact_mps * 3.6 for outcome in outcomes]
        # The last delay before the first hit: later ones that miss by luck do not count.
        first = next((number for number, outcome in enumerate(outcomes) if outcome.hit), len(outcomes))
        latest[kmh] = DELAYS_S[first - 1] if first else None
        same = same and run(speed_mps, DELAYS_S[10]) == outcomes[10]
        same = same and run(speed_mps, None).hit
    rows = [
        [f"{kmh} km/h", "never in time" if latest[kmh] is None else f"{latest[kmh]:.2f} s", f"{max(curves[kmh]):.0f} km/h"]
        for kmh in SPEEDS_KMH
    ]
    show("how late a warning may be", ["speed", "latest warning without a hit", "hardest hit within 2 s"], rows)
    profiles: dict[str, NetworkDelays] = {}
    for name in PROFILES:
        delays = np.sort(np.array(delays_of(name)))
        in_time = {kmh: float(np.mean(delays <= (latest[kmh] or -1.0))) for kmh in SPEEDS_KMH}
        profiles[name] = NetworkDelays(
            median_s=float(delays[len(delays) // 2]),
            late_1_in_1000_s=float(delays[int(len(delays) * 0.999)]),
            in_time={str(kmh): share for kmh, share in in_time.items()},
        )
    rows = [
        [name, f"{1000 * profile.median_s:.1f} ms", f"{1000 * profile.late_1_in_1000_s:.0f} ms",
         *(f"{100 * profile.in_time[str(kmh)]:.2f} %" for kmh in SPEEDS_KMH)]
        for name, profile in profiles.items()
    ]  # fmt: skip
    show(
        f"warnings in time, of {MESSAGES}, {APART_M:g} m apart in sight",
        ["network", "median", "1 of 1000 later than", *(f"{kmh} km/h" for kmh in SPEEDS_KMH)],
        rows,
    )
    print(f"runs repeated to the bit, and without a warning every car hits: {'yes' if same else 'no'}")
    _draw(curves, {name: profile.late_1_in_1000_s for name, profile in profiles.items()})
    figures = {
        "step_out_s": STEP_OUT_S, "walk_mps": WALK_MPS, "delays_s": DELAYS_S, "messages": MESSAGES,
        "impact_kmh": {str(kmh): curve for kmh, curve in curves.items()},
        "latest_s": {str(kmh): value for kmh, value in latest.items()},
        "profiles": {name: asdict(profile) for name, profile in profiles.items()}, "repeats_to_the_bit": same,
    }  # fmt: skip
    save("vru", figures)
    return same and all(value is not None for value in latest.values())


def tables(figures: dict[str, Any]) -> str:
    """The results as the page ``docs/v2x.md`` has them."""
    rows = ["| speed | latest warning without a hit | hardest hit, warnings up to 2 s late |", "|---|---|---|"]
    for kmh, latest_s in figures["latest_s"].items():
        told = "never in time" if latest_s is None else f"{latest_s:.2f} s"
        rows.append(f"| {kmh} km/h | {told} | {max(figures['impact_kmh'][kmh]):.0f} km/h |")
    rows += ["", "| network | median delay | 1 of 1000 later than | in time at " + ", ".join(figures["latest_s"]) + " km/h |"]
    rows.append("|---|---|---|---|")
    for name, profile in figures["profiles"].items():
        shares = ", ".join(f"{100 * share:.2f} %" for share in profile["in_time"].values())
        rows.append(
            f"| `{name}` | {1000 * profile['median_s']:.1f} ms | {1000 * profile['late_1_in_1000_s']:.0f} ms | {shares} |"
        )
    return "\n".join(rows)


def _draw(curves: dict[int, list[float]], late_s: dict[str, float]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "samepath"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 3.6))
    for kmh, curve in curves.items():
        axes.plot(DELAYS_S, curve, label=f"{kmh} km/h", linewidth=1.6)
    networks = sorted((value_s, name) for name, value_s in late_s.items() if name != "none")
    for place, (value_s, name) in enumerate(networks):
        axes.axvline(value_s, color="0.6", linewidth=0.8, linestyle=":")
        # One below the other: the lines are nearer to each other than a word is wide.
        axes.text(networks[-1][0] + 0.02, 60 - 4 * place, name, va="top", ha="left", fontsize=7, color="0.4")
    axes.set(xlabel="delay of the warning, s", ylabel="speed at impact, km/h", xlim=(0, DELAYS_S[-1]), ylim=(-1, 62))
    axes.legend(frameon=False, fontsize=8, title="speed before", title_fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)
