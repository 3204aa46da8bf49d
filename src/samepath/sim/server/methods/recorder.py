"""Recording and replaying."""

from typing import Final

from samepath.sim.server.methods.table import Table

TABLE: Final = Table()
