"""Contacts: from Rapier's forces in each substep to one impulse per pair and tick."""

from typing import Any, Final

from samepath.sim.physics.frames import Triple

# Tags of colliders: an actor's id, the ground, or scenery by its number beyond this bit.
GROUND: Final = 0
SCENERY_BIT: Final = 1 << 40


class ContactSum:
    """Sums the impulses of a tick per pair of tags, the lower one first; touching the ground does not count."""

    def __init__(self, events: Any, colliders: Any) -> None:  # noqa: ANN401 - Rapier's own objects
        self._events = events
        self._colliders = colliders
        self._sums: dict[tuple[int, int], list[float]] = {}

    def add(self, dt_s: float) -> None:
        """Add what one substep of ``dt_s`` reported; sorted, because threads may report in any order."""
        if not len(self._events):
            return
        forces = self._events.drain_contact_force_events()
        self._events.drain_collision_events()
        found = []
        for event in forces:
            a = int(self._colliders[event.collider1].user_data)
            b = int(self._colliders[event.collider2].user_data)
            if GROUND in (a, b):
                continue
            total = event.total_force
            # Rapier's force acts on the second collider; ours on the lower tag.
            sign = 1.0 if a > b else -1.0
            found.append((min(a, b), max(a, b), sign * total.x, sign * total.y, sign * total.z))
        for a, b, x, y, z in sorted(found):
            impulse = self._sums.setdefault((a, b), [0.0, 0.0, 0.0])
            impulse[0] += x * dt_s
            impulse[1] += y * dt_s
            impulse[2] += z * dt_s

    def totals(self) -> list[tuple[tuple[int, int], Triple]]:
        """Return the pairs and the impulses in N s that act on their first members, in order."""
        return [(pair, (x, y, z)) for pair, (x, y, z) in sorted(self._sums.items())]
