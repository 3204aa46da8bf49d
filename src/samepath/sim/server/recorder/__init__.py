"""Recordings of a session in CARLA's own file format: written, described and played again.

The format itself is :mod:`samepath.traces.carla_log`, which the importer of recordings shares.
"""

from samepath.sim.server.recorder.folder import inside
from samepath.sim.server.recorder.recording import Recording
from samepath.sim.server.recorder.replay import Replay, ReplayOptions, ReplayStep, replay_text
from samepath.sim.server.recorder.texts import blocked_text, collisions_text, info_text

__all__ = [
    "Recording",
    "Replay",
    "ReplayOptions",
    "ReplayStep",
    "blocked_text",
    "collisions_text",
    "info_text",
    "inside",
    "replay_text",
]
