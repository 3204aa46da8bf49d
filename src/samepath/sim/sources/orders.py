"""Orders that nobody fixed: of a hash table (``hash-order``, Section IV-F) and of completion (``load-order``, IV-E)."""

import itertools
import zlib
from collections.abc import Callable, Sequence
from threading import Barrier, Thread
from typing import Final, TypeVar

import numpy as np

from samepath.sim.maps import Mesh, load_map
from samepath.sim.scenarios.model import ActorSpec
from samepath.sim.scenarios.simulation import merged
from samepath.sim.world.world import StaticMesh

LOADERS: Final = 4
ASSET_BYTES: Final = 4 << 20
One = TypeVar("One")
Packed = TypeVar("Packed")


def hash_order(actors: tuple[ActorSpec, ...]) -> Sequence[ActorSpec]:
    """Return actors as a set of their names gives them out.

    Python salts the hash of a string once per process: within a process the order repeats, in a fresh one it may not, unless
    PYTHONHASHSEED is set. Ids stay as in the scenario; it is the physics engine that meets the bodies in another order.
    """
    named = {f"{actor.type} {actor.id}": actor for actor in actors}
    return [named[name] for name in set(named)]


def loaded_actors(actors: tuple[ActorSpec, ...]) -> Sequence[ActorSpec]:
    """Return actors in the order in which several threads have unpacked and read them.

    An actor is packed with blanks up to 4 MiB, about the size of a vehicle's meshes and textures.
    """
    packed = [zlib.compress(actor.model_dump_json().encode().ljust(ASSET_BYTES)) for actor in actors]
    return in_order_of_completion(packed, lambda one: ActorSpec.model_validate_json(zlib.decompress(one).rstrip()))


def loaded_statics(map_name: str) -> tuple[StaticMesh, ...]:
    """Return a map's meshes, merged in the order in which several threads have unpacked them."""
    if map_name == "flat":
        return ()
    packed = [(mesh, zlib.compress(mesh.vertices.tobytes())) for mesh in load_map(map_name).meshes]
    return merged(in_order_of_completion(packed, _unpacked))


def _unpacked(one: tuple[Mesh, bytes]) -> Mesh:
    mesh, packed = one
    points = np.frombuffer(zlib.decompress(packed), mesh.vertices.dtype).reshape(mesh.vertices.shape)
    if not np.isfinite(points).all():
        raise ValueError(f"mesh {mesh.name} has a vertex that is no number")
    return mesh


def in_order_of_completion(items: Sequence[Packed], load: Callable[[Packed], One]) -> list[One]:
    """Load with several threads that begin together; return what they loaded, first come, first served."""
    indices, done, errors = itertools.count(), list[One](), list[Exception]()
    begin = Barrier(LOADERS)

    def work() -> None:
        begin.wait()
        try:
            while (index := next(indices)) < len(items):
                done.append(load(items[index]))
        except Exception as error:  # raised again in the caller's thread
            errors.append(error)

    threads = [Thread(target=work, name=f"loader {number}") for number in range(LOADERS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if errors:
        raise errors[0]
    return done
