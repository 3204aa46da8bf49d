"""What every adapter of a program is held to: one that misbehaves is told of, and nothing of it is left."""

from pathlib import Path

import pytest

from samepath.core.errors import SamepathError, SimulatorError


def check_misbehaviour(run, engine_of, scratch, tmp_path, monkeypatch, body, words):
    """Run an engine whose program is ``body``; ``engine_of`` makes one and returns the settings that name it."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mark = tmp_path / "pid"
    settings = engine_of(f"open({str(mark)!r}, 'w').write(str(os.getpid()))\n{body}")
    with pytest.raises(SimulatorError, match=words):
        # The program has to write its mark within this, also on a machine that does not run it for a second or two.
        run({**settings, "timeout_s": 5.0 if body == "time.sleep(3600)" else 20.0})
    assert not Path(f"/proc/{mark.read_text()}").exists()
    assert not list(tmp_path.glob(f"{scratch}-*"))


def check_pedestrians_are_refused(run, settings, tmp_path):
    """A script with somebody on foot is no script for cars."""
    path = tmp_path / "walk.yaml"
    path.write_text(
        "name: walk\nmap: t-junction\nactors:\n"
        "  - {id: 1, type: walker.pedestrian.0001, path: [[-35, -19], [-38, -11]], speed: 1.4}\n"
    )
    with pytest.raises(SamepathError, match="vehicles were wanted, but actor 1 is a walker"):
        run(settings, scenario=str(path))
