"""GPU load: the choice of a back end, the work handed over, the control law, and the reason where nothing works."""

import pytest

from samepath.core.errors import StudyError
from samepath.instrument.conditions.machine import BACKENDS as NAMES
from samepath.instrument.conditions.machine import GpuLoad, usable_backends
from samepath.instrument.conditions.worker import BACKENDS, UNIT_S, calibrated, first_kernel, unit_of
from samepath.instrument.conditions.worker_pool import SchedulingState
from samepath.instrument.host.gpu import GpuMeter


class Gpu:
    """A GPU that takes a fixed time a round, on a clock of its own."""

    def __init__(self, round_s=20e-6, first_s=1.0):
        self.now_s, self.free_s = 0.0, 0.0
        self.round_s, self.first_s = round_s, first_s
        self.launched, self.most_in_flight, self.in_flight = [], 0, 0

    def launch(self, rounds):
        took_s = rounds * self.round_s + (0 if self.launched else self.first_s)
        self.free_s = max(self.free_s, self.now_s) + took_s
        self.launched.append(rounds)

    def mark(self):
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        return self.free_s

    def wait(self, mark):
        self.in_flight -= 1
        self.now_s = max(self.now_s, mark)


def test_pytorch_comes_before_cupy_and_the_driver_is_last():
    assert usable_backends(lambda name: True, lambda: True) == NAMES == tuple(BACKENDS)
    assert usable_backends(lambda name: name == "cupy", lambda: True) == ("cupy", "driver")
    assert usable_backends(lambda name: False, lambda: True) == ("driver",)
    assert usable_backends(lambda name: False, lambda: False) == ()


def test_a_library_that_does_not_work_gives_way_to_the_next():
    def broken():
        raise RuntimeError("sees no GPU")

    gpu = Gpu()
    assert first_kernel(["torch", "cupy"], {"torch": broken, "cupy": lambda: gpu}) == ("cupy", gpu)
    with pytest.raises(RuntimeError, match="torch: sees no GPU; cupy: sees no GPU"):
        first_kernel(["torch", "cupy"], {"torch": broken, "cupy": broken})


@pytest.mark.parametrize("round_s", [1e-9, 20e-6, 0.1])
def test_a_launch_is_sized_to_about_a_millisecond_and_the_first_does_not_count(round_s):
    gpu = Gpu(round_s)
    rounds = calibrated(gpu, lambda: gpu.now_s)
    assert rounds == 1 if round_s > UNIT_S else rounds * round_s == pytest.approx(UNIT_S, rel=0.05) or rounds <= 2**20


def test_one_launch_is_in_flight_while_the_next_is_handed_over():
    gpu = Gpu(first_s=0.0)
    unit = unit_of(gpu)
    for _ in range(10):
        assert unit() == 1.0
    assert gpu.most_in_flight == 2
    assert gpu.in_flight == 1


class FakeWorkers:
    """Workers of a GPU that shows 90 % of the share it is given, beside 10 % of someone else's."""

    def __init__(self):
        self.share = 0.0
        self.pids = ()

    def check(self):
        pass

    def close(self):
        pass


@pytest.mark.parametrize("target", [0.25, 0.5, 0.75, 0.95])
def test_the_share_settles_where_the_reading_meets_the_target(target):
    class Meter(GpuMeter):
        def ratio(self):
            return min(1.0, round(0.1 + 0.9 * workers.share, 2))

    workers = FakeWorkers()
    load = GpuLoad(target, SchedulingState.of_this_process(), Meter(lambda: None), ("driver",))
    load._workers = workers
    for _ in range(200):
        load._step()
    load.mark()
    for _ in range(10):
        load._step()
    assert load.measured() == pytest.approx(target, abs=0.011)
    load.hold(0.6)
    assert workers.share == pytest.approx((target - 0.1) / 0.9 + 0.6 - target, abs=0.02)


def test_a_gpu_that_cannot_be_read_is_not_steered_blindly():
    workers = FakeWorkers()
    load = GpuLoad(0.5, SchedulingState.of_this_process(), GpuMeter(lambda: None), ("driver",))
    load._workers, workers.share = workers, 0.4
    for _ in range(20):
        load._step()
    assert workers.share == 0.4
    assert load.measured() is None


def test_where_nothing_works_every_reason_is_told():
    if usable_backends():
        pytest.skip("this host may have a GPU")
    load = GpuLoad(0.5, SchedulingState.of_this_process(), GpuMeter(), ("torch", "cupy", "driver"))
    with pytest.raises(
        StudyError, match=r"GPU load ended: no way to load the GPU works \(torch: .*; cupy: .*; driver: libcuda"
    ):
        load.start()
    load.close()
    assert load.pids == ()
