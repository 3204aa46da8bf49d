"""OpenDRIVE that is well-formed XML and nothing more: every element the reader knows, with extreme and contradictory content.

A document is made from ``(seed, number)`` alone, so that a failure names the one document to look at. Most are plausible: a map
with one odd number tests what lies behind the reader, and one with fifty only tests the first refusal. How many are odd is
drawn per document. Roads are short, because a thousand small maps find more than ten large ones; counts and lengths at their
bounds are rare, and there.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar
from xml.sax.saxutils import quoteattr

from samepath.core.streams import stream
from samepath.simulator.maps import checked_xml, opendrive
from samepath.simulator.maps.records import DRIVABLE_KINDS

# How many of a document's values are odd; None of them, in a third of the documents: then only their structure is.
ODD_SHARES: Final = (0.0, 0.002, 0.01, 0.05, 0.3)
# A document in so many has a count or a length at its bound, which takes a hundred times longer to build.
HUGE_IN: Final = 150

ODD_NUMBERS: Final = (
    "0", "-0", "-0.0", "1", "-1", "1e-9", "-1e-9", "1e-300", "5e-324", "-5e-324", "2.2250738585072014e-308", "1e-7", "1e-6",
    "1e3", "-1e3", "1e5", "1e7", "1e9", "-1e9", "1000000001", "1e18", "1.7976931348623157e308", "-1.7976931348623157e308",
    "1e309", "inf", "-Infinity", "nan", "-NaN", "", " ", "abc", "0x10", "1_0", "+5", " 5 ", "5,0", "1e", "--1", "\u0661\u0662",
    "\uff11", "\u00b2", "1" * 400, "0." + "0" * 400 + "1", "1;2", "1e-400",
)  # fmt: skip
ODD_WHOLES: Final = (
    "0", "-0", "1", "-1", "7", "100", "101", "-100", "-101", "2147483647", "-2147483647", "2147483648", "9" * 30, "9" * 5000,
    "1.0", "1e3", "", " 3 ", "+3", "0x3", "\u0663", "1_0", "nan", "none", "-2",
)  # fmt: skip
TEXTS: Final = (
    "", " ", "a", "-1", "0", "driving", "Stra\u00dfe", "\u9053\u8def", "\U0001f697", "\u202egnp", "e\u0301", "\ufeff",
    "x" * 3000, "../../etc/passwd", "<&>\"'", "a\tb", "a\nb", "%s%n{}", "1.000.001", "None", "\u2028", "Signal_3Light_Post01",
)  # fmt: skip
LANE_KINDS: Final = (
    *sorted(DRIVABLE_KINDS), "none", "sidewalk", "curb", "border", "restricted", "median", "biking", "tram", "rail", "special1",
    "Driving", "", "\u9053",
)  # fmt: skip
MARK_KINDS: Final = ("none", "solid", "broken", "solid solid", "solid broken", "broken broken", "botts dots", "grass", "")
OBJECT_KINDS: Final = (
    "none", "obstacle", "pole", "streetLamp", "tree", "vegetation", "barrier", "building", "crosswalk", "parkingSpace", "-1",
    "", "\U0001f333",
)  # fmt: skip
# What CARLA's reader, and ours, find signs and crossings by.
OBJECT_NAMES: Final = (
    "", "Speed_30", "speed_90", "Speed_", "Speed_0", "Speed_999", "Speed_STATIC_40", "SppedLimit40Assembly",
    "Speed_\u0663\u0660",
    "Speed_" + "9" * 400, "Stencil_STOP", "Stencil_STOPSpeed_30", "SimpleCrosswalk", "CROSSWALK" * 20, "-1",
)  # fmt: skip
VENDORS: Final = ("", "VectorZero", "vectorzero", "\u9053")
SIGNAL_KINDS: Final = ("1000001", "1000002", "1000011", "206", "205", "274", "294", "", "\u4ea4\u901a", "traffic light")
GEOREFERENCES: Final = (
    "", "+proj=tmerc +lat_0=0 +lon_0=0", "+proj=tmerc +lat_0=nan +lon_0=1e308", "+lat_0=91 +lon_0=-181", "+lat_0= +lon_0=",
    "+lat_0=1e999", "EPSG:25832", "\U0001f5fa" * 50, "+proj=utm +zone=32", "+lat_0=4.9e-324 +lon_0=--1",
)  # fmt: skip
UNKNOWN: Final = (
    "userData",
    "include",
    "dataQuality",
    "surface",
    "station",
    "junctionGroup",
    "bridge",
    "tunnel",
    "\u9053\u8def",
)


Drawn = TypeVar("Drawn")


class OpenDriveGrammar:
    """Makes one document; its numbers come from ``draws``, uniform in [0, 1)."""

    def __init__(self, draws: Iterator[float]) -> None:
        self._draws = draws
        self._odd_share = self._one_of(ODD_SHARES)
        self._huge = self._chance(1.0 / HUGE_IN)
        self._road_ids: list[str] = []
        self._junction_ids: list[str] = []

    # -- chance ------------------------------------------------------------------------------------------------------

    def _chance(self, share: float) -> bool:
        return next(self._draws) < share

    def _below(self, count: int) -> int:
        return int(next(self._draws) * count)

    def _one_of(self, found: Sequence[Drawn]) -> Drawn:
        return found[self._below(len(found))]

    def _odd(self) -> bool:
        return self._chance(self._odd_share)

    def _few(self, most: int) -> int:
        """A count, small ones more often than large ones."""
        return int(next(self._draws) ** 2 * (most + 1))

    def _count(self, most: int, huge: int) -> int:
        """A count; once in a huge document, in a random place, it is at its bound or just beyond."""
        if self._huge and self._chance(0.1):
            self._huge = False
            return huge
        return self._few(most)

    # -- attributes --------------------------------------------------------------------------------------------------

    def _number(self, low: float, high: float, bound: float = checked_xml.NUMBER_MAX) -> str:
        """A plausible number between ``low`` and ``high``, or an odd one: at its bound, just beyond, or anything."""
        if not self._odd():
            return f"{low + next(self._draws) * (high - low):.6g}"
        near = (bound, -bound, math.nextafter(bound, math.inf), -math.nextafter(bound, math.inf), bound * 0.999, 2.0 * bound)
        return repr(self._one_of(near)) if self._chance(0.5) else self._one_of(ODD_NUMBERS)

    def _zero_or(self, low: float, high: float) -> str:
        return "0" if self._chance(0.6) and not self._odd() else self._number(low, high)

    def _whole(self, usual: str) -> str:
        return self._one_of(ODD_WHOLES) if self._odd() else usual

    def _lane_id(self) -> str:
        """A lane of any side, there or not."""
        return self._whole(str(self._below(7) - 3))

    def _text(self, usual: str = "") -> str:
        return self._one_of(TEXTS) if self._chance(0.05) or self._odd() else usual

    def _word(self, usual: Sequence[str]) -> str:
        return self._one_of(TEXTS) if self._odd() else self._one_of(usual)

    def _element(self, tag: str, attributes: dict[str, str], inside: str = "") -> str:
        """An element; oddly, one of its attributes is missing, or something unknown stands in it."""
        if attributes and self._odd():
            attributes = {key: value for key, value in attributes.items() if self._chance(0.8)}
        if self._odd():
            inside += f"<{self._one_of(UNKNOWN)}/>"
        words = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
        return f"<{tag}{words}>{inside}</{tag}>" if inside else f"<{tag}{words}/>"

    def _repeated(self, make: Callable[[], str], most: int, huge: int) -> str:
        count = self._count(most, huge)
        # What is huge is one element over and over: the reader sees as many, and they are made in no time.
        return make() * count if count > most else "".join(make() for _ in range(count))

    def _cubics(self, tag: str, key: str, length_m: float, usual: tuple[float, float], most: int, at_least: int = 0) -> str:
        found = []
        for index in range(max(at_least, self._count(most, 3000))):
            start = "0" if index == 0 else self._number(0.0, length_m, length_m)
            powers = {power: self._zero_or(-0.05, 0.05) for power in "bcd"}
            found.append(self._element(tag, {key: start, "a": self._number(*usual, bound=100.0), **powers}))
        return "".join(found)

    # -- elements ----------------------------------------------------------------------------------------------------

    def document(self) -> str:
        """The whole file."""
        roads = 1 + self._few(3)
        self._road_ids = [self._whole(str(number)) for number in range(1, roads + 1)]
        self._junction_ids = [self._whole(str(100 + number)) for number in range(self._few(3))]
        parts = [self._header(), *(self._road(number) for number in self._road_ids)]
        parts += [self._junction(number) for number in self._junction_ids]
        parts += [self._controller() for _ in range(self._few(3))]
        if self._chance(0.02):
            parts = parts[self._below(len(parts)) :]  # no header, or no road
        if self._chance(0.02):
            depth = 1 + self._few(5000)
            parts.append("<userData>" * depth + "</userData>" * depth)
        if self._chance(0.05):
            parts.append("<!-- a --><?a b?>")
        space = ' xmlns="http://www.opendrive.org"' if self._chance(0.1) else ""
        return f'<?xml version="1.0" encoding="UTF-8"?><OpenDRIVE{space}>{"".join(parts)}</OpenDRIVE>'

    def _header(self) -> str:
        attributes = {"revMajor": self._whole("1"), "revMinor": self._whole("4"), "name": self._text()}
        attributes["vendor"] = self._word(VENDORS)
        if self._chance(0.3):
            attributes |= {
                side: self._number(-200.0, 200.0, opendrive.POSITION_MAX_M) for side in ("west", "south", "east", "north")
            }
        reference = f"<geoReference><![CDATA[{self._one_of(GEOREFERENCES)}]]></geoReference>" if self._chance(0.5) else ""
        return self._element("header", attributes, reference)

    def _length_m(self) -> float:
        """Of a road: short, tiny, or as long as is allowed."""
        if self._huge and self._chance(0.1):
            self._huge = False
            return self._one_of((opendrive.ROAD_MAX_M, 0.3 * opendrive.ROAD_MAX_M, 3000.0))
        if self._odd():
            return self._one_of((1e-12, 1e-7, 1e-6, 1e-3, 0.05, 0.1, 1.0, 19.999999, 20.0))
        # Vehicles are offered places on roads of 20 m and more.
        return (20.0 if self._chance(0.15) else 0.5) + 8.0 * next(self._draws)

    def _road(self, road_id: str) -> str:
        length_m = self._length_m()
        attributes = {
            "id": road_id,
            "length": self._number(length_m, length_m, opendrive.ROAD_MAX_M),
            "name": self._text("way"),
        }
        attributes["junction"] = (
            self._one_of(self._junction_ids) if self._junction_ids and self._chance(0.4) else self._whole("-1")
        )
        if self._odd():
            attributes["rule"] = self._one_of(("RHT", "LHT", ""))
        parts = [self._link(), self._repeated(lambda: self._road_type(length_m), 2, 2000), self._plan(length_m)]
        if self._chance(0.5):
            parts.append(f"<elevationProfile>{self._cubics('elevation', 's', length_m, (-2.0, 2.0), 3)}</elevationProfile>")
        if self._chance(0.2):
            zeros = dict.fromkeys("sabcd", "0") if not self._odd() else {key: self._number(-1.0, 1.0) for key in "sabcd"}
            banked = self._element(self._one_of(("superelevation", "crossfall", "shape")), zeros)
            parts.append(f"<lateralProfile>{banked if self._chance(0.5) else '<shape/>'}</lateralProfile>")
        parts.append(self._lanes(length_m))
        if self._chance(0.5):
            parts.append(f"<objects>{self._repeated(lambda: self._object(length_m), 4, 500)}</objects>")
        if self._chance(0.5):
            parts.append(f"<signals>{self._repeated(lambda: self._signal(length_m), 4, 500)}</signals>")
        if self._odd():
            parts.append(self._one_of(("<railroad/>", "<surface/>", "<lanes/>", "<planView/>", parts[self._below(len(parts))])))
        if self._odd():
            del parts[self._below(len(parts))]
        return self._element("road", attributes, "".join(parts))

    def _link(self) -> str:
        found = []
        for tag in ("predecessor", "successor"):
            if self._chance(0.5):
                is_junction = bool(self._junction_ids) and self._chance(0.5)
                to = self._one_of(self._junction_ids if is_junction else self._road_ids)
                attributes = {"elementType": "junction" if is_junction else self._word(("road",)), "elementId": self._whole(to)}
                if not is_junction or self._odd():
                    attributes["contactPoint"] = self._word(("start", "end"))
                found.append(self._element(tag, attributes))
        return f"<link>{''.join(found)}</link>" if self._chance(0.8) else ""

    def _road_type(self, length_m: float) -> str:
        return self._element("type", {"s": self._number(0.0, length_m, length_m + 1.0), "type": "town"}, self._speed())

    def _speed(self, key: str = "", length_m: float = 0.0) -> str:
        limit = self._one_of(("no limit", "undefined")) if self._chance(0.2) else self._number(0.0, 130.0, opendrive.SPEED_MAX)
        attributes = {"max": limit, "unit": self._word(("m/s", "mph", "km/h"))}
        if key:
            attributes[key] = self._number(0.0, length_m, length_m)
        return self._element("speed", attributes)

    def _plan(self, length_m: float) -> str:
        """Pieces that follow each other closely enough to be taken for a line, whatever they are."""
        pieces = 1 + self._count(3, 2000)
        piece_m = length_m / pieces
        x_m, y_m, heading_rad = (100.0 * next(self._draws) - 50.0 for _ in range(3))
        found = []
        for index in range(pieces):
            curve, turn_rad = self._curve(piece_m)
            attributes = {
                "s": repr(index * piece_m) if not self._odd() else self._number(0.0, length_m, opendrive.ROAD_MAX_M),
                "x": repr(x_m) if not self._odd() else self._number(-50.0, 50.0, opendrive.POSITION_MAX_M),
                "y": repr(y_m) if not self._odd() else self._number(-50.0, 50.0, opendrive.POSITION_MAX_M),
                "hdg": repr(heading_rad) if not self._odd() else self._number(-7.0, 7.0, opendrive.HEADING_MAX_RAD),
                "length": repr(piece_m) if not self._odd() else self._number(0.0, piece_m, opendrive.ROAD_MAX_M),
            }
            found.append(self._element("geometry", attributes, curve))
            # Along the chord of an arc; for the other curves this is a jump, most of them small enough to be allowed.
            x_m += piece_m * math.cos(heading_rad + 0.5 * turn_rad)
            y_m += piece_m * math.sin(heading_rad + 0.5 * turn_rad)
            heading_rad += turn_rad
        return f"<planView>{''.join(found)}</planView>"

    def _curve(self, length_m: float) -> tuple[str, float]:
        """A curve and about how far it turns."""
        kind = self._below(6)
        if kind <= 1:
            return "<line/>", 0.0
        sharp = min(opendrive.CURVATURE_MAX_PER_M, opendrive.TURN_MAX_RAD / max(length_m, 1e-9))
        usual = self._one_of((0.02, 0.2, 1.0)) if not self._odd() else sharp
        if kind == 2:
            curvature = (2.0 * next(self._draws) - 1.0) * usual
            written = repr(curvature) if not self._odd() else self._number(-usual, usual, sharp)
            return self._element("arc", {"curvature": written}), curvature * length_m
        if kind == 3:
            ends = {key: self._number(-usual, usual, sharp) for key in ("curvStart", "curvEnd")}
            return self._element("spiral", ends), 0.0
        if kind == 4:
            powers = {"a": self._zero_or(-1.0, 1.0)} | {power: self._zero_or(-0.3, 0.3) for power in "bcd"}
            return self._element("poly3", powers), 0.0
        spread = length_m * self._one_of((0.0, 0.1, 1.0))
        powers = {f"{power}{axis}": self._zero_or(-spread, spread) for power in "acd" for axis in "UV"}
        powers |= {"bU": self._number(length_m, length_m), "bV": self._zero_or(-spread, spread)}
        if self._chance(0.7):
            powers["pRange"] = self._word(("normalized", "arcLength"))
        return self._element("paramPoly3", powers), 0.0

    def _lanes(self, length_m: float) -> str:
        sections = 1 + self._count(2, 1000)
        starts_m = [length_m * index / sections for index in range(sections)]
        if self._odd():
            starts_m[self._below(sections)] = self._one_of((0.0, length_m, -1.0, 0.5 * length_m, math.nan))
        found = [self._section(start_m, length_m / sections) for start_m in starts_m[:5]]
        found += [
            self._section_of(
                start_m, '<right><lane id="-1" type="driving"><width sOffset="0" a="3" b="0" c="0" d="0"/></lane></right>'
            )
            for start_m in starts_m[5:]
        ]
        offsets = self._cubics("laneOffset", "s", length_m, (-2.0, 2.0), 2) if self._chance(0.4) else ""
        return f"<lanes>{offsets}{''.join(found)}</lanes>"

    def _section_of(self, start_m: float, sides: str) -> str:
        attributes = {"s": repr(start_m)}
        if self._odd():
            attributes["singleSide"] = self._one_of(("true", "false", "0"))
        return self._element("laneSection", attributes, f'<center><lane id="0" type="none"/></center>{sides}')

    def _section(self, start_m: float, length_m: float) -> str:
        sides = []
        for side, sign in (("left", 1), ("right", -1)):
            count = self._count(3, self._one_of((opendrive.LANE_ID_MAX, opendrive.LANE_ID_MAX + 1, 30)))
            if count:
                lanes = "".join(self._lane(self._whole(str(sign * number)), length_m) for number in range(1, count + 1))
                sides.append(f"<{side}>{lanes}</{side}>")
        if self._odd():
            sides.append(f"<center>{self._lane(self._lane_id(), length_m)}</center>")
        return self._section_of(start_m, "".join(sides))

    def _lane(self, lane_id: str, length_m: float) -> str:
        parts = []
        if self._chance(0.8):
            ends = (self._element(tag, {"id": self._lane_id()}) for tag in ("predecessor", "successor") if self._chance(0.7))
            parts.append(f"<link>{''.join(ends)}</link>")
        parts.append(
            self._cubics("width", "sOffset", length_m, self._one_of(((3.0, 4.0), (0.0, 0.0), (-1.0, 1.0), (0.0, 20.0))), 2, 1)
        )
        if self._chance(0.5):
            parts.append(self._repeated(lambda: self._mark(length_m), 2, 3000))
        if self._chance(0.2):
            parts.append(self._repeated(lambda: self._speed("sOffset", length_m), 2, 1000))
        if self._chance(0.2):
            parts.append(self._repeated(lambda: self._height(length_m), 2, 1000))
        if self._odd():
            parts.append(self._one_of(("<border/>", "<access/>", "<material/>")))
        return self._element("lane", {"id": lane_id, "type": self._word(LANE_KINDS), "level": "false"}, "".join(parts))

    def _mark(self, length_m: float) -> str:
        attributes = {"sOffset": self._number(0.0, length_m, length_m + opendrive.BESIDE_M), "type": self._word(MARK_KINDS)}
        attributes |= {"color": self._word(("standard", "white", "yellow", "red"))}
        if self._chance(0.7):
            attributes["width"] = self._number(0.0, 0.3, opendrive.MARK_WIDTH_MAX_M)
        return self._element("roadMark", attributes)

    def _height(self, length_m: float) -> str:
        ends = {end: self._number(-0.2, 0.2, opendrive.RAISED_MAX_M) for end in ("inner", "outer")}
        return self._element("height", {"sOffset": self._number(0.0, length_m, length_m), **ends})

    def _object(self, length_m: float) -> str:
        attributes = {
            "id": self._text("5"),
            "name": self._word(OBJECT_NAMES),
            "orientation": self._word(("+", "-", "none")),
            "type": self._word(OBJECT_KINDS),
            "s": self._number(0.0, length_m, length_m + opendrive.BESIDE_M),
            "t": self._number(-8.0, 8.0, opendrive.OFFSET_MAX_M),
            "zOffset": self._zero_or(-1.0, 1.0),
            "hdg": self._number(-7.0, 7.0, opendrive.HEADING_MAX_RAD),
        }
        for size in ("length", "width", "height", "radius"):
            if self._chance(0.6):
                attributes[size] = self._number(0.0, 8.0, opendrive.SIZE_MAX_M)
        inside = ""
        if self._chance(0.5):
            corners = self._repeated(lambda: self._corner(length_m), 6, self._one_of((1000, 1001)))
            inside = f"<outline>{corners}</outline>"
            if self._chance(0.3):
                inside = f"<outlines>{inside * self._few(2)}</outlines>"
        if self._chance(0.1):
            inside += self._one_of(("<repeat s='0'/>", "<material/>", "<parkingSpace access='all'/>", "<validity/>"))
        return self._element(self._one_of(("object",) * 9 + ("tunnel",)), attributes, inside)

    def _corner(self, length_m: float) -> str:
        if self._chance(0.5):
            attributes = {"s": self._number(-1.0, length_m + 1.0, length_m + opendrive.CORNER_BESIDE_M)}
            attributes |= {"t": self._number(-9.0, 9.0, opendrive.OFFSET_MAX_M), "dz": self._zero_or(-1.0, 1.0)}
            return self._element("cornerRoad", {**attributes, "height": self._zero_or(0.0, 4.0)})
        ends = {key: self._number(-4.0, 4.0, opendrive.SIZE_MAX_M) for key in "uv"}
        return self._element("cornerLocal", {**ends, "z": self._zero_or(-1.0, 1.0), "height": self._zero_or(0.0, 4.0)})

    def _signal(self, length_m: float) -> str:
        attributes = {
            "id": self._text(str(self._below(5))),
            "s": self._number(0.0, length_m, length_m + opendrive.BESIDE_M),
            "t": self._number(-8.0, 8.0, opendrive.OFFSET_MAX_M),
            "orientation": self._word(("+", "-", "none")),
        }
        lanes = self._repeated(
            lambda: self._element("validity", {"fromLane": self._lane_id(), "toLane": self._lane_id()}), 2, 1000
        )
        if self._chance(0.25):
            return self._element("signalReference", attributes, lanes)
        attributes |= {
            "name": self._text("Signal_3Light_Post01"),
            "dynamic": self._word(("yes", "no")),
            "zOffset": self._number(0.0, 5.0, opendrive.ELEVATION_MAX_M),
            "hOffset": self._number(-7.0, 7.0, opendrive.HEADING_MAX_RAD),
            "type": self._word(SIGNAL_KINDS),
            "subtype": self._text("-1"),
            "country": self._text("OpenDRIVE"),
            "value": self._one_of(("-1", "", "30"))
            if not self._odd()
            else self._number(0.0, 120.0, opendrive.SIGNAL_VALUE_MAX),
            "unit": self._text("km/h"),
            "height": self._number(0.0, 2.0, opendrive.SIGNAL_SIZE_MAX_M),
            "width": self._number(0.0, 2.0, opendrive.SIGNAL_SIZE_MAX_M),
        }
        return self._element("signal", attributes, lanes)

    def _junction(self, junction_id: str) -> str:
        """Ways from anywhere to anywhere: a junction's roads may lead into itself, or belong to another one."""
        inside = self._repeated(self._connection, 5, 2000)
        inside += "".join(self._element("controller", {"id": self._text(str(self._below(4)))}) for _ in range(self._few(2)))
        attributes = {"id": junction_id, "name": self._text()}
        if self._odd():
            attributes["type"] = self._one_of(("default", "virtual", ""))
        return self._element("junction", attributes, inside)

    def _connection(self) -> str:
        links = self._repeated(lambda: self._element("laneLink", {"from": self._lane_id(), "to": self._lane_id()}), 4, 2000)
        attributes = {"id": self._text("0"), "contactPoint": self._word(("start", "end"))}
        attributes |= {key: self._whole(self._one_of(self._road_ids)) for key in ("incomingRoad", "connectingRoad")}
        return self._element("connection", attributes, links)

    def _controller(self) -> str:
        signals = (
            self._element("control", {"signalId": self._text(str(self._below(5))), "type": ""}) for _ in range(self._few(4))
        )
        return self._element("controller", {"id": self._text(str(self._below(4))), "name": self._text()}, "".join(signals))


def opendrive_document(seed: int, number: int) -> str:
    """The document of this number under this seed."""
    return OpenDriveGrammar(_draws(seed, number)).document()


def _draws(seed: int, number: int) -> Iterator[float]:
    # In blocks: one number at a time costs a generator more than a document's text.
    generator = stream(seed, "opendrive", number)
    while True:
        yield from generator.random(256).tolist()
