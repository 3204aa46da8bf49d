"""Sources of non-determinism, each a real mechanism, to be switched on one by one (Section IV of the paper).

Nothing here adds noise to a result. A source changes how something is computed, in the way engines do by accident: it asks the
wall clock, leaves an order to a scheduler or a hash table, draws without a seed. See :mod:`samepath.sim.sources.table`.
"""
