"""The satellite receiver: where the sensor is on the globe, consistent with the client's own map."""

from typing import Final

from samepath.base.streams import stream
from samepath.sim.server import frames, geo
from samepath.sim.server.records import Description
from samepath.sim.server.sensors.instrument import Sight, real, seed

_AXES: Final = ("lat", "lon", "alt")


class Gnss:
    """Latitude, longitude, altitude with bias and Gaussian noise, in degrees, degrees and metres."""

    def __init__(self, description: Description, ordinal: int) -> None:
        self._biases = [real(description, f"noise_{axis}_bias", 0.0) for axis in _AXES]
        self._deviations = [abs(real(description, f"noise_{axis}_stddev", 0.0)) for axis in _AXES]
        self._seed = seed(description)
        self._ordinal = ordinal
        self._count = 0

    def feel(self, sight: Sight) -> None:
        """Count the ticks, which name the noise."""
        self._count += 1

    def measure(self, sight: Sight) -> list[bytes]:
        """One measurement."""
        pose = sight.pose
        found = list(geo.to_globe(sight.scene.origin, pose.x_m, pose.y_m, pose.z_m))
        if any(self._deviations):
            noise = stream(self._seed, "gnss", self._ordinal, self._count).normal(0.0, self._deviations)
            found = [one + float(error) for one, error in zip(found, noise, strict=True)]
        latitude, longitude, altitude = (one + bias for one, bias in zip(found, self._biases, strict=True))
        return [frames.gnss(latitude, longitude, altitude)]
