"""Batches: many commands in one call, one after the other, and a tick at the end if asked for."""

from typing import Final

from samepath.core.errors import SamepathError
from samepath.simulator.carla.codec import NOT_SUPPORTED, CallError, flag
from samepath.simulator.carla.records import ActorCommand, BatchCommand, BrokenCommand, ConsoleCommand, SpawnCommand, batch
from samepath.simulator.server.episode import Episode
from samepath.simulator.server.methods import actors, vehicles
from samepath.simulator.server.methods import scenery as signals
from samepath.simulator.server.methods.table import Table
from samepath.simulator.server.rpc import Sender
from samepath.simulator.server.ticking import spawn, step_of, tick

TABLE: Final = Table()
_METHODS: Final = {method.name: method for table in (actors, signals, vehicles) for method in table.TABLE}


@TABLE.bare(batch, flag, sender=True)
def apply_batch(episode: Episode, sender: Sender, commands: tuple[BatchCommand, ...], do_tick: bool) -> list[object]:
    """Do all commands; one answer each. What fails does not stop the rest."""
    answers = [_answer(episode, sender, command) for command in commands]
    if do_tick and episode.settings.synchronous_mode:
        tick(episode, step_of(episode))
    return answers


def _answer(episode: Episode, sender: Sender, command: BatchCommand) -> object:
    try:
        return ((1, _do(episode, sender, command)),)
    except SamepathError as error:
        return ((0, (str(error),)),)


def _do(episode: Episode, sender: Sender, command: BatchCommand) -> int:
    """Do one command and return the actor it was for."""
    if isinstance(command, ActorCommand):
        _METHODS[command.method].call(episode, sender, (command.actor, *command.arguments))
        return command.actor
    if isinstance(command, SpawnCommand):
        entry = spawn(episode, command.description, command.transform, command.parent or 0)
        for after in command.do_after:
            # As in CARLA what follows a spawn has no answer of its own.
            _answer(episode, sender, after._replace(actor=entry.id) if isinstance(after, ActorCommand) else after)
        return entry.id
    if isinstance(command, ConsoleCommand):
        raise CallError(f"{NOT_SUPPORTED}: console commands, there is no console")
    raise CallError(command.message if isinstance(command, BrokenCommand) else "unknown command")
