# Drives a car along its track: pedals by PID on speed, steering by pure pursuit of a point ahead. A track is a list of
# [x_m, y_m, speed_mps] in our frame; the numbers of the law come with the script. GDScript's own numbers have 64 bits.
extends Reference

const WINDOW_M = 2.0
const STANDING_MPS = 0.1
const ROUNDING_S = 1e-6

var track = []
var arcs = [0.0]
var law = {}
var start_s = 0.0
var wheel_base_m = 0.0
var max_steer_rad = 0.0
var index = 0
var arrived = false
var stopped = false
var integral = 0.0
var speed_before = null


func _init(actor):
	track = actor["track"]
	law = actor["driving"]
	start_s = actor["start_s"]
	wheel_base_m = actor["wheels"]["wheel_base_m"]
	max_steer_rad = deg2rad(actor["wheels"]["max_steer_deg"])
	for number in range(1, track.size()):
		var x = track[number][0] - track[number - 1][0]
		var y = track[number][1] - track[number - 1][1]
		arcs.append(arcs[-1] + sqrt(x * x + y * y))


# Return throttle, steer and brake for the next period.
func step(car, time_s, period_s):
	if time_s < start_s - ROUNDING_S:
		return [0.0, 0.0, 1.0]
	var at = car.transform.origin
	var forward = car.transform.basis.z
	var size = sqrt(forward.x * forward.x + forward.z * forward.z)
	var ahead_x = forward.x / size
	var ahead_y = forward.z / size
	var speed = car.linear_velocity.x * ahead_x + car.linear_velocity.z * ahead_y
	advance(at.x, at.z)
	var target = point_ahead(law["look_ahead_m"] + law["look_ahead_s"] * max(speed, 0.0))
	var rear_m = wheel_base_m / 2
	var steer = pursue(target[0] - (at.x - rear_m * ahead_x), target[1] - (at.z - rear_m * ahead_y), ahead_x, ahead_y)
	if arrived:
		stopped = stopped or abs(speed) < STANDING_MPS
		integral = 0.0
		speed_before = speed
		return [0.0, steer, 1.0]
	var output = pedals(max(track[index][2], law["creep_mps"]), speed, period_s)
	return [max(output, 0.0), steer, max(-output, 0.0)]


# Move on to the nearest waypoint, at most so far ahead; never back.
func advance(x_m, y_m):
	var best = index
	var best_square = INF
	var number = index
	while number < track.size() and arcs[number] <= arcs[index] + WINDOW_M:
		var square = square_to(number, x_m, y_m)
		if square < best_square:
			best = number
			best_square = square
		number += 1
	index = best
	var last = track.size() - 1
	var near = law["arrival_m"]
	var at_end = square_to(last, x_m, y_m) <= near * near and arcs[last] - arcs[best] <= 2 * near
	arrived = arrived or best == last or at_end


func square_to(number, x_m, y_m):
	var x = track[number][0] - x_m
	var y = track[number][1] - y_m
	return x * x + y * y


# Return the point so far along the track, beyond its end on a straight line.
func point_ahead(reach_m):
	var arc = arcs[index] + reach_m
	var last = track.size() - 1
	var number = index + 1
	while number < last and arcs[number] <= arc:
		number += 1
	number = int(min(number, last))
	var a = track[number - 1]
	var b = track[number]
	var share = (arc - arcs[number - 1]) / (arcs[number] - arcs[number - 1])
	return [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share]


func pursue(to_x, to_y, ahead_x, ahead_y):
	var right = to_y * ahead_x - to_x * ahead_y
	if to_x * ahead_x + to_y * ahead_y < 0.0:
		return -1.0 if right < 0.0 else 1.0
	return clamp(atan2(2.0 * wheel_base_m * right, to_x * to_x + to_y * to_y) / max_steer_rad, -1.0, 1.0)


# The integral stands still while the output is at its end.
func pedals(wanted_mps, speed, period_s):
	var error = wanted_mps - speed
	var change = 0.0 if speed_before == null else (speed - speed_before) / period_s
	speed_before = speed
	var direct = law["proportional"] * error - law["derivative"] * change
	var limit = law["integral_limit"]
	var grown = clamp(integral + law["integral"] * error * period_s, -limit, limit)
	var output = direct + grown
	if (output > 1.0 and error > 0.0) or (output < -1.0 and error < 0.0):
		output = direct + integral
	else:
		integral = grown
	return clamp(output, -1.0, 1.0)
