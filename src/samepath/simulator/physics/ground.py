"""What wheels feel: everything that never moves, gathered into one mesh.

Nearly half of a tick with many vehicles is the rays of their wheels, four for each vehicle and substep. In the world's own tree
a ray first finds its way among hundreds of boxes, those of all vehicles and of every tree and house, and then among the
triangles of the ground. One mesh of all triangles has one tree, and wheels ask that: it takes a quarter less in ``town``.

What a ray meets is the same: the same triangles, with the same 32-bit corners, each tried by the same formula. Only the order
in which they are tried is another.
"""

import numpy as np
import rapier3d


def gathered(colliders: rapier3d.ColliderSet) -> rapier3d.PhysicsWorld:
    """A world of the scenery among ``colliders``, its meshes made one; what is hidden is left out.

    It follows from the scenery and the order in which it came, not from anything that has happened: a restored world has the
    very same one.
    """
    world = rapier3d.PhysicsWorld()
    corners, faces, count = [], [], 0
    at_home = rapier3d.Isometry3.identity()
    for handle in sorted(colliders.handles(), key=lambda handle: handle.index):
        fixed = colliders[handle]
        if fixed.parent is not None or not fixed.is_enabled:
            continue
        mesh = fixed.shape.as_trimesh()
        if mesh is None or not fixed.position.bitwise_equal(at_home):
            world.add_collider(rapier3d.Collider.new(fixed.shape).position(fixed.position))
            continue
        corners.append(mesh.vertices)
        faces.append(mesh.indices + np.uint32(count))
        count += len(mesh.vertices)
    if corners:
        world.add_collider(rapier3d.Collider.trimesh(np.concatenate(corners), np.concatenate(faces)))
    # Queries see what a world had when it last looked for contacts.
    world.detect_collisions()
    world.update_query_pipeline()
    return world
