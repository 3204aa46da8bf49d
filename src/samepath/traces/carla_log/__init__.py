"""CARLA's recorder files, read and written: a header, then frames of packets, little-endian.

The layout is CARLA's documented one (version 2, as of 0.9.16; version 1 is read too). On disk places are 32-bit floats in
centimetres and angles are roll, pitch, yaw; here they are metres, and poses have our order and names. Packets this module
has no use for are read past, as the format intends.
"""

from samepath.traces.carla_log.reader import Log, open_log
from samepath.traces.carla_log.records import (
    ActorKind,
    AddedActor,
    Attribute,
    Box,
    Content,
    Door,
    Frame,
    Hit,
    Kinematics,
    LightTimes,
    LogHeader,
    Parent,
    Placed,
    SignalLight,
    StreetLamp,
    VehicleInput,
    VehicleLights,
    WalkerInput,
)
from samepath.traces.carla_log.writer import LogWriter

__all__ = [
    "ActorKind",
    "AddedActor",
    "Attribute",
    "Box",
    "Content",
    "Door",
    "Frame",
    "Hit",
    "Kinematics",
    "LightTimes",
    "Log",
    "LogHeader",
    "LogWriter",
    "Parent",
    "Placed",
    "SignalLight",
    "StreetLamp",
    "VehicleInput",
    "VehicleLights",
    "WalkerInput",
    "open_log",
]
