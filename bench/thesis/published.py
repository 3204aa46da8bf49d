"""What the thesis published in chapters 8 and 9 (Debner: four unequal servers with CARLA 0.9.1), in its own words and numbers.

Only what is printed there: curves without numbers in the text are not read off the pictures. Each value names the figure or
chapter that it is from.
"""

from typing import Final, NamedTuple


class Range(NamedTuple):
    """A published number, or the two between which it lies; ``words`` are how it is put."""

    low: float
    high: float
    words: str

    @property
    def middle(self) -> float:
        return 0.5 * (self.low + self.high)


SERVERS: Final = (
    ("Main server", "Core i7-5820K, 3.30 GHz", "GeForce GTX 1080 Ti", "32 GB"),
    ("Rendering server 2", "Xeon E31230, 3.20 GHz", "GeForce GTX 1050 Ti", "16 GB"),
    ("Rendering server 3", "Core i7 970, 3.20 GHz", "GeForce GTX 1050 Ti", "12 GB"),
    ("Rendering server 4", "Core i7 920, 2.67 GHz", "GeForce GTX 680", "18 GB"),
)
"""Fig. 8.1: the machines, in a LAN; the measuring client ran on the first."""

SMALLEST, LARGEST = "180x120", "1440x960"

CAMERA_MS: Final = {SMALLEST: Range(11, 11, "11 ms"), LARGEST: Range(14, 14, "14 ms")}
"""Fig. 8.2: each added camera adds an average of 11 ms to 14 ms, depending on the resolution."""
SLOWDOWN: Final = Range(1.4, 1.4, "roughly 40 %")
"""Fig. 8.2: 1440x960 slows the step down by this against 180x120."""

ONE_SERVER_IMAGES_PER_S: Final = {SMALLEST: Range(80, 80, "slightly over 80"), LARGEST: Range(70, 70, "slightly below 70")}
"""Fig. 8.3: the largest throughput of the main server alone."""
ONE_SERVER_VEHICLES: Final = Range(6, 8, "6 to 8")
"""Fig. 8.3: vehicles with at least 10 frames a second, depending on the resolution."""
ONE_SERVER_IMAGES_AT_LIMIT: Final = Range(60, 80, "60 to 80")

SERVERS_IMAGES_PER_S: Final = {1: Range(80, 80, "80"), 4: Range(150, 160, '150 ("almost 160" in chapter 9)')}
"""Fig. 8.4: the largest throughput by number of servers; two and three are in the picture only."""
SATURATION_VEHICLES: Final = {
    1: Range(6, 7, "6-7"), 2: Range(10, 10, "10"), 3: Range(15, 15, "15"), 4: Range(20, 20, "20"),
}  # fmt: skip
"""Fig. 8.4: vehicles at which each number of servers reaches its largest throughput."""

CAMERAS_AT_LIMIT: Final = {
    SMALLEST: ("7", "2", "1", "none: barely under 10 frames/s with one"),
    LARGEST: ("fairly similar", "fairly similar", "fairly similar", "no picture at all"),
}  # fmt: skip
"""Figs. 8.5, 8.6: cameras with at least 10 frames a second on each of the four servers."""
UNRESPONSIVE_S: Final = Range(1.0, 2.0, "1-2 s")
"""Figs. 8.8, 8.9: steps of servers 3 and 4 with many vehicles, which were left out of the figures."""

PING_MS: Final = {SMALLEST: Range(1.0, 1.0, "slightly below 1 ms"), LARGEST: Range(2.5, 2.5, "slightly over 2.5 ms")}
"""Figs. 8.10, 8.11: the highest latency of a call that a rendering server answers itself."""
PING_MAIN_MS: Final = Range(0.2, 0.2, "around 0.2 ms")
PING_MOST_MS: Final = Range(3.0, 3.0, "below 3 ms")

COMMAND_STEPS: Final = Range(
    1.0, 2.0, "up to one step (16.7 ms at 60 a second, 100 ms at 10), up to two through a rendering server"
)
"""Chapter 9: not measured there; how long a control command may wait before a step feels it."""

EIGHT_CAMERA_VEHICLES: Final = {1: Range(1, 1, "1"), 4: Range(2, 2, "2")}
"""Chapter 9: vehicles with eight cameras at 10 images a second, on one server and on all four."""
