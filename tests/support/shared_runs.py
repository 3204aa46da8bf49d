"""Runs for those checks of the conformance kit that only look at what was recorded: one of each scenario serves them all."""

from samepath.engines import conformance


def share_runs(monkeypatch, runs, name):
    """Let the checks find the runs of simulator ``name`` in ``runs``, where the first of them leaves them."""
    run_each = conformance._each_scenario

    def each_scenario(factory):
        if name not in runs:
            runs[name] = tuple(run_each(factory))
        return iter(runs[name])

    monkeypatch.setattr(conformance, "_each_scenario", each_scenario)
