"""Scenarios as engines need them: who there is, where everybody starts, where they go and how they are driven.

``read_script`` gives plain frozen records, ``mind_of`` somebody who drives one of the actors from outside an engine, and
``document`` the same as versioned JSON, for programs in other languages.
"""

from samepath.simulators.scripts.document import FORMAT, VERSION, document, to_json
from samepath.simulators.scripts.driving import (
    STANDING,
    WAITING,
    Driver,
    Mind,
    Seen,
    Stroller,
    VehicleCommand,
    WalkerCommand,
    brake_force_n,
    drive_force_n,
    mind_of,
    scripted_chassis,
)
from samepath.simulators.scripts.reading import moved, read_script, script_names
from samepath.simulators.scripts.records import Body, Box, Chassis, Driving, Place, Point, Role, Script, Wheels

__all__ = [
    "FORMAT",
    "STANDING",
    "VERSION",
    "WAITING",
    "Body",
    "Box",
    "Chassis",
    "Driver",
    "Driving",
    "Mind",
    "Place",
    "Point",
    "Role",
    "Script",
    "Seen",
    "Stroller",
    "VehicleCommand",
    "WalkerCommand",
    "Wheels",
    "brake_force_n",
    "document",
    "drive_force_n",
    "mind_of",
    "moved",
    "read_script",
    "script_names",
    "scripted_chassis",
    "to_json",
]
