"""Radio between actors: who hears whom, how strongly, and how much later.

*Power.* What arrives is the sender's power and the antennas' gain less the loss on the way and a normally distributed shadow
fading; below the receiver's sensitivity nothing is heard. Two models of the loss, with CARLA's names and defaults. ``winner``:
the WINNER+ formulas that ETSI TR 103 257-1 gives for roads, by scenario. ``geometric``: the two-ray ground reflection in sight,
a log-distance law behind buildings, free space behind vehicles. A vehicle in between adds the loss over a knife edge
(ITU-R P.526), by how far its roof is above the line of sight.

*Network.* CARLA's messages arrive in the tick in which they are sent. A profile adds what a network does: airtime on a shared
channel, latency with an exponential tail, and chance loss. The profiles are like DSRC (IEEE 802.11p), WiFi and 5G in their
magnitudes; they were chosen, not measured.

All chance comes from streams named by the receiver's seed, both sensors' ordinals and the number of the tick.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import numpy as np

from samepath.core.errors import InputError, unknown
from samepath.core.states import Vector
from samepath.core.streams import stream
from samepath.core.trig import PI, sincos
from samepath.core.trig_arrays import log
from samepath.simulator.sensors.sensor import (
    SEED,
    SENSOR_TICK,
    FlagAttribute,
    GivenAttributes,
    NumberAttribute,
    normals,
    read_attributes,
)

CAM_NAME: Final = "sensor.other.v2x"
CUSTOM_NAME: Final = "sensor.other.v2x_custom"
_LIGHT_MPS: Final = 299_792_458.0
# The relative permittivity of the ground, as CARLA has it.
_GROUND: Final = 1.02
IN_SIGHT, BUILDING, VEHICLE = "in sight", "behind a building", "behind a vehicle"
SCENARIOS: Final = ("highway", "rural", "urban")
MODELS: Final = ("winner", "geometric")
# ETSI TR 103 257-1, table 6, in dB; it has no rural values, for which CARLA takes the middle of the other two.
_FADING_DB: Final[Mapping[str, Mapping[str, float]]] = MappingProxyType(
    {
        IN_SIGHT: {"highway": 3.3, "rural": 4.25, "urban": 5.2},
        BUILDING: dict.fromkeys(SCENARIOS, 6.8),
        VEHICLE: {"highway": 3.8, "rural": 4.55, "urban": 5.3},
    }
)
RADIO: Final[Mapping[str, NumberAttribute | FlagAttribute]] = MappingProxyType(
    {
        "frequency_ghz": NumberAttribute(5.9, 0.01, 1000.0, "GHz"),
        "transmit_power": NumberAttribute(21.5, -200.0, 200.0, "dBm"),
        "receiver_sensitivity": NumberAttribute(-99.0, -300.0, 200.0, "dBm"),
        "combined_antenna_gain": NumberAttribute(10.0, -200.0, 200.0, "dBi"),
        "path_loss_exponent": NumberAttribute(2.7, 0.0, 20.0),
        "d_ref": NumberAttribute(1.0, 1e-3, 1e4, "m"),
        "filter_distance": NumberAttribute(500.0, 0.0, 1e5, "m"),
        "use_etsi_fading": FlagAttribute(default=True),
        "custom_fading_stddev": NumberAttribute(0.0, 0.0, 100.0, "dB"),
        "noise_seed": SEED,
        "sensor_tick": SENSOR_TICK,
    }
)


@dataclass(frozen=True, slots=True)
class NetworkProfile:
    """What a network does to a message. ``shared``: all who are heard share one channel's ``rate_bps``.

    The latency is ``least_s`` and an exponential tail of mean ``tail_s``. ``direct``: from antenna to antenna, so that what is
    too weak is not heard; else by way of base stations, which are everywhere.
    """

    name: str
    rate_bps: float
    least_s: float
    tail_s: float
    loss_ratio: float
    shared: bool
    direct: bool


NONE: Final = NetworkProfile("none", 0.0, 0.0, 0.0, 0.0, shared=False, direct=True)
PROFILES: Final[Mapping[str, NetworkProfile]] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            NONE,
            NetworkProfile("dsrc", 6e6, 0.002, 0.003, 0.01, shared=True, direct=True),
            NetworkProfile("wifi", 24e6, 0.005, 0.015, 0.02, shared=True, direct=True),
            NetworkProfile("5g", 100e6, 0.015, 0.005, 0.001, shared=False, direct=False),
        )
    }
)


class Link(NamedTuple):
    """The way from antenna to antenna. ``edges``: (distance from the sender, height above the line) of roofs in between."""

    distance_m: float
    sender_m: float
    receiver_m: float
    state: str
    edges: tuple[tuple[float, float], ...] = ()


def link_between(
    sender: Vector, receiver: Vector, ground_m: float, buildings: bool, roofs: tuple[tuple[float, float], ...]
) -> Link:
    """Return the link between two antennas; heights count from ``ground_m``, ``roofs`` are (part of the way, height)."""
    dx, dy, dz = (a - b for a, b in zip(receiver, sender, strict=True))
    distance_m = float(np.sqrt(dx * dx + dy * dy + dz * dz))
    edges = tuple((part * distance_m, top_m - (sender.z + part * dz)) for part, top_m in roofs)
    state = BUILDING if buildings else VEHICLE if edges else IN_SIGHT
    return Link(distance_m, sender.z - ground_m, receiver.z - ground_m, state, edges)


def _log10(value: float) -> float:
    return float(log(np.array([value]))[0]) / _LN10


_LN10: Final = float(log(np.array([10.0]))[0])


@dataclass(frozen=True, slots=True)
class Radio:
    """A radio with CARLA's attributes."""

    values: Mapping[str, float]
    scenario: str = "highway"
    model: str = "winner"
    profile: NetworkProfile = NONE

    @classmethod
    def from_attributes(cls, name: str, given: GivenAttributes) -> Self:
        """Build one from CARLA's attributes, text or numbers, and our ``network_profile``."""
        values = read_attributes(name, given, RADIO)
        scenario = _word(name, given, "scenario", SCENARIOS)
        model = _word(name, given, "path_loss_model", MODELS)
        return cls(values, scenario, model, PROFILES[_word(name, given, "network_profile", tuple(PROFILES))])

    @property
    def transmit_dbm(self) -> float:
        """What it sends with."""
        return self.values["transmit_power"]

    def loss_db(self, link: Link) -> float:
        """The loss on the way, without fading."""
        distance_m = max(link.distance_m, 0.1)
        frequency_ghz = self.values["frequency_ghz"]
        wave_m = _LIGHT_MPS / (frequency_ghz * 1e9)
        blocked_db = max((_edge_db(edge, distance_m, wave_m) for edge in link.edges), default=0.0)
        if self.model == "winner":
            if link.state == BUILDING:
                return 36.85 + 30.0 * _log10(distance_m) + 18.9 * _log10(frequency_ghz)
            if self.scenario == "highway":
                return 32.4 + 20.0 * _log10(distance_m) + 20.0 * _log10(frequency_ghz) + blocked_db
            return 38.77 + 16.7 * _log10(distance_m) + 18.2 * _log10(frequency_ghz) + blocked_db
        if link.state == BUILDING:
            reference_m = self.values["d_ref"]
            start_db = 20.0 * _log10(4.0 * PI * reference_m / wave_m)
            return start_db + 10.0 * self.values["path_loss_exponent"] * _log10(distance_m / reference_m)
        if link.state == VEHICLE:
            return 20.0 * _log10(4.0 * PI * distance_m / wave_m) + blocked_db
        return _two_ray_db(distance_m, link.sender_m, link.receiver_m, wave_m)

    def received_dbm(self, transmit_dbm: float, link: Link, normal: float) -> float | None:
        """The power that arrives; None where it is too far or too weak. ``normal`` is a draw of deviation 1."""
        if link.distance_m >= self.values["filter_distance"]:
            return None
        etsi = bool(self.values["use_etsi_fading"])
        deviation_db = _FADING_DB[link.state][self.scenario] if etsi else self.values["custom_fading_stddev"]
        power_dbm = transmit_dbm + self.values["combined_antenna_gain"] - self.loss_db(link) - deviation_db * normal
        if self.profile.direct and power_dbm < self.values["receiver_sensitivity"]:
            return None
        return power_dbm

    def chance(self, receiver: int, sender: int, tick: int) -> tuple[float, float, float]:
        """The draws for one message: a normal one for fading, uniform ones for loss and latency."""
        generator = stream(int(self.values["noise_seed"]), "v2x", receiver, sender, tick)
        normal = float(normals(generator, 1)[0])
        lost, late = generator.random(2).tolist()
        return normal, lost, late

    def arrives_s(self, now_s: float, busy_s: float, size_bytes: int, lost: float, late: float) -> tuple[float | None, float]:
        """When a message that is sent now arrives (None: never), and until when the channel is then busy."""
        profile = self.profile
        if not profile.rate_bps:
            return now_s, busy_s
        airtime_s = 8.0 * size_bytes / profile.rate_bps
        start_s = max(now_s, busy_s) if profile.shared else now_s
        # Who finds the channel busy for this long gives up: the next message is newer.
        if start_s - now_s > _PATIENCE_S:
            return None, busy_s
        sent_s = start_s + airtime_s
        if lost < profile.loss_ratio:
            return None, sent_s
        return sent_s + profile.least_s - profile.tail_s * float(log(np.array([1.0 - late]))[0]), sent_s


_PATIENCE_S: Final = 1.0


def _word(name: str, given: GivenAttributes, key: str, known: tuple[str, ...]) -> str:
    word = str(given.get(key, known[0]))
    if word not in known:
        raise unknown(f"{key} of {name}", word, known)
    return word


def _edge_db(edge: tuple[float, float], distance_m: float, wave_m: float) -> float:
    """The loss over a knife edge: ITU-R P.526, J(v) = 6.9 + 20 log10(sqrt((v - 0.1)^2 + 1) + v - 0.1)."""
    near_m = min(max(edge[0], 0.1), max(distance_m - 0.1, 0.1))
    far_m = max(distance_m - near_m, 0.1)
    v = edge[1] * float(np.sqrt(2.0 * (near_m + far_m) / (wave_m * near_m * far_m)))
    if v <= -0.78:
        return 0.0
    return 6.9 + 20.0 * _log10(float(np.sqrt((v - 0.1) ** 2 + 1.0)) + v - 0.1)


def _two_ray_db(distance_m: float, sender_m: float, receiver_m: float, wave_m: float) -> float:
    """The loss of a direct ray and one that the ground reflects."""
    ground_m = float(np.sqrt(max(distance_m**2 - (sender_m - receiver_m) ** 2, 1e-4)))
    bounced_m = float(np.sqrt(distance_m**2 + 4.0 * sender_m * receiver_m))
    sine, cosine = (sender_m + receiver_m) / bounced_m, ground_m / bounced_m
    root = float(np.sqrt(max(_GROUND - cosine * cosine, 0.0)))
    reflected = (sine - root) / (sine + root) if sine + root > 0.0 else -1.0
    phase_sine, phase_cosine = sincos(2.0 * PI / wave_m * (distance_m - bounced_m))
    field = float(np.sqrt((1.0 + reflected * phase_cosine) ** 2 + (reflected * phase_sine) ** 2))
    if field <= 0.0:
        raise InputError("two rays that cancel each other have no loss that can be said")
    return 20.0 * _log10(4.0 * PI * ground_m / wave_m / field)
