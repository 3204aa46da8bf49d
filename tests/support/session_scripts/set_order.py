from drive import connect, spawn

client, world = connect()
cars = {}
for place, name in enumerate(("anna", "bert", "carl", "dora", "emil", "frida")):
    cars[name] = spawn(world, place)
for name in ("anna", "bert", "carl", "dora", "emil", "frida"):
    cars[name].set_simulate_physics(True)
    world.tick()
