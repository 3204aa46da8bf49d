# What there is to see, if anybody draws: the bodies that touch each other as boxes, ground, light, and a camera above the middle
# of everybody's tracks. Nothing of it is part of the physics.
extends Spatial

const GROUND_M = 400.0


func build(run, cars, boxes):
	var low = Vector3(INF, 0, INF)
	var high = Vector3(-INF, 0, -INF)
	for actor in run["actors"]:
		for point in actor["track"]:
			low = Vector3(min(low.x, point[0]), 0, min(low.z, point[1]))
			high = Vector3(max(high.x, point[0]), 0, max(high.z, point[1]))
	var middle = (low + high) / 2
	var reach_m = max(high.x - low.x, high.z - low.z)
	add_box(self, middle + Vector3(0, -0.05, 0), Vector3(GROUND_M, 0.1, GROUND_M), Color(0.35, 0.4, 0.35))
	for car in cars:
		add_shapes(car, Color(0.8, 0.2, 0.1) if car == cars[0] else Color(0.1, 0.3, 0.8))
	for box in boxes:
		add_shapes(box, Color(0.6, 0.6, 0.6))
	var light = DirectionalLight.new()
	add_child(light)
	light.look_at_from_position(Vector3(20, 40, 10), Vector3.ZERO, Vector3.UP)
	var camera = Camera.new()
	camera.far = 500
	add_child(camera)
	camera.look_at_from_position(middle + Vector3(0, reach_m * 0.7, reach_m * 0.7), middle, Vector3.UP)
	camera.current = true


# Show what a body touches others with.
func add_shapes(body, colour):
	for child in body.get_children():
		if child is CollisionShape:
			add_box(body, child.translation, child.shape.extents * 2, colour)


func add_box(parent, at, size, colour):
	var paint = SpatialMaterial.new()
	paint.albedo_color = colour
	var box = CubeMesh.new()
	box.size = size
	box.material = paint
	var shown = MeshInstance.new()
	shown.mesh = box
	shown.translation = at
	parent.add_child(shown)
