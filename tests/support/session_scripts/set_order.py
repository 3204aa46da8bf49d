from drive import connect, spawn

client, world = connect()
names = {"anna", "bert", "carl", "dora", "emil", "frida"}
cars = {name: spawn(world, place) for place, name in enumerate(sorted(names))}
for name in names:
    cars[name].set_simulate_physics(True)
    world.tick()
