# A car: Godot's VehicleBody, built from the sizes, the mass and the tyres of the script. Its local z points forward.
extends VehicleBody

var main = null
var number = 0
var power_w = 0.0
var grip_n = 0.0
var brake_n = 0.0
var max_steer_rad = 0.0
var step_s = 0.0
var driven = []
# What drives it now, 0 to 1 (steering -1 to 1, to the right).
var throttle = 0.0
var steer = 0.0
var braking = 1.0
# What was felt in the last step from each body that is touched.
var felt = {}


func build(actor, of_step_s):
	number = int(actor["id"])
	step_s = of_step_s
	var size = actor["body"]
	var wheels = actor["wheels"]
	var spring = actor["suspension"]
	mass = size["mass_kg"]
	can_sleep = false
	power_w = wheels["power_w"]
	grip_n = wheels["friction"] * mass * 9.81 * wheels["driven_share"]
	brake_n = min(wheels["brake_n"], wheels["friction"] * mass * 9.81)
	max_steer_rad = deg2rad(wheels["max_steer_deg"])
	contact_monitor = true
	contacts_reported = 8
	var middle_m = spring["centre_of_mass_m"]
	var box = CollisionShape.new()
	box.shape = BoxShape.new()
	box.shape.extents = Vector3(size["width_m"], size["height_m"] - wheels["clearance_m"], size["length_m"]) / 2
	box.translation = Vector3(0, (size["height_m"] + wheels["clearance_m"]) / 2 - middle_m, 0)
	add_child(box)
	for front in [true, false]:
		for side in [1, -1]:
			var wheel = VehicleWheel.new()
			wheel.wheel_radius = wheels["radius_m"]
			wheel.wheel_rest_length = spring["rest_m"]
			wheel.suspension_travel = spring["travel_m"]
			wheel.suspension_stiffness = spring["stiffness_per_s2"]
			wheel.damping_compression = spring["compression_per_s"]
			wheel.damping_relaxation = spring["relaxation_per_s"]
			wheel.suspension_max_force = spring["most_n"]
			wheel.wheel_friction_slip = wheels["friction"]
			wheel.use_as_steering = front
			wheel.use_as_traction = wheels["driven"] == "all" or (wheels["driven"] == "front") == front
			wheel.translation = Vector3(
				side * wheels["track_m"] / 2,
				spring["mount_m"] - middle_m,
				wheels["wheel_base_m"] / 2 if front else -wheels["wheel_base_m"] / 2
			)
			add_child(wheel)
			if wheel.use_as_traction:
				driven.append(wheel)
	var yaw_rad = deg2rad(actor["start"]["yaw_deg"])
	var forward = Vector3(cos(yaw_rad), 0, sin(yaw_rad))
	transform = Transform(
		Basis(Vector3.UP.cross(forward), Vector3.UP, forward), Vector3(actor["start"]["x_m"], middle_m, actor["start"]["y_m"])
	)
	connect("body_entered", self, "_on_body_entered")
	obey([0.0, 0.0, 1.0])


# Take a command: throttle, steer, brake.
func obey(command):
	throttle = command[0]
	steer = command[1]
	braking = command[2]
	var speed_mps = linear_velocity.dot(transform.basis.z)
	var force_n = throttle * min(power_w / max(abs(speed_mps), 1.0), grip_n)
	for wheel in driven:
		wheel.engine_force = force_n / driven.size()
	# Godot steers to the left, and takes brakes as the impulse of a step, for each wheel. Each wheel would stop the whole car,
	# so that together they may do no more than that: a car that stands would else shake.
	steering = -steer * max_steer_rad
	brake = min(braking * brake_n * step_s, mass * abs(speed_mps)) / 4


func write(out):
	var at = transform.origin
	var z = transform.basis.z
	var y = transform.basis.y
	var x = transform.basis.x
	for value in [
		at.x, at.z, at.y, z.x, z.z, z.y, y.x, y.z, y.y, x.x, x.z, x.y,
		linear_velocity.x, linear_velocity.z, linear_velocity.y,
		angular_velocity.x, angular_velocity.z, angular_velocity.y
	]:
		out.put_float(value)
	for value in [throttle, steer, braking]:
		out.put_double(value)


func _integrate_forces(state):
	felt.clear()
	for index in state.get_contact_count():
		var id = state.get_contact_collider_id(index)
		var impulse = state.get_contact_local_normal(index) * state.get_contact_impulse(index)
		# Both sides are told the same normal: what is felt pushes away from where it touches.
		if impulse.dot(state.transform.origin - state.get_contact_collider_position(index)) < 0:
			impulse = -impulse
		felt[id] = felt.get(id, Vector3.ZERO) + impulse


func _on_body_entered(body):
	main.touched(self, body, felt.get(body.get_instance_id(), Vector3.ZERO))
