"""Logs of a script that looks at a running world whenever it gets round to it, in the format of the paper's authors.

The world is the same to the bit in every repeat; only the moments differ at which the script has looked.
"""

from pathlib import Path

from samepath.engines import registry
from samepath.engines.interface import RunRequest
from samepath.instrument.traces.recorder import Recorder

HEADER = "repeatNo, agentNo, agentID, agentType, agentTypeNo, time, fps, x, y, z, yaw"


def late_log(path: Path, looked_ticks, *, scenario="table1-test2", duration_s=8.0) -> Path:
    """Write a log of one run, looked at every second tick; ``looked_ticks(repeat, row)`` is how many ticks later it was."""
    with registry.create("samepath") as simulator:
        info = simulator.info()
        recorder = Recorder(0, info.channels, info.step_s)
        simulator.run(RunRequest(scenario, 0, 0, {}, duration_s=duration_s), recorder)
    run = recorder.finish()
    columns = [run.channels.index(name) for name in ("x_m", "y_m", "z_m", "yaw_deg")]
    rows = {(int(t), int(a)): run.values[i, columns] for i, (t, a) in enumerate(zip(run.tick, run.actor, strict=True))}
    last = int(run.tick[-1])
    lines = [HEADER]
    for repeat in range(1, 4):
        for row in range(1, (last - 2) // 2):
            tick = 2 * row + looked_ticks(repeat, row)
            for actor in (listed.id for listed in run.actors):
                x, y, z, yaw = rows[tick, actor]
                place = f"{x:.3f}, {y:.3f}, {z:.3f}, {yaw:.3f}"
                lines.append(f"{repeat}, {actor}, {900 + actor}, vehicle.audi.tt, 1, {row * 0.1:.3f}, 20.000, {place}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
