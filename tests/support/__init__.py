"""What tests and benchmarks share: peers, scenes, scripts for CARLA's client, faults on purpose."""

from pathlib import Path
from typing import Final

SUPPORT: Final = Path(__file__).parent
ROOT: Final = SUPPORT.parents[1]
