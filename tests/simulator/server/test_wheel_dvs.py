"""CARLA's own client and the event camera: what it is sent follows from the pictures of a colour camera at the same place."""

import base64
import json
import math
import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from samepath.core.errors import SimulatorError
from samepath.simulator.sensors.renderer import create_renderer
from tests.support import SUPPORT
from tests.support.serving import served

pytest.importorskip("carla")
pytest.importorskip("numba")

SCRIPT = SUPPORT / "wheel_dvs_script.py"
RISE, FALL, EPS = 0.2, 0.25, 0.001


def driven(folder, renderer):
    """What a client that drives is sent."""
    with served(map_name="t-junction", data_folder=folder / "data", renderer=renderer) as server:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(server.port)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "CARLA_CACHE_DIR": str(folder / "cache")},
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}\n{server.lines}"
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=["software", "opengl"])
def drive(request, tmp_path_factory):
    try:
        create_renderer(request.param).close()
    except SimulatorError as error:
        pytest.skip(str(error))
    return driven(tmp_path_factory.mktemp("dvs"), request.param)


def brightness(picture):
    pixels = np.frombuffer(base64.b64decode(picture), np.uint8).reshape(60, 90, 4).astype(float)
    grey = 0.114 * pixels[..., 0] + 0.587 * pixels[..., 1] + 0.2989 * pixels[..., 2]
    return np.log(EPS + grey / 255.0)


def crossings(pictures):
    """How often each pixel passes a threshold between pictures, worked out pixel by pixel: {frame: {(x, y, up): count}}."""
    found, fired, before = {}, None, None
    for frame, _, picture in pictures:
        now = brightness(picture)
        if fired is None:
            fired, before = now.copy(), now
            continue
        count = Counter()
        for row, column in zip(*np.nonzero(now != before), strict=True):
            up = now[row, column] > before[row, column]
            step = RISE if up else FALL
            passed = (now[row, column] - fired[row, column]) * (1 if up else -1) / step
            whole = max(math.floor(passed), 0)
            if whole:
                count[int(column), int(row), bool(up)] = whole
                fired[row, column] += whole * step * (1 if up else -1)
        found[frame], before = count, now
    return found


def test_events_are_what_changed_between_the_pictures_of_a_colour_camera(drive):
    wanted = crossings(drive["pictures"])
    sent = {frame: Counter((x, y, up) for x, y, _, up in events) for frame, *_, events in drive["changes"]}
    assert set(sent) == {frame for frame, count in wanted.items() if count}  # one that would be empty is not sent
    assert sum(map(Counter.total, wanted.values())) > 500
    for frame, events in sent.items():
        # Brightness is counted in quarters of a level: a few crossings fall to the neighbouring picture.
        apart = (events - wanted[frame]).total() + (wanted[frame] - events).total()
        assert apart <= 0.05 * wanted[frame].total() + 3


def test_events_come_in_order_at_moments_between_the_two_pictures(drive):
    times = {frame: time_s for frame, time_s, _ in drive["pictures"]}
    for frame, time_s, width, height, events in drive["changes"]:
        assert (width, height) == (90, 60)
        assert time_s == times[frame]
        moments = [t for _, _, t, _ in events]
        assert moments == sorted(moments)
        assert round(times[frame - 1] * 1e9) <= moments[0] <= moments[-1] <= round(time_s * 1e9)
        assert all(0 <= x < 90 and 0 <= y < 60 for x, y, *_ in events)
    assert {up for *_, events in drive["changes"] for *_, up in events} == {True, False}
