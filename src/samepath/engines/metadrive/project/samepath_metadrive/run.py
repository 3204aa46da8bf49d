"""One run: reads what is to be driven from the file on the command line, drives it in MetaDrive, and writes what happened.

To what was stdout, a line each: ``samepath 1``, S states of one tick or more, C contact, F frames, E end. Numbers are bytes in
base64, so that none loses a digit. What MetaDrive prints goes to stderr. Needs MetaDrive, and nothing of samepath.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .clock import now_s, sleep_s
from .driver import Driver
from .world import World

CONTACT = struct.Struct("<3i3f")
STEP = struct.Struct("<I")


class Teller:
    """Writes lines to what was stdout; from now on, whatever else is printed goes to stderr."""

    def __init__(self, ticks_at_once: int) -> None:
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)
        self._ticks_at_once = ticks_at_once
        self._states: list[bytes] = []

    def say(self, line: str) -> None:
        """Write a line, after what waits."""
        self.flush()
        self._write(line.encode() + b"\n")

    def states(self, data: bytes) -> None:
        """Write a tick's states: where nobody waits for the wall clock, some ticks at once."""
        self._states.append(data)
        if len(self._states) >= self._ticks_at_once:
            self.flush()

    def flush(self) -> None:
        """Write the states that wait."""
        if self._states:
            data, self._states = b"".join(self._states), []
            self._write(b"S " + base64.b64encode(data) + b"\n")

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._out.write(left) :]


class Run:
    """A run from its first step to its last."""

    def __init__(self, run: dict[str, Any], teller: Teller) -> None:
        self.run, self.teller = run, teller
        self.world = World(run)
        self.drivers = [
            Driver(actor, car.chassis, run["control_s"])
            for actor, car in zip(run["actors"], self.world.cars)  # noqa: B905
        ]
        self.steps = 0
        self.collided = False
        self.ended = ""

    def settle(self) -> None:
        """Let everybody sink onto their wheels."""
        for car in self.world.cars:
            car.obey(car.command, 0.0)
        for _ in range(self.run["settle_steps"]):
            self.world.step()
        self.world.sweep()

    def decide(self, time_s: float) -> None:
        """Ask everybody's driver."""
        for car, driver in zip(self.world.cars, self.drivers):  # noqa: B905
            seen = car.see()
            car.obey(driver.step(seen, time_s), seen.speed_mps)

    def step(self) -> None:
        """Make a physics step and tell what came of it."""
        touches = self.world.step()
        self.steps += 1
        for touch in touches:
            self.collided = True
            data = CONTACT.pack(self.steps, touch.one, touch.other, *touch.impulse_ns)
            self.teller.say(f"C {base64.b64encode(data).decode()}")
        if self.steps % self.run["steps_per_tick"] == 0:
            self.teller.states(STEP.pack(self.steps) + b"".join(car.state() for car in self.world.cars))
            self.ended = self.why_over(self.steps // self.run["steps_per_tick"])

    def why_over(self, tick: int) -> str:
        """Say why this tick is the last, if it is."""
        run = self.run
        if tick == run["last_tick"]:
            return "duration"
        if run["end"] == "last-waypoint" and all(driver.stopped for driver in self.drivers):
            return "arrived"
        if run["end"] == "first-collision" and self.collided:
            return "collision"
        return "over" if tick >= run["ticks"] else ""

    def play_in_step(self) -> None:
        """Ask drivers every tick, then make its steps, as fast as they go."""
        while not self.ended:
            self.decide(self.steps * self.run["step_s"])
            for _ in range(self.run["steps_per_tick"]):
                self.step()
            self.world.sweep()

    def play_frames(self, now_s: Callable[[], float], sleep_s: Callable[[float], None]) -> None:
        """Frames come with the wall clock: drivers are asked once, then as many steps as are due are made, up to a most."""
        run, frame_s = self.run, self.run["frame_s"]
        last_s = now_s()
        due_s, game_s, left_s = last_s + frame_s, 0.0, 0.0
        frames = most = 0
        while not self.ended:
            wait_s = due_s - now_s()
            if wait_s > 0:
                sleep_s(wait_s)
            here_s = now_s()
            passed_s = (here_s - last_s) * run["time_scale"]
            last_s, due_s = here_s, max(due_s, here_s) + frame_s
            game_s += passed_s
            left_s += passed_s
            self.decide(game_s)
            count = int(left_s / run["step_s"])
            # What is beyond the most is dropped: the physics is behind the game from then on.
            left_s = left_s - count * run["step_s"] if count <= run["max_steps"] else 0.0
            count = min(count, run["max_steps"])
            frames, most = frames + 1, max(most, count)
            for _ in range(count):
                if not self.ended:
                    self.step()
            self.world.sweep()
        self.teller.say(f"F {frames} {most}")


def main() -> None:
    """Play the run on the command line."""
    run = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    teller = Teller(run["ticks_at_once"])
    play = Run(run, teller)
    play.settle()
    teller.say("samepath 1")
    if run["mode"] == "synchronous":
        play.play_in_step()
    else:
        play.play_frames(now_s, sleep_s)
    teller.say(f"E {play.ended}")
    os._exit(0)  # Panda3D has nothing to save, and takes its time to close


if __name__ == "__main__":
    main()
