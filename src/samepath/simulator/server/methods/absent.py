"""What CARLA has and we do not, and why."""

from typing import Final

from samepath.simulator.carla.codec import u32
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods.table import VALUE, VOID, Table

TABLE: Final = Table()

TABLE.missing("there are no textures", VOID, ("apply_color_texture_to_objects", "apply_float_color_texture_to_objects"))
TABLE.missing("day and night do not change the lights", VOID, ("update_day_night_cycle",))
TABLE.missing("there is no console", VALUE, ("console_command",))
TABLE.missing(
    "walkers hold themselves as they walk, and cannot be posed: get_bones() tells how",
    VOID,
    ("set_bones_transform", "blend_pose", "get_pose_from_animation"),
)
TABLE.missing("vehicles run on Rapier only", VOID, ("enable_carsim", "use_carsim_road", "enable_chrono_physics"))
TABLE.missing("ROS is not built in", VOID, ("enable_sensor_for_ros", "disable_sensor_for_ros"))


@TABLE.void(u32, idle="there is no other physics to come back from")
def restore_physx_physics(_: Episode, actor_id: int) -> None:
    pass


@TABLE.query(u32, idle="never: ROS is not built in")
def is_sensor_enabled_for_ros(_: Episode, stream_id: int) -> bool:
    return False
