"""Pedestrians and props, as tables."""

from typing import Final

from samepath.sim.world.catalogue.records import PropType, WalkerType

# Height, radius (m), mass (kg); taken in turn.
_ADULTS: Final = ((1.75, 0.28, 75.0), (1.68, 0.26, 62.0), (1.82, 0.30, 88.0), (1.70, 0.27, 68.0), (1.60, 0.27, 70.0))
_CHILDREN: Final = ((1.20, 0.20, 28.0), (1.35, 0.21, 33.0), (1.10, 0.19, 22.0))
CHILD_NUMBERS: Final = frozenset({9, 10, 11, 12, 13, 14, 48, 49})
WALKER_COUNT: Final = 49


def _walker(number: int) -> WalkerType:
    sizes = _CHILDREN if number in CHILD_NUMBERS else _ADULTS
    return WalkerType(f"walker.pedestrian.{number:04d}", *sizes[(number - 1) % len(sizes)])


WALKERS: Final = tuple(_walker(number) for number in range(1, WALKER_COUNT + 1))

# Name, length, width, height (m), mass (kg; 0: fixed to the ground).
# fmt: off
_BOXES: Final[tuple[tuple[str, float, float, float, float], ...]] = (
    ("barrel", 0.6, 0.6, 0.95, 25.0), ("box01", 0.6, 0.4, 0.5, 8.0), ("streetbarrier", 1.2, 0.35, 1.0, 30.0),
    ("trafficcone01", 0.35, 0.35, 0.7, 4.0), ("bench01", 1.6, 0.6, 0.85, 0.0), ("container", 4.5, 2.4, 2.4, 0.0),
    ("advertisement", 1.3, 0.4, 2.4, 0.0), ("atm", 0.9, 0.7, 1.8, 0.0), ("barbeque", 1.1, 0.6, 1.0, 35.0),
    ("bench02", 1.6, 0.6, 0.85, 0.0), ("bench03", 1.8, 0.6, 0.85, 0.0), ("bike helmet", 0.3, 0.25, 0.2, 0.5),
    ("bin", 0.6, 0.6, 1.0, 20.0), ("box02", 0.5, 0.4, 0.4, 6.0), ("box03", 0.4, 0.3, 0.3, 4.0),
    ("briefcase", 0.45, 0.12, 0.35, 4.0), ("brokentile01", 0.4, 0.4, 0.05, 3.0), ("brokentile02", 0.4, 0.3, 0.05, 2.5),
    ("brokentile03", 0.3, 0.3, 0.05, 2.0), ("brokentile04", 0.3, 0.2, 0.05, 1.5), ("busstop", 4.0, 1.6, 2.6, 0.0),
    ("busstoplb", 4.0, 1.6, 2.6, 0.0), ("calibrator", 1.0, 0.1, 1.5, 12.0), ("chainbarrier", 1.6, 0.15, 1.0, 0.0),
    ("chainbarrierend", 0.2, 0.2, 1.0, 0.0), ("clothcontainer", 1.3, 1.2, 1.9, 0.0), ("clothesline", 2.0, 0.6, 1.1, 6.0),
    ("colacan", 0.07, 0.07, 0.12, 0.3), ("constructioncone", 0.45, 0.45, 0.9, 6.0), ("creasedbox01", 0.6, 0.5, 0.3, 2.0),
    ("creasedbox02", 0.5, 0.4, 0.3, 1.5), ("creasedbox03", 0.4, 0.4, 0.25, 1.0), ("dirtdebris01", 0.8, 0.6, 0.15, 15.0),
    ("dirtdebris02", 0.6, 0.5, 0.12, 10.0), ("dirtdebris03", 0.5, 0.4, 0.1, 6.0), ("doghouse", 1.1, 0.9, 1.0, 25.0),
    ("foodcart", 2.8, 1.6, 2.4, 350.0), ("fountain", 4.0, 4.0, 2.5, 0.0), ("garbage01", 0.4, 0.3, 0.15, 0.5),
    ("garbage02", 0.3, 0.3, 0.12, 0.4), ("garbage03", 0.3, 0.2, 0.1, 0.3), ("garbage04", 0.4, 0.3, 0.12, 0.4),
    ("garbage05", 0.25, 0.2, 0.1, 0.3), ("garbage06", 0.3, 0.25, 0.1, 0.3), ("gardenlamp", 0.2, 0.2, 0.6, 2.0),
    ("glasscontainer", 1.5, 1.5, 1.7, 0.0), ("gnome", 0.25, 0.25, 0.55, 4.0), ("guitarcase", 1.1, 0.4, 0.15, 7.0),
    ("haybale", 1.5, 1.2, 1.2, 250.0), ("haybalelb", 1.0, 0.5, 0.4, 20.0), ("ironplank", 2.0, 1.0, 0.05, 90.0),
    ("kiosk_01", 3.0, 2.2, 2.8, 0.0), ("mailbox", 0.6, 0.5, 1.3, 0.0), ("maptable", 1.2, 0.3, 1.9, 0.0),
    ("mesh", 1.0, 1.0, 1.0, 0.0), ("mobile", 0.15, 0.08, 0.05, 0.2), ("motorhelmet", 0.35, 0.28, 0.28, 1.5),
    ("pergola", 3.0, 3.0, 2.5, 0.0), ("plantpot01", 0.8, 0.8, 0.9, 60.0), ("plantpot02", 0.5, 0.5, 0.6, 25.0),
    ("plantpot03", 0.6, 0.6, 0.8, 35.0), ("plantpot04", 1.2, 0.5, 0.7, 70.0), ("plantpot05", 0.4, 0.4, 0.5, 12.0),
    ("plantpot06", 0.5, 0.5, 0.7, 20.0), ("plantpot07", 0.4, 0.4, 0.4, 10.0), ("plantpot08", 0.9, 0.9, 0.8, 70.0),
    ("plasticbag", 0.35, 0.25, 0.3, 0.5), ("plasticchair", 0.55, 0.55, 0.85, 3.0), ("plastictable", 0.9, 0.9, 0.72, 7.0),
    ("platformgarbage01", 1.6, 1.2, 0.5, 40.0), ("purse", 0.3, 0.12, 0.25, 1.0), ("shoppingbag", 0.35, 0.2, 0.4, 2.0),
    ("shoppingcart", 0.95, 0.6, 1.0, 20.0), ("shoppingtrolley", 0.4, 0.35, 1.0, 6.0), ("slide", 3.0, 0.8, 2.0, 0.0),
    ("streetfountain", 0.5, 0.5, 1.1, 0.0), ("streetsign", 0.6, 0.1, 2.6, 0.0), ("streetsign01", 0.6, 0.1, 2.6, 0.0),
    ("streetsign04", 0.6, 0.1, 2.6, 0.0), ("swing", 3.0, 1.6, 2.2, 0.0), ("swingcouch", 1.9, 1.2, 1.7, 30.0),
    ("table", 1.8, 0.8, 0.75, 25.0), ("trafficcone02", 0.4, 0.4, 0.75, 5.0), ("trafficwarning", 2.6, 1.6, 3.0, 600.0),
    ("trampoline", 3.0, 3.0, 0.9, 50.0), ("trashbag", 0.6, 0.5, 0.6, 5.0), ("trashcan01", 0.7, 0.6, 1.1, 20.0),
    ("trashcan02", 0.6, 0.6, 1.0, 15.0), ("trashcan03", 0.5, 0.5, 0.9, 0.0), ("trashcan04", 0.6, 0.5, 1.0, 15.0),
    ("trashcan05", 0.5, 0.4, 0.9, 0.0), ("travelcase", 0.5, 0.3, 0.75, 12.0), ("vendingmachine", 1.0, 0.9, 1.85, 0.0),
    ("warningaccident", 0.6, 0.5, 0.6, 3.0), ("warningconstruction", 0.9, 0.5, 1.1, 12.0), ("wateringcan", 0.4, 0.2, 0.35, 1.0),
)
# fmt: on

PROPS: Final = tuple(
    PropType(f"static.prop.{name}", length_m, width_m, height_m, mass_kg)
    for name, length_m, width_m, height_m, mass_kg in _BOXES
)
