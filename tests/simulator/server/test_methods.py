"""The table of methods is CARLA's, whole, and a few of our own; the documentation says of each what we do with it."""

import re
from pathlib import Path

import pytest

from samepath.simulator.carla.codec import WireError
from samepath.simulator.carla.records import _ACTOR_COMMANDS
from samepath.simulator.server.methods import batch, counts, methods
from tests.support.serving import RawClient, served

DOCS = Path(__file__).parents[3] / "docs" / "serve.md"

# Every method that CARLA 0.9.16's server binds.
CARLA = """
is_traffic_manager_running get_traffic_manager_running add_traffic_manager_running destroy_traffic_manager version
tick_cue get_available_maps load_new_episode load_map_layer unload_map_layer copy_opendrive_to_file
apply_color_texture_to_objects apply_float_color_texture_to_objects get_names_of_all_objects get_episode_info
get_map_info get_map_data get_navigation_mesh get_required_files request_file get_episode_settings set_episode_settings
get_actor_definitions get_spectator get_all_level_BBs get_environment_objects enable_environment_objects
set_annotations_traverse_translucency get_weather_parameters set_weather_parameters get_imui_gravity set_imui_gravity
get_actors_by_id spawn_actor spawn_actor_with_parent destroy_actor console_command get_sensor_token
enable_sensor_for_ros disable_sensor_for_ros is_sensor_enabled_for_ros send set_actor_location set_actor_transform
set_walker_state set_actor_target_velocity set_actor_target_angular_velocity enable_actor_constant_velocity
disable_actor_constant_velocity add_actor_impulse add_actor_impulse_at_location add_actor_force
add_actor_force_at_location add_actor_angular_impulse add_actor_torque get_actor_bounding_box
get_actor_component_world_transform get_actor_component_relative_transform get_actor_bone_world_transforms
get_vehicle_bone_world_transforms get_actor_bone_relative_transforms get_actor_component_names get_actor_bone_names
get_actor_socket_world_transforms get_actor_socket_relative_transforms get_actor_socket_names get_physics_control
get_vehicle_light_state apply_physics_control set_vehicle_light_state open_vehicle_door close_vehicle_door
set_wheel_steer_direction get_wheel_steer_angle set_actor_simulate_physics set_actor_collisions set_actor_dead
set_actor_enable_gravity apply_control_to_vehicle apply_ackermann_control_to_vehicle get_ackermann_controller_settings
apply_ackermann_controller_settings apply_control_to_walker get_bones_transform set_bones_transform blend_pose
get_pose_from_animation set_actor_autopilot get_telemetry_data show_vehicle_debug_telemetry enable_carsim
use_carsim_road enable_chrono_physics restore_physx_physics set_traffic_light_state set_traffic_light_green_time
set_traffic_light_yellow_time set_traffic_light_red_time freeze_traffic_light reset_traffic_light_group
reset_all_traffic_lights freeze_all_traffic_lights get_vehicle_light_states get_group_traffic_lights get_light_boxes
get_gbuffer_token enable_gbuffers are_gbuffers_enabled start_recorder stop_recorder show_recorder_file_info
show_recorder_collisions show_recorder_actors_blocked replay_file set_replayer_time_factor set_replayer_ignore_hero
set_replayer_ignore_spectator stop_replayer draw_debug_shape clear_debug_shape clear_debug_string apply_batch
query_lights_state update_lights_state update_day_night_cycle project_point cast_ray
""".split()  # noqa: SIM905 - a text is easier to read

# And those that are our own.
OURS = ("samepath_call", "samepath_ticket", "samepath_control", "samepath_watch", "samepath_pace")


def test_every_method_of_the_protocol_is_there_and_ours_are_named_so():
    assert sorted(methods()) == sorted([*CARLA, *OURS])
    assert all(name.startswith("samepath_") for name in OURS)


def test_every_command_of_a_batch_is_a_method():
    seen = set()
    for index, reader in _ACTOR_COMMANDS.items():
        with pytest.raises(WireError):
            reader([])
        seen.add(index)
    assert seen == set(range(1, 22)) - {20}
    assert batch._METHODS["set_walker_state"] is methods()["set_walker_state"]


def documented():
    """Method names in the documentation's table by what it says of them."""
    found = {}
    for line in DOCS.read_text("utf-8").partition("## Methods")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 2:
            for name in cells[0].replace("`", "").split(","):
                found[name.strip()] = cells[1]
    return found


def test_the_documentation_lists_every_method_and_tells_the_truth():
    table = documented()
    assert sorted(table) == sorted(methods())
    for name, method in methods().items():
        says = table[name]
        assert says.startswith("not supported") == (method.handler is None), f"{name}: docs say {says!r}"
        assert says.startswith("accepted") == bool(method.idle), f"{name}: docs say {says!r}, the code {method.idle!r}"


def test_the_documentation_counts_the_methods_as_the_table_does():
    found = counts()
    text = DOCS.read_text("utf-8").partition("## Methods")[2]
    rows = dict(re.findall(r"^\| ([a-z][^|`]*?) +\| (\d+) +\|$", text, re.MULTILINE))
    assert rows == {
        "implemented": str(found.implemented),
        "accepted, with nothing to do": str(found.idle),
        "not supported": str(found.not_supported),
        "in all": str(found.listed),
    }
    assert found.listed == len(CARLA) == found.implemented + found.idle + found.not_supported


@pytest.fixture(scope="module")
def client():
    with served() as server, RawClient(server) as found:
        yield found


@pytest.mark.parametrize("name", sorted(name for name, method in methods().items() if method.handler is None))
def test_what_is_not_supported_says_so_and_why(client, name):
    error, result = client.ask(name, 1, "x", [1.0])
    assert error is None
    ((tag, (message,)),) = result
    assert tag in (0, True)
    assert message.startswith(f"not supported by samepath: {name}: ")
    assert client.value("version") == "0.9.16"
