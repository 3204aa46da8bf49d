"""Write our own OpenDRIVE: arms, connecting roads and junctions, as text that is the same on every machine.

Numbers are written with twelve decimals: finer than anything that is driven on, coarser than the last bit of a sine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LANE_WIDTH_M: Final = 3.5
SIDEWALK_WIDTH_M: Final = 2.0
KERB_M: Final = 0.125
DEFAULT_SPEED: Final = 'max="30" unit="mph"'
GEOREFERENCE: Final = "+proj=tmerc +lat_0=51.4545 +lon_0=-2.5879 +k=1 +x_0=0 +y_0=0 +datum=WGS84 +units=m"


def number(value: float) -> str:
    """A number with at most twelve decimals, without trailing zeros."""
    text = f"{value:.12f}".rstrip("0").rstrip(".")
    # A zero whose sign hangs on the last bit of a sine would make another text, and another digest of the map.
    return "0" if text == "-0" else text


@dataclass(frozen=True, slots=True)
class PlanPiece:
    """A line (curvature 0) or an arc of a plan view."""

    length_m: float
    curvature_per_m: float


@dataclass(frozen=True, slots=True)
class RoadEnd:
    """Where a road meets a junction: the road and which of its ends, in the words of OpenDRIVE."""

    road_id: int
    contact: str
    lanes: int = 1

    @property
    def lane_in(self) -> int:
        """The inner driving lane into the junction; further out come ``lanes - 1`` more and the sidewalk."""
        return 1 if self.contact == "start" else -1

    @property
    def lane_out(self) -> int:
        """The inner driving lane out of the junction."""
        return -self.lane_in


@dataclass(frozen=True, slots=True)
class Turn:
    """A connecting road as its junction knows it: where it comes from, on which lane (1: the inner), with a sidewalk or not."""

    road_id: int
    start: RoadEnd
    sidewalk: bool
    lane: int = 1


def geometry(x_m: float, y_m: float, heading_rad: float, pieces: Sequence[PlanPiece]) -> tuple[list[str], float]:
    """The lines of a ``<planView>`` and its length."""
    lines = ["  <planView>"]
    s_m = 0.0
    for piece in pieces:
        # As it is written: the next piece begins where a reader of the file finds the end of this one.
        length_m = round(piece.length_m, 12)
        shape = "<line/>" if piece.curvature_per_m == 0.0 else f'<arc curvature="{number(piece.curvature_per_m)}"/>'
        place = f's="{number(s_m)}" x="{number(x_m)}" y="{number(y_m)}" hdg="{number(heading_rad)}" length="{number(length_m)}"'
        lines.append(f"   <geometry {place}>{shape}</geometry>")
        half = 0.5 * piece.curvature_per_m * length_m
        chord_m = length_m * (math.sin(half) / half if half else 1.0)
        x_m += chord_m * math.cos(heading_rad + half)
        y_m += chord_m * math.sin(heading_rad + half)
        heading_rad = math.remainder(heading_rad + 2.0 * half, math.tau)
        s_m = round(s_m + length_m, 12)
    return [*lines, "  </planView>"], s_m


def speed(kmph: int) -> str:
    """A speed limit as attributes."""
    return f'max="{kmph}" unit="km/h"'


def link(tag: str, end: RoadEnd | int | None) -> str:
    """A road's link to another road's end, a junction's id, or nothing."""
    if end is None:
        return ""
    if isinstance(end, int):
        return f'<{tag} elementType="junction" elementId="{end}"/>'
    return f'<{tag} elementType="road" elementId="{end.road_id}" contactPoint="{end.contact}"/>'


def lane(
    lane_id: int, kind: str, mark: str, before: int | None = None, after: int | None = None, change: str = "none"
) -> list[str]:
    """One lane; sidewalks are raised by the kerb. ``change``: who may cross its outer line."""
    width_m = SIDEWALK_WIDTH_M if kind == "sidewalk" else LANE_WIDTH_M
    links = "".join(
        f'<{tag} id="{target}"/>' for tag, target in (("predecessor", before), ("successor", after)) if target is not None
    )
    painted = f'<roadMark sOffset="0" type="{mark}" weight="standard" color="white" width="0.12" laneChange="{change}"/>'
    height = f'<height sOffset="0" inner="{number(KERB_M)}" outer="{number(KERB_M)}"/>' if kind == "sidewalk" else ""
    width = "" if lane_id == 0 else f'<width sOffset="0" a="{number(width_m)}" b="0" c="0" d="0"/>'
    body = f"<link>{links}</link>{width}{painted}{height}"
    return [f'     <lane id="{lane_id}" type="{kind}" level="false">{body}</lane>']


def road(
    road_id: int,
    name: str,
    junction_id: int,
    links: tuple[str, str],
    plan: tuple[list[str], float],
    lanes: tuple[list[str], list[str], list[str]],
    objects: Sequence[str] = (),
    signals: Sequence[str] = (),
    limit: str = DEFAULT_SPEED,
) -> list[str]:
    """A whole road; ``lanes`` are left, centre and right."""
    view, length_m = plan
    left, middle, right = lanes
    result = [
        f' <road name="{name}" length="{number(length_m)}" id="{road_id}" junction="{junction_id}">',
        f"  <link>{links[0]}{links[1]}</link>",
        f'  <type s="0" type="town"><speed {limit}/></type>',
        *view,
        '  <elevationProfile><elevation s="0" a="0" b="0" c="0" d="0"/></elevationProfile>',
        "  <lateralProfile/>",
        "  <lanes>",
        '   <laneOffset s="0" a="0" b="0" c="0" d="0"/>',
        '   <laneSection s="0">',
    ]
    for side, lines in (("left", left), ("center", middle), ("right", right)):
        if lines:
            result.extend([f"    <{side}>", *lines, f"    </{side}>"])
    result.extend(["   </laneSection>", "  </lanes>"])
    if objects:
        result.extend(["  <objects>", *objects, "  </objects>"])
    if signals:
        result.extend(["  <signals>", *signals, "  </signals>"])
    return [*result, " </road>"]


def arm(
    road_id: int,
    name: str,
    start: int,
    end: int | None,
    plan: tuple[list[str], float],
    objects: Sequence[str] = (),
    signals: Sequence[str] = (),
) -> list[str]:
    """A two-way street from junction ``start`` to junction ``end`` or to nowhere."""
    left = [*lane(2, "sidewalk", "none"), *lane(1, "driving", "none")]
    middle = lane(0, "none", "broken")
    right = [*lane(-1, "driving", "none"), *lane(-2, "sidewalk", "none")]
    links = (link("predecessor", start), link("successor", end))
    return road(road_id, name, -1, links, plan, (left, middle, right), objects, signals)


def street(
    road_id: int,
    name: str,
    ends: tuple[RoadEnd | int, RoadEnd | int],
    plan: tuple[list[str], float],
    lanes: int,
    speed_kmph: int,
    objects: Sequence[str] = (),
    signals: Sequence[str] = (),
) -> list[str]:
    """A two-way street of one or two lanes each way between junctions, or between the ends of other streets."""
    before, after = (isinstance(end, RoadEnd) for end in ends)

    def side(sign: int) -> list[str]:
        rows = []
        for number in range(1, lanes + 2):
            own = sign * number
            links = (own if before else None, own if after else None)
            if number > lanes:
                rows.append(lane(own, "sidewalk", "none", *links))
            elif number < lanes:
                rows.append(lane(own, "driving", "broken", *links, change="both"))
            else:
                rows.append(lane(own, "driving", "none", *links))
        return [line for row in (rows[::-1] if sign > 0 else rows) for line in row]

    middle = lane(0, "none", "broken" if lanes == 1 else "solid solid")
    links = (link("predecessor", ends[0]), link("successor", ends[1]))
    return road(road_id, name, -1, links, plan, (side(1), middle, side(-1)), objects, signals, speed(speed_kmph))


def turn(
    road_id: int,
    junction_id: int,
    ends: tuple[RoadEnd, RoadEnd],
    plan: tuple[list[str], float],
    *,
    sidewalk: bool,
    lanes: tuple[int, int] = (1, 1),
    speed_kmph: int | None = None,
) -> list[str]:
    """A connecting road with one driving lane, and the sidewalk that follows the kerb where there is one."""
    start, end = ends
    right = lane(-1, "driving", "none", lanes[0] * start.lane_in, lanes[1] * end.lane_out)
    if sidewalk:
        right += lane(-2, "sidewalk", "none", (start.lanes + 1) * start.lane_in, (end.lanes + 1) * end.lane_out)
    links = (link("predecessor", start), link("successor", end))
    limit = DEFAULT_SPEED if speed_kmph is None else speed(speed_kmph)
    name = f"turn {start.road_id}-{end.road_id}"
    return road(road_id, name, junction_id, links, plan, ([], lane(0, "none", "none"), right), limit=limit)


def junction(junction_id: int, name: str, turns: Sequence[Turn], controllers: Sequence[int] = ()) -> list[str]:
    """A junction of turns and of the controllers that switch its lights, in the order of their phases."""
    result = [f' <junction id="{junction_id}" name="{name}" type="default">']
    for index, turning in enumerate(turns):
        start = turning.start
        links = f'<laneLink from="{turning.lane * start.lane_in}" to="-1"/>'
        if turning.sidewalk:
            links += f'<laneLink from="{(start.lanes + 1) * start.lane_in}" to="-2"/>'
        ways = f'incomingRoad="{start.road_id}" connectingRoad="{turning.road_id}" contactPoint="start"'
        result.append(f'  <connection id="{index}" {ways}>{links}</connection>')
    result.extend(
        f'  <controller id="{controller_id}" type="0" sequence="{place}"/>' for place, controller_id in enumerate(controllers)
    )
    return [*result, " </junction>"]


def controller(controller_id: int, name: str, signals: Sequence[int]) -> list[str]:
    """Traffic lights that change together."""
    controls = [f'  <control signalId="{signal_id}" type="0"/>' for signal_id in signals]
    return [f' <controller id="{controller_id}" name="{name}" sequence="0">', *controls, " </controller>"]


def crossing(object_id: int, s_m: float, lanes: int = 1) -> str:
    """A zebra crossing over all lanes, 3 m wide."""
    half_m = lanes * LANE_WIDTH_M
    corners = ((-1.5, -half_m), (1.5, -half_m), (1.5, half_m), (-1.5, half_m), (-1.5, -half_m))
    outline = "".join(f'<cornerLocal u="{number(u)}" v="{number(v)}" z="0"/>' for u, v in corners)
    size = f'length="3" width="{number(2 * half_m)}"'
    return f"   {_object(object_id, 'zebra', 'crosswalk', s_m, 0.0, size)}<outline>{outline}</outline></object>"


def thing(object_id: int, kind: str, s_m: float, t_m: float, size: str) -> str:
    """A building, pole, tree or the like; ``size`` holds its measures as attributes."""
    return f"   {_object(object_id, kind, kind, s_m, t_m, size)}</object>"


def painted_disc(object_id: int, u_m: float, radius_m: float, sides: int = 24) -> str:
    """A painted disc ``u_m`` along the road from its start."""
    angles = [math.tau * i / sides for i in range(sides)]
    corners = [(u_m + radius_m * math.cos(a), radius_m * math.sin(a)) for a in angles]
    outline = "".join(f'<cornerLocal u="{number(u)}" v="{number(v)}" z="0"/>' for u, v in corners)
    head = _object(object_id, "mini-roundabout island", "patch", 0.0, 0.0, f'radius="{number(radius_m)}"')
    return f"   {head}<outline>{outline}</outline></object>"


def solid_disc(object_id: int, name: str, u_m: float, radius_m: float, height_m: float, sides: int = 12) -> str:
    """An obstacle like a drum ``u_m`` along the road from its start."""
    angles = [math.tau * i / sides for i in range(sides)]
    corners = [(u_m + radius_m * math.cos(a), radius_m * math.sin(a)) for a in angles]
    height = f'height="{number(height_m)}"'
    outline = "".join(f'<cornerLocal u="{number(u)}" v="{number(v)}" z="0" {height}/>' for u, v in corners)
    head = _object(object_id, name, "obstacle", 0.0, 0.0, f'radius="{number(radius_m)}" {height}')
    return f"   {head}<outline>{outline}</outline></object>"


def _object(object_id: int, name: str, kind: str, s_m: float, t_m: float, size: str) -> str:
    place = f's="{number(s_m)}" t="{number(t_m)}" zOffset="0" validLength="0" orientation="none" hdg="0" pitch="0" roll="0"'
    return f'<object id="{object_id}" name="{name}" type="{kind}" {place} {size}>'


def give_way(signal_id: int, s_m: float, t_m: float) -> str:
    """A give-way sign for the traffic against the direction of the road."""
    return signal(signal_id, "give way", "205", s_m, t_m, (1, 1))


def signal(
    signal_id: int,
    name: str,
    kind: str,
    s_m: float,
    t_m: float,
    lanes: tuple[int, int],
    *,
    value: str = "-1",
    unit: str = "",
    light: bool = False,
) -> str:
    """A sign or traffic light for ``lanes`` (from, to); positive lanes run against the direction of the road."""
    against = "-" if lanes[0] > 0 else "+"
    place = f's="{number(s_m)}" t="{number(t_m)}" zOffset="2.1" orientation="{against}" hOffset="0" pitch="0" roll="0"'
    size = 'height="0.9" width="0.35"' if light else 'height="0.75" width="0.75"'
    what = f'country="OpenDRIVE" type="{kind}" subtype="-1" value="{value}" unit="{unit}" text="" {size}'
    validity = f'<validity fromLane="{lanes[0]}" toLane="{lanes[1]}"/>'
    dynamic = "yes" if light else "no"
    return f'   <signal id="{signal_id}" name="{name}" dynamic="{dynamic}" {place} {what}>{validity}</signal>'


def document(name: str, box: tuple[float, float, float, float], parts: Sequence[list[str]]) -> str:
    """The whole file; ``box`` is west, south, east, north."""
    west, south, east, north = (number(value) for value in box)
    edges = f'north="{north}" south="{south}" east="{east}" west="{west}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<OpenDRIVE>",
            f' <header revMajor="1" revMinor="4" name="{name}" version="1" {edges} vendor="samepath">',
            f"  <geoReference><![CDATA[{GEOREFERENCE}]]></geoReference>",
            " </header>",
            *(line for part in parts for line in part),
            "</OpenDRIVE>",
            "",
        ]
    )
