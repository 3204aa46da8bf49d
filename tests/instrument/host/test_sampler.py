"""The sampler: ratios from counters, latencies from the clock, nothing where nothing was measured."""

import threading

import numpy as np
import psutil
import pytest

from samepath.core.errors import InputError
from samepath.instrument.host.gpu import GpuMeter
from samepath.instrument.host.sampler import CoreTimes, HostSampler, read_core_times

NEVER_S = 3600.0


class FakeClock:
    """A clock that moves when told."""

    def __init__(self):
        self.now_s = 1000.0

    def monotonic_s(self):
        return self.now_s

    def utc_iso(self):
        return "2024-02-29T12:00:00+00:00"


class FakeCores:
    """Counters that move when told."""

    def __init__(self, count=2):
        self.times = [CoreTimes(100.0, 900.0)] * count

    def spend(self, *busy_and_idle_s):
        self.times = [
            CoreTimes(core.busy_s + busy_s, core.idle_s + idle_s)
            for core, (busy_s, idle_s) in zip(self.times, busy_and_idle_s, strict=True)
        ]

    def __call__(self):
        return tuple(self.times)


class FakeGpu(GpuMeter):
    """A GPU that is a quarter busy while open."""

    def __init__(self):
        self.calls = []

    def open(self):
        self.calls.append("open")

    def ratio(self):
        return 0.25

    def close(self):
        self.calls.append("close")


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def cores():
    return FakeCores()


@pytest.fixture
def sampler(clock, cores):
    return HostSampler(NEVER_S, clock, cores, GpuMeter(lambda: None))


def test_ratios_are_the_busy_share_of_the_time_since_the_last_sample(sampler, clock, cores):
    with sampler:
        clock.now_s += 0.5
        cores.spend((0.5, 0.0), (0.1, 0.4))
        first = sampler.sample_now()
        clock.now_s += 0.5
        cores.spend((0.0, 0.5), (0.0, 0.5))
        second = sampler.sample_now()
    assert first.core_ratios == (1.0, 0.2)
    assert first.cpu_ratio == pytest.approx(0.6)
    assert first.wall_s == 0.5
    assert first.gpu_ratio is None
    assert (second.cpu_ratio, second.core_ratios, second.wall_s) == (0.0, (0.0, 0.0), 1.0)
    assert sampler.log().samples == (first, second)


def test_a_sample_belongs_to_the_tick_that_was_current(sampler, cores):
    with sampler:
        cores.spend((0.1, 0.1), (0.1, 0.1))
        assert sampler.sample_now().tick == 0
        sampler.tick(1)
        sampler.tick(2)
        cores.spend((0.1, 0.1), (0.1, 0.1))
        assert sampler.sample_now().tick == 2


def test_a_short_run_has_one_sample_that_spans_it(sampler, clock, cores):
    with sampler:
        clock.now_s += 0.03
        cores.spend((0.03, 0.0), (0.0, 0.03))
    (sample,) = sampler.log().samples
    assert (sample.wall_s, sample.cpu_ratio, sample.core_ratios) == (pytest.approx(0.03), 0.5, (1.0, 0.0))


def test_counters_that_have_not_moved_give_no_sample(sampler, clock):
    with sampler:
        clock.now_s += 0.001
        assert sampler.sample_now() is None
    assert sampler.log().samples == ()


def test_a_core_that_has_not_moved_joins_the_interval_to_the_next(sampler, cores):
    with sampler:
        cores.spend((0.01, 0.0), (0.0, 0.0))
        assert sampler.sample_now() is None
        cores.spend((0.0, 0.03), (0.0, 0.04))
        assert sampler.sample_now().core_ratios == (0.25, 0.0)


def test_what_subtracting_floats_leaves_over_is_neither_load_nor_movement(sampler, cores):
    with sampler:
        cores.spend((1e-11, 0.0), (1e-11, 0.0))
        assert sampler.sample_now() is None
        cores.spend((1e-11, 0.1), (0.0, 0.1))
        assert sampler.sample_now().core_ratios == (0.0, 0.0)


def test_a_counter_that_steps_back_does_not_give_a_ratio_outside_0_to_1(sampler, cores):
    with sampler:
        cores.spend((0.5, -0.01), (-0.01, 0.5))
        assert sampler.sample_now().core_ratios == (1.0, 0.0)


def test_a_core_that_goes_offline_starts_the_count_over(sampler, cores):
    with sampler:
        cores.times = cores.times[:1]
        assert sampler.sample_now() is None
        cores.spend((0.1, 0.3))
        assert sampler.sample_now().core_ratios == (0.25,)


def test_a_host_without_counters_gives_no_samples(clock):
    with HostSampler(NEVER_S, clock, tuple, GpuMeter(lambda: None)) as sampler:
        assert sampler.sample_now() is None
    assert sampler.log().samples == ()


def test_latency_is_the_wall_time_since_the_tick_before_or_the_start(sampler, clock):
    with sampler:
        for tick, wait_s in enumerate((0.25, 0.5, 0.125), start=1):
            clock.now_s += wait_s
            sampler.tick(tick)
    log = sampler.log()
    assert log.latency_ticks.tolist() == [1, 2, 3]
    assert log.latency_s.tolist() == [0.25, 0.5, 0.125]
    assert (log.latency_ticks.dtype, log.latency_s.dtype) == (np.int64, np.float64)
    assert not log.latency_ticks.flags.writeable
    assert not log.latency_s.flags.writeable


def test_a_run_without_ticks_has_empty_latencies(sampler):
    with sampler:
        pass
    assert sampler.log().latency_ticks.shape == sampler.log().latency_s.shape == (0,)


def test_the_gpu_is_open_for_the_run_and_closed_after_it(clock, cores):
    gpu = FakeGpu()
    with HostSampler(NEVER_S, clock, cores, gpu) as sampler:
        cores.spend((0.1, 0.1), (0.1, 0.1))
        assert sampler.sample_now().gpu_ratio == 0.25
        assert gpu.calls == ["open"]
    assert gpu.calls == ["open", "close"]


def test_a_start_that_fails_leaves_no_gpu_open(clock):
    gpu = FakeGpu()

    def fail():
        raise ValueError

    with pytest.raises(ValueError), HostSampler(NEVER_S, clock, fail, gpu):
        pass
    assert gpu.calls == ["open", "close"]


def test_a_run_that_raises_stops_the_thread_and_keeps_what_was_measured(sampler, clock, cores):
    before = threading.active_count()
    with pytest.raises(KeyError), sampler:
        assert threading.active_count() == before + 1
        clock.now_s += 1.0
        cores.spend((0.5, 0.5), (0.5, 0.5))
        sampler.tick(1)
        raise KeyError
    assert threading.active_count() == before
    assert len(sampler.log().samples) == 1


@pytest.mark.parametrize("interval_s", [0.0, -1.0, float("nan"), float("inf")])
def test_an_interval_that_is_no_positive_time_is_refused(interval_s):
    with pytest.raises(InputError, match="above 0 s"):
        HostSampler(interval_s)


def test_a_sampler_serves_one_run_and_only_after_its_start(sampler):
    with pytest.raises(RuntimeError, match="not started"):
        sampler.log()
    with sampler:
        pass
    with pytest.raises(RuntimeError, match="one run"), sampler:
        pass


def test_the_thread_samples_by_itself(clock):
    cores, sampled = FakeCores(), threading.Event()

    class Gpu(FakeGpu):
        def ratio(self):
            sampled.set()
            return super().ratio()

    def moving_cores():
        cores.spend((0.1, 0.1), (0.1, 0.1))
        return cores()

    with HostSampler(0.001, clock, moving_cores, Gpu()) as sampler:
        assert sampled.wait(60)
    assert len(sampler.log().samples) >= 2


def test_ticks_and_samples_from_several_threads_are_all_kept(clock):
    cores = FakeCores()

    def moving_cores():
        cores.spend((0.1, 0.1), (0.1, 0.1))
        return cores()

    with HostSampler(NEVER_S, clock, moving_cores, GpuMeter(lambda: None)) as sampler:
        threads = [threading.Thread(target=lambda: [sampler.sample_now() for _ in range(200)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for tick in range(2000):
            sampler.tick(tick)
            if tick % 100 == 0:
                log = sampler.log()
                assert len(log.latency_ticks) == len(log.latency_s) == tick + 1
        for thread in threads:
            thread.join()
    assert len(sampler.log().samples) == 801
    assert all(sample.cpu_ratio == pytest.approx(0.5) for sample in sampler.log().samples)


def test_busy_leaves_out_waiting_for_disks_and_counts_guests_once(monkeypatch):
    class Times(tuple):
        user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice = (5, 1, 2, 50, 10, 1, 1, 3, 4, 1)

    times = Times((5, 1, 2, 50, 10, 1, 1, 3, 4, 1))
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [times])
    assert read_core_times() == (CoreTimes(busy_s=13, idle_s=60),)


def test_counters_that_cannot_be_read_are_absent(monkeypatch):
    def fail(percpu):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "cpu_times", fail)
    assert read_core_times() == ()


def test_this_host_is_sampled_while_it_works():
    before = threading.active_count()
    with HostSampler(interval_s=0.01) as sampler:
        total = 0
        for tick in range(20):
            total += sum(range(100_000))
            sampler.tick(tick)
    log = sampler.log()
    assert threading.active_count() == before
    assert log.latency_ticks.tolist() == list(range(20))
    assert (log.latency_s >= 0).all()
    for sample in log.samples:
        assert len(sample.core_ratios) == len(read_core_times())
        assert all(0 <= ratio <= 1 for ratio in (sample.cpu_ratio, *sample.core_ratios))
        assert sample.gpu_ratio is None or 0 <= sample.gpu_ratio <= 1
