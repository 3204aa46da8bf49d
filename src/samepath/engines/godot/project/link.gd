# The controllers are another process: after every frame with a physics step it is told where everybody is, by UDP on loopback,
# and the latest of what it has answered is obeyed. Nobody waits for anybody, except before the run.
extends Reference

const HELLO = 0xFFFFFFFF
const LONGEST_MS = 20000

var socket = PacketPeerUDP.new()
var cars = []
var arrived = []
var latest = -1


func open(port, of_cars):
	cars = of_cars
	for car in cars:
		arrived.append(false)
	if socket.connect_to_host("127.0.0.1", port) != OK:
		return false
	var since_ms = OS.get_ticks_msec()
	while socket.get_available_packet_count() == 0:
		if OS.get_ticks_msec() - since_ms > LONGEST_MS:
			return false
		tell(HELLO, 0.0)
		OS.delay_msec(10)
	while socket.get_available_packet_count() > 0:
		socket.get_packet()
	return true


func tell(now, time_s):
	var out = StreamPeerBuffer.new()
	out.put_u32(now)
	out.put_double(time_s)
	for car in cars:
		var at = car.transform.origin
		var forward = car.transform.basis.z
		for value in [at.x, at.z, forward.x, forward.z, car.linear_velocity.x, car.linear_velocity.z]:
			out.put_float(value)
	socket.put_packet(out.data_array)


func obey():
	while socket.get_available_packet_count() > 0:
		var answer = StreamPeerBuffer.new()
		answer.data_array = socket.get_packet()
		if answer.get_size() != 4 + 25 * cars.size():
			continue
		var of = answer.get_u32()
		if of == HELLO or of < latest:
			continue
		latest = of
		for index in cars.size():
			var command = [answer.get_double(), answer.get_double(), answer.get_double()]
			arrived[index] = answer.get_u8() != 0
			cars[index].obey(command)
