# One run: reads what is to be driven from the file that SAMEPATH_RUN names, drives it, and writes what happened to stdout, a line
# each: S states of one tick or more, C contact, F frames, E end. Numbers are bytes in base64, so that none loses a digit.
#
# Godot's frame is right-handed with y up; ours is left-handed with z up. Godot's x is our x, its z our y, its y our z.
extends Node

const Car = preload("res://car.gd")
const Driver = preload("res://driver.gd")
const Link = preload("res://link.gd")
const View = preload("res://view.gd")

const BAD_RUN = 3
const NO_ANSWER = 4
# States of so many bytes are written, however few their ticks are: a line must not be too long for the reader.
const MOST_BYTES = 65536

var run = {}
var cars = []
var boxes = []
var drivers = []
var link = null
# Physics steps that are done, those before the run included.
var steps = 0
var ended = false
var collided = false
# States that are not yet written, and of how many ticks.
var states = StreamPeerBuffer.new()
var waiting = 0
var frames = 0
var last_frame_steps = 0
var most_steps = 0
var drawn = false
var most_drawn = 0


func _ready():
	var file = File.new()
	if file.open(OS.get_environment("SAMEPATH_RUN"), File.READ) != OK:
		fail("SAMEPATH_RUN names no file that can be read", BAD_RUN)
		return
	var parsed = JSON.parse(file.get_as_text())
	if parsed.error != OK or typeof(parsed.result) != TYPE_DICTIONARY:
		fail("the run is not JSON: %s" % parsed.error_string, BAD_RUN)
		return
	run = parsed.result
	# A step is as long as ever, but that many times as many come in a second of the wall clock.
	Engine.iterations_per_second = int(run["steps_per_s"] * run["time_scale"])
	Engine.time_scale = run["time_scale"]
	OS.low_processor_usage_mode_sleep_usec = int(run["frame_sleep_us"])
	add_ground()
	for box in run["boxes"]:
		add_box(box)
	for actor in run["actors"]:
		var car = Car.new()
		car.build(actor, 1.0 / run["steps_per_s"])
		car.main = self
		add_child(car)
		cars.append(car)
		drivers.append(Driver.new(actor))
	drawn = run["rendering"] != "none"
	if drawn:
		var view = View.new()
		add_child(view)
		view.build(run, cars, boxes)
	if run["controller"] == "external":
		link = Link.new()
		if not link.open(int(run["port"]), cars):
			fail("the controller at UDP port %d does not answer" % int(run["port"]), NO_ANSWER)
			return
	print("samepath 1")


func add_ground():
	var shape = CollisionShape.new()
	shape.shape = PlaneShape.new()
	var ground = StaticBody.new()
	ground.add_child(shape)
	add_child(ground)
	ground.set_meta("ground", true)


func add_box(box):
	var shape = CollisionShape.new()
	shape.shape = BoxShape.new()
	shape.shape.extents = Vector3(box["size_m"][0], box["size_m"][2], box["size_m"][1]) / 2
	var body = StaticBody.new()
	body.add_child(shape)
	body.transform = Transform(
		Basis(Vector3.UP, -deg2rad(box["place"]["yaw_deg"])),
		Vector3(box["place"]["x_m"], box["size_m"][2] / 2, box["place"]["y_m"])
	)
	add_child(body)
	boxes.append(body)


# Physics steps since the run began; below 0 everybody still settles on their wheels.
func since_start():
	return steps - int(run["settle_steps"])


func _physics_process(_delta):
	if ended or cars.empty():
		return
	var now = since_start()
	var per_tick = int(run["steps_per_tick"])
	if now > 0 and now % per_tick == 0:
		write_state(now)
		finish_if_over(now / per_tick)
	if now >= 0 and not ended and run["controller"] == "physics":
		decide(now, 1.0 / run["steps_per_s"])
	steps += 1


func _process(delta):
	if ended or cars.empty():
		return
	var now = since_start()
	frames += 1
	if drawn:
		most_drawn = int(max(most_drawn, VisualServer.get_render_info(VisualServer.INFO_OBJECTS_IN_FRAME)))
	most_steps = int(max(most_steps, steps - last_frame_steps))
	if now >= 0 and run["controller"] == "frame" and delta > 0.0:
		decide(now, delta)
	if now >= 0 and link != null:
		if steps != last_frame_steps:
			link.tell(now, now / run["steps_per_s"])
		link.obey()
	last_frame_steps = steps


# Everybody's controller, called where the setting says.
func decide(now, period_s):
	for index in cars.size():
		cars[index].obey(drivers[index].step(cars[index], now / run["steps_per_s"], period_s))


func all_arrived():
	for index in cars.size():
		if not (link.arrived[index] if link != null else drivers[index].stopped):
			return false
	return true


func finish_if_over(tick):
	if run["last_tick"] > 0 and tick >= run["last_tick"]:
		finish("duration")
	elif run["end"] == "last-waypoint" and all_arrived():
		finish("arrived")
	elif run["end"] == "first-collision" and collided:
		finish("collision")
	elif tick >= run["ticks"]:
		finish("over")


func finish(reason):
	ended = true
	flush()
	print("F %d %d %d" % [frames, most_steps, most_drawn])
	print("E ", reason)
	get_tree().quit()


func fail(words, code):
	ended = true
	printerr("samepath: ", words)
	OS.exit_code = code
	get_tree().quit(code)


# So many ticks are written at once: where nobody waits for the wall clock, waking the reader for each would take as long as a step.
func write_state(now):
	states.put_u32(now)
	for car in cars:
		car.write(states)
	waiting += 1
	if waiting >= run["ticks_at_once"] or states.get_size() > MOST_BYTES:
		flush()


func flush():
	if waiting > 0:
		print("S ", Marshalls.raw_to_base64(states.data_array))
		states = StreamPeerBuffer.new()
		waiting = 0


# A car touches somebody or something; ``impulse`` is what it felt in the step that has just been done.
func touched(car, other, impulse):
	if ended or cars.empty() or other.has_meta("ground"):
		return
	collided = collided or since_start() > 0
	var out = StreamPeerBuffer.new()
	out.put_32(since_start())
	out.put_32(car.number)
	out.put_32(other.number if other is VehicleBody else -1)
	for value in [impulse.x, impulse.z, impulse.y]:
		out.put_float(value)
	flush()
	print("C ", Marshalls.raw_to_base64(out.data_array))
