"""What a sensor may cost: known before its first measurement, once the length of a tick is known."""

from samepath.sim.sensors.attributes import Given
from samepath.sim.sensors.schedule import interval_s


def check_rays(kind: str, given: Given, step_s: float) -> None:
    """Refuse a LiDAR or radar that would send more rays in a measurement than fit into memory."""
    if kind.startswith("sensor.lidar."):
        from samepath.sim.sensors.lidar import Lidar

        lidar = Lidar.from_attributes(given, semantic=kind.endswith("_semantic"))
        lidar.columns(interval_s(lidar.values["sensor_tick"], step_s))
    elif kind == "sensor.other.radar":
        from samepath.sim.sensors.radar import Radar

        radar = Radar.from_attributes(given)
        radar.count(interval_s(radar.values["sensor_tick"], step_s))
