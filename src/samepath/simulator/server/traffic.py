"""Traffic of our own in a served world: who it is, and what they do in a tick.

It comes with the first tick that a client asks for in synchronous mode, behind whatever clients have put there before, and all
lights then begin anew. Before that, time passes by the wall clock, and how much of it passed must leave no trace. In
asynchronous mode it comes when a client has put its first actor there: from then on the wall clock counts anyway.

It goes on like any script of a client would: through commands to actors that clients see, may sense, and may destroy. Nobody
else can drive them: the traffic's word is said anew at every tick. Its waiting times are counted in ticks of the usual length.
"""

from samepath.core.errors import InputError
from samepath.core.states import Vector, VehicleCommand
from samepath.simulator.carla.records import VehicleControl, WalkerControl
from samepath.simulator.server.actors import VehicleEntry, WalkerEntry
from samepath.simulator.server.episode import DEFAULT_STEP_S, Episode
from samepath.simulator.traffic.traffic import Newcomer, Traffic, newcomers


def traffic_of(episode: Episode) -> Traffic | None:
    """Who decides for the traffic of an episode; nobody where none is wanted."""
    wanted = episode.context.traffic
    return None if wanted is None else Traffic(episode.map.road_map, wanted, DEFAULT_STEP_S)


def beginners(episode: Episode) -> tuple[Newcomer, ...]:
    """Who is to be put into the world; on a map that has no room for them nobody, and the log says why."""
    wanted = episode.context.traffic
    if wanted is None:
        return ()
    taken = [(state.pose.x_m, state.pose.y_m) for state in episode.world.states().values()]
    try:
        return newcomers(episode.map.road_map, wanted, taken)
    except InputError as error:
        episode.context.log(f"no traffic on map {episode.map.name}: {error}")
        return ()


def command_traffic(episode: Episode, traffic: Traffic) -> None:
    """Tell every actor of the traffic what to do in the tick that begins."""
    world, actors = episode.world, episode.actors
    types = {actor.id: actor.type for actor in world.actors}
    for number, command in traffic.decide(world.states(), types, episode.signals.shown()).items():
        entry = actors.find(number)
        if isinstance(command, VehicleCommand) and isinstance(entry, VehicleEntry):
            entry.control = VehicleControl(command.throttle, command.steer, command.brake)
        elif isinstance(entry, WalkerEntry) and not isinstance(command, VehicleCommand):
            entry.control = WalkerControl(Vector(command.direction_x, command.direction_y), command.speed_mps)
        else:
            continue
        world.apply(number, command)
        actors.rewrite(entry)
