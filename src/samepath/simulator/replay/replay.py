"""Plays the recording of a run: each step as long as it was, with what everybody was told and what pushed them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from samepath.core.errors import InputError
from samepath.core.states import Command
from samepath.simulator.replay.recording import RunRecording, made_with, read_run
from samepath.simulator.replay.timeline import Replay, ReplayDiffersError
from samepath.simulator.run_setup import FedRun
from samepath.simulator.simulation import Simulation
from samepath.simulator.world.world import World

if TYPE_CHECKING:
    from samepath.simulator.sensors.renderer import RenderScene


class RunReplay(Replay):
    """The replay of a run. ``check`` holds every step against the recorded digest; without it nothing is promised."""

    def __init__(self, recording: RunRecording, name: str = "recording", *, check: bool = True) -> None:
        super().__init__(name, recording.steps)
        recording.check_map()
        self.recording = recording
        self._checks = check
        self._start()

    @classmethod
    def open(cls, path: Path) -> "RunReplay":
        """Open a file."""
        return cls(read_run(path), str(path))

    @property
    def simulation(self) -> Simulation:
        """The scenario as it is played now."""
        return self._run.simulation

    @property
    def world(self) -> World:
        return self._run.simulation.world

    @property
    def ended(self) -> str:
        return self.recording.ended

    def _commands(self) -> Mapping[int, Command]:
        return self._run.simulation.commands

    def _start(self) -> None:
        self._run: FedRun = self.recording.setup.fed(self.recording.inputs)

    def _forward(self) -> None:
        result = self._run.step()
        # A fork that was cut off has no end of its own.
        ends = self.position + 1 == self.steps and bool(self.recording.ended)
        if bool(result.ended) != ends and self._checks:
            how = f"ended ({result.ended})" if result.ended else "goes on"
            raise self._differs(f"the run {how} after step {self.position + 1}, but the recorded one had {self.steps} steps")

    def _check(self) -> None:
        if self._checks and bytes.fromhex(self.world.digest) != self.recording.digest_after(self.position):
            raise self._differs(f"step {self.position} (tick {self.tick}) came out differently from what was recorded")

    def _differs(self, what: str) -> ReplayDiffersError:
        other = made_with(self.recording.made_by)
        return ReplayDiffersError(f"{self.name}: {what}{other or '; the versions are the same: the simulator does not repeat'}")

    def _snapshot(self) -> bytes:
        return self._run.simulation.snapshot()

    def _restore(self, packed: bytes) -> None:
        self._run.restore(packed)

    def scene(self) -> "RenderScene":
        from samepath.simulator.replay.picture import scene_of

        if self.recording.scenario.map == "flat":
            raise InputError("flat ground has nothing to see: pictures of cameras need a scenario with a map")
        return scene_of(self.simulation)

    def close(self) -> None:
        self._run.close()
