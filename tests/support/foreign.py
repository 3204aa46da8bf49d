"""Files of another user, for tests that run as root and for tests that do not."""

import os
from pathlib import Path

SOMEBODY = 54321


def given_away(monkeypatch, path):
    """Let ``path`` belong to somebody else: root can give it away, others see it through the eyes of another user."""
    if os.geteuid() == 0:
        os.chown(path, SOMEBODY, SOMEBODY)
        return
    real, foreign = os.fstat, Path(path).stat().st_ino

    def seen(handle):
        found = real(handle)
        return os.stat_result((*found[:4], SOMEBODY, *found[5:])) if found.st_ino == foreign else found

    monkeypatch.setattr("samepath.core.files.os.fstat", seen)
