"""Record and replay: one file that gives a run again to the bit, stops anywhere, goes back, and forks.

:mod:`.recording` is the file and what stands in it of a run, :mod:`.replay` plays it, :mod:`.fork` changes a command and
compares the futures, :mod:`.picture` draws what is there, :mod:`.served` replays what a server did for its clients.
"""
