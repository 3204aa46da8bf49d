"""The memory of graphics cards, on a driver that is none: what is written comes back, a stuck bit does not, nothing is kept."""

import ctypes

import pytest

from samepath.instrument.host.doctor import LEAST_BYTES, check_gpu_memory, describe
from samepath.instrument.host.probe import Unknown


class FakeDriver:
    """The calls of NVIDIA's library over memory of this machine; ``stuck`` is a byte of the card's that keeps a bit at 1."""

    def __init__(self, free=64 * LEAST_BYTES, cards=1, stuck=None, fails=None):
        self.free, self.cards, self.stuck, self.fails = free, cards, stuck, fails or {}
        self.held, self.open, self.asked = {}, 0, []

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        fails = {} if name == "fails" else self.fails
        return (lambda *words: fails[name]) if name in fails else found

    def cuInit(self, flags):  # noqa: N802
        return 0

    def cuDeviceGetCount(self, count):  # noqa: N802
        count._obj.value = self.cards
        return 0

    def cuDeviceGet(self, device, number):  # noqa: N802
        device._obj.value = number
        return 0

    def cuDevicePrimaryCtxRetain(self, context, device):  # noqa: N802
        self.open += 1
        return 0

    def cuDevicePrimaryCtxRelease_v2(self, device):  # noqa: N802
        self.open -= 1
        return 0

    def cuCtxSetCurrent(self, context):  # noqa: N802
        return 0

    def cuMemGetInfo_v2(self, free, total):  # noqa: N802
        free._obj.value = self.free
        return 0

    def cuMemAlloc_v2(self, address, size):  # noqa: N802
        memory = ctypes.create_string_buffer(size.value)
        self.asked.append(size.value)
        address._obj.value = ctypes.addressof(memory)
        self.held[address._obj.value] = memory
        return 0

    def cuMemFree_v2(self, address):  # noqa: N802
        del self.held[address.value]
        return 0

    def cuMemcpyHtoD_v2(self, to, given, size):  # noqa: N802
        ctypes.memmove(to.value, given.value, size.value)
        for start, memory in self.held.items():
            if self.stuck is not None and to.value <= start + self.stuck < to.value + size.value:
                memory[self.stuck] = bytes([memory[self.stuck][0] | 0x10])
        return 0

    def cuMemcpyDtoH_v2(self, to, given, size):  # noqa: N802
        ctypes.memmove(to.value, given.value, size.value)
        return 0


def test_a_sound_card_is_clean_and_gets_everything_back():
    driver, told = FakeDriver(cards=2), []
    found = check_gpu_memory(3 * LEAST_BYTES, lambda: driver, lambda card: lambda pattern, steps: told.append((card, steps)))
    assert [(name, test.wrong_count, test.bytes_tested) for name, test in found.items()] == [
        ("GPU 0 memory test", 0, 3 * LEAST_BYTES),
        ("GPU 1 memory test", 0, 3 * LEAST_BYTES),
    ]
    assert {card for card, _ in told} == {0, 1}
    assert not driver.held
    assert driver.open == 0


def test_a_stuck_bit_is_found_with_its_place_by_every_pattern_that_has_a_zero_there():
    (test,) = check_gpu_memory(2 * LEAST_BYTES, lambda: FakeDriver(stuck=LEAST_BYTES + 8 * 5 + 2)).values()
    assert {word.index for word in test.wrong_words} == {LEAST_BYTES // 8 + 5}
    assert {word.bits for word in test.wrong_words} == {(20,)}
    assert {"0x00", "0xAA"} <= {word.pattern for word in test.wrong_words}
    assert "0xFF" not in {word.pattern for word in test.wrong_words}
    assert "wrong in 2 MiB with 8 patterns, first word 131077, bits 20" in describe(test)


def test_no_more_than_a_quarter_of_the_free_memory_is_taken():
    driver = FakeDriver(free=8 * LEAST_BYTES)
    check_gpu_memory(1 << 40, lambda: driver)
    assert driver.asked == [2 * LEAST_BYTES]
    (little,) = check_gpu_memory(1 << 40, lambda: FakeDriver(free=LEAST_BYTES)).values()
    assert str(little) == str(Unknown.because("too little of the card's memory is free for a test"))


def missing():
    raise OSError("libcuda.so.1: cannot open shared object file")


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (missing, "no NVIDIA card to test: NVIDIA's driver is not installed"),
        (lambda: FakeDriver(cards=0), "no NVIDIA card to test: the driver shows none"),
        (lambda: FakeDriver(fails={"cuInit": 999}), "no NVIDIA card to test: cuInit failed with status 999"),
    ],
)
def test_without_a_card_one_line_says_so(load, said):
    assert check_gpu_memory(LEAST_BYTES, load) == said


@pytest.mark.parametrize(
    ("fails", "said"),
    [({"cuMemAlloc_v2": 2}, "could not be had"), ({"cuMemcpyDtoH_v2": 719}, "cuMemcpyDtoH_v2 failed with status 719")],
)
def test_a_card_that_fails_is_unknown_and_let_go_of(fails, said):
    driver = FakeDriver(fails=fails)
    (found,) = check_gpu_memory(LEAST_BYTES, lambda: driver).values()
    assert said in str(found)
    assert driver.open == 0
    assert not driver.held
