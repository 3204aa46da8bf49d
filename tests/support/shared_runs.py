"""Runs for those checks of the conformance kit that only look at what was recorded: one of each scenario serves them all."""

from samepath.engines import conformance
from samepath.scenarios import model


def share_runs(monkeypatch, runs, name):
    """Let the checks find the runs of simulator ``name`` in ``runs``, where the first of them leaves them."""
    run_each = conformance._each_scenario

    def each_scenario(factory):
        if name not in runs:
            runs[name] = tuple(run_each(factory))
        return iter(runs[name])

    monkeypatch.setattr(conformance, "_each_scenario", each_scenario)


# Of the built-in scenarios one of each kind: all of them are held to their bits in tests/simulator/world, and the kit asks for
# ten runs of each.
SOME = ("draft-test7", "far-100km", "glancing", "meet-truck", "scenery", "table1-test2", "table1-test4", "town-traffic")
# A town of sixty actors takes fifteen times as long as any other. Cars and people without a script are a kind; sixty are not.
TOWN = {"duration: 15 s": "duration: 5 s", "vehicles: 40": "vehicles: 6", "walkers: 20": "walkers: 4"}


def offer_some_scenarios(monkeypatch):
    """Let simulators offer a few of the built-in scenarios, the one with traffic smaller than it is."""
    some = {scenario: text for scenario, text in model.built_in_scenarios().items() if scenario in SOME}
    assert len(some) == len(SOME)
    for whole, part in TOWN.items():
        assert whole in some["town-traffic"]
        some["town-traffic"] = some["town-traffic"].replace(whole, part)
    monkeypatch.setattr(model, "built_in_scenarios", lambda: some)
