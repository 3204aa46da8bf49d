"""The sensors' attributes with CARLA's documented defaults."""

from collections.abc import Iterator
from typing import Final

from samepath.sim.server.blueprints.attributes import common, variations
from samepath.sim.server.blueprints.records import Attribute

_PLACES: Final = ("front", "back", "left", "right", "front_left", "front_right", "back_left", "back_right")
_TICK: Final = "sensor_tick float 0.0\n"
_CAMERA: Final = f"""{_TICK}
image_size_x int 800
image_size_y int 600
fov float 90.0
lens_circle_falloff float 5.0
lens_circle_multiplier float 0.0
lens_k float -1.0
lens_kcube float 0.0
lens_x_size float 0.08
lens_y_size float 0.08
"""
_FILM: Final = f"""{_CAMERA}
enable_postprocess_effects bool true
gamma float 2.2
motion_blur_intensity float 0.45
motion_blur_max_distortion float 0.35
motion_blur_min_object_screen_size float 0.1
lens_flare_intensity float 0.1
bloom_intensity float 0.675
exposure_mode string histogram manual
exposure_compensation float 0.0
shutter_speed float 200.0
iso float 100.0
fstop float 1.4
exposure_min_bright float 10.0
exposure_max_bright float 12.0
exposure_speed_up float 3.0
exposure_speed_down float 1.0
calibration_constant float 16.0
focal_distance float 1000.0
blur_amount float 1.0
blur_radius float 0.0
min_fstop float 1.2
blade_count int 5
slope float 0.88
toe float 0.55
shoulder float 0.26
black_clip float 0.0
white_clip float 0.04
temp float 6500.0
tint float 0.0
chromatic_aberration_intensity float 0.0
chromatic_aberration_offset float 0.0
"""
_EVENTS: Final = f"""{_FILM}
positive_threshold float 0.3
negative_threshold float 0.3
sigma_positive_threshold float 0.0
sigma_negative_threshold float 0.0
refractory_period_ns int 0
use_log bool true
log_eps float 0.001
"""
_LIDAR: Final = f"""{_TICK}
channels int 32
range float 10.0
points_per_second int 56000
rotation_frequency float 10.0
upper_fov float 10.0
lower_fov float -30.0
horizontal_fov float 360.0
"""
_LASER: Final = f"""{_LIDAR}
atmosphere_attenuation_rate float 0.004
noise_seed int 0
dropoff_general_rate float 0.45
dropoff_intensity_limit float 0.8
dropoff_zero_intensity float 0.4
noise_stddev float 0.0
"""
_RADAR: Final = f"""{_TICK}
horizontal_fov float 30
vertical_fov float 30
range float 100
points_per_second int 1500
noise_seed int 0
"""
_POSITION_NOISE: Final = """
noise_lat_stddev float 0.0
noise_lat_bias float 0.0
noise_lon_stddev float 0.0
noise_lon_bias float 0.0
noise_alt_stddev float 0.0
noise_alt_bias float 0.0
"""
_ACCELERATION_NOISE: Final = """
noise_accel_stddev_x float 0.0
noise_accel_stddev_y float 0.0
noise_accel_stddev_z float 0.0
"""
_IMU: Final = f"""{_TICK}
noise_seed int 0
{_ACCELERATION_NOISE}
noise_gyro_stddev_x float 0.0
noise_gyro_stddev_y float 0.0
noise_gyro_stddev_z float 0.0
noise_gyro_bias_x float 0.0
noise_gyro_bias_y float 0.0
noise_gyro_bias_z float 0.0
"""
_GNSS: Final = f"""{_TICK}
noise_seed int 0
{_POSITION_NOISE}
"""
_OBSTACLE: Final = f"""{_TICK}
distance float 5.0
hit_radius float 0.5
only_dynamics bool false
debug_linetrace bool false
"""
_RADIO: Final = f"""{_TICK}
noise_seed int 0
frequency_ghz float 5.9
transmit_power float 21.5
receiver_sensitivity float -99.0
combined_antenna_gain float 10.0
scenario string highway rural urban
path_loss_exponent float 2.7
d_ref float 1.0
filter_distance float 500.0
use_etsi_fading bool true
custom_fading_stddev float 0.0
path_loss_model string winner geometric
"""
_V2X: Final = f"""{_RADIO}
gen_cam_min float 0.1
gen_cam_max float 1.0
fixed_rate bool false
{_POSITION_NOISE}
noise_head_stddev float 0.0
noise_head_bias float 0.0
{_ACCELERATION_NOISE}
noise_yawrate_stddev float 0.0
noise_yawrate_bias float 0.0
noise_vel_stddev_x float 0.0
"""
# Collision, lane invasion and responsibility sensors speak when something happens: they have no rate.
SENSORS: Final = {
    "sensor.camera.cosmos_visualization": _CAMERA,
    "sensor.camera.depth": _CAMERA,
    "sensor.camera.dvs": _EVENTS,
    "sensor.camera.instance_segmentation": _CAMERA,
    "sensor.camera.normals": _CAMERA,
    "sensor.camera.optical_flow": _CAMERA,
    "sensor.camera.rgb": _FILM,
    "sensor.camera.semantic_segmentation": _CAMERA,
    "sensor.lidar.ray_cast": _LASER,
    "sensor.lidar.ray_cast_semantic": _LIDAR,
    "sensor.other.collision": "",
    "sensor.other.gnss": _GNSS,
    "sensor.other.imu": _IMU,
    "sensor.other.lane_invasion": "",
    "sensor.other.obstacle": _OBSTACLE,
    "sensor.other.radar": _RADAR,
    "sensor.other.rss": "",
    "sensor.other.v2x": _V2X,
    "sensor.other.v2x_custom": _RADIO,
}
_WITHOUT_PLACE: Final = frozenset({"imu", "gnss", "radar", "v2x", "v2x_custom"})


def sensor_attributes(name: str) -> Iterator[Attribute]:
    """Everything that can be set on a sensor."""
    yield from common(*(() if name.rpartition(".")[2] in _WITHOUT_PLACE else _PLACES))
    yield from variations(SENSORS[name])
