"""Excerpts of OpenStreetMap made from a seed: streets of all kinds, cut off at the edge as in a download."""

import math
import random

KINDS = {
    "motorway": 2, "primary": 3, "primary_link": 1, "tertiary": 3, "residential": 8, "living_street": 2, "service": 3,
    "footway": 2, "cycleway": 1, "track": 1,
}  # fmt: skip
_DEGREES_PER_M = 1.0 / 111320.0
_LATITUDE_DEG, _LONGITUDE_DEG = 49.0, 8.4


class Excerpt:
    """Nodes by their place in metres, ways by their nodes."""

    def __init__(self):
        self.nodes, self.ways = {}, []

    def node(self, x_m, y_m, **tags):
        number = len(self.nodes) + 1
        self.nodes[number] = (x_m, y_m, tags)
        return number

    def way(self, nodes, **tags):
        self.ways.append((nodes, tags))

    def text(self):
        lines = ['<?xml version="1.0" encoding="UTF-8"?><osm version="0.6">', self._bounds()]
        for number, (x_m, y_m, tags) in self.nodes.items():
            latitude_deg, longitude_deg = self._place(x_m, y_m)
            place = f'lat="{latitude_deg:.7f}" lon="{longitude_deg:.7f}"'
            lines.append(f'<node id="{number}" visible="true" version="1" {place}>{_tags(tags)}</node>')
        for number, (nodes, tags) in enumerate(self.ways, 1000):
            ends = "".join(f'<nd ref="{node}"/>' for node in nodes)
            lines.append(f'<way id="{number}" visible="true" version="1">{ends}{_tags(tags)}</way>')
        return "\n".join([*lines, "</osm>"])

    def _bounds(self):
        places = [self._place(x_m, y_m) for x_m, y_m, _ in self.nodes.values()]
        (south, west), (north, east) = (tuple(pick(place[axis] for place in places) for axis in (0, 1)) for pick in (min, max))
        return f'<bounds minlat="{south:.7f}" minlon="{west:.7f}" maxlat="{north:.7f}" maxlon="{east:.7f}"/>'

    def _place(self, x_m, y_m):
        shrink = math.cos(math.radians(_LATITUDE_DEG))
        return _LATITUDE_DEG + y_m * _DEGREES_PER_M, _LONGITUDE_DEG + x_m * _DEGREES_PER_M / shrink


def _tags(tags):
    return "".join(f'<tag k="{key}" v="{value}"/>' for key, value in tags.items())


def crossing():
    """Two streets that cross, each cut off at both ends: the smallest excerpt with dead links."""
    made = Excerpt()
    middle = made.node(0.0, 0.0)
    for x_m, y_m in ((80.0, 0.0), (0.0, 80.0)):
        made.way([made.node(-x_m, -y_m), middle, made.node(x_m, y_m)], highway="residential")
    return made.text()


def roundabout():
    """A roundabout with four arms that end."""
    made = Excerpt()
    ring = [made.node(20.0 * math.cos(turn * math.pi / 4), 20.0 * math.sin(turn * math.pi / 4)) for turn in range(8)]
    made.way([*ring, ring[0]], highway="tertiary", junction="roundabout", oneway="yes")
    for turn in range(0, 8, 2):
        end = made.node(90.0 * math.cos(turn * math.pi / 4), 90.0 * math.sin(turn * math.pi / 4))
        made.way([ring[turn], end], highway="tertiary", lanes="2")
    return made.text()


def same_place():
    """Streets whose nodes lie in one place, as mappers leave them: roads and curves of no length."""
    made = Excerpt()
    middle, beside = made.node(0.0, 0.0), made.node(0.0, 0.0)
    for place, away in (((-70.0, 3.0), middle), ((70.0, -2.0), beside), ((4.0, 60.0), middle), ((0.0, -60.0), beside)):
        made.way([made.node(*place), away], highway="residential", oneway="no")
    made.way([middle, beside], highway="residential")
    return made.text()


def town(seed):
    """Streets of all kinds on a crooked grid: one-ways, lights, bridges, tags that make no sense, ends, nodes left out."""
    chance = random.Random(seed)
    made, step_m = Excerpt(), chance.choice([15.0, 40.0, 80.0])
    grid = {}
    for column in range(chance.randint(2, 4)):
        for row in range(chance.randint(2, 4)):
            x_m, y_m = (step_m * (place + chance.uniform(-0.3, 0.3)) for place in (column, row))
            signals = {"highway": "traffic_signals"} if chance.random() < 0.2 else {}
            grid[column, row] = made.node(x_m, y_m, **signals)
    for (column, row), start in grid.items():
        for end in (grid.get((column + 1, row)), grid.get((column, row + 1))):
            if end is not None and chance.random() < 0.85:
                nodes = [start, *_bends(made, chance, start, end), end]
                made.way(nodes if chance.random() < 0.5 else nodes[::-1], **_street(chance))
    for _ in range(3):
        start = chance.choice(list(grid.values()))
        away_m = chance.choice([0.5, 3.0, 20.0, 100.0])
        x_m, y_m, _ = made.nodes[start]
        end = made.node(x_m + chance.uniform(-away_m, away_m), y_m + chance.uniform(-away_m, away_m))
        # A node of the way is outside of the excerpt.
        made.way([start, end, 999_999] if chance.random() < 0.3 else [start, end], **_street(chance))
    return made.text()


def _bends(made, chance, start, end):
    (x_m, y_m, _), (to_x_m, to_y_m, _) = made.nodes[start], made.nodes[end]
    parts = [part / 4 for part in range(1, 1 + chance.randint(0, 3))]
    return [
        made.node(
            x_m + part * (to_x_m - x_m) + chance.uniform(-6.0, 6.0), y_m + part * (to_y_m - y_m) + chance.uniform(-6.0, 6.0)
        )
        for part in parts
    ]


def _street(chance):
    tags = {"highway": chance.choices(list(KINDS), list(KINDS.values()))[0]}
    for key, share, values in (
        ("oneway", 0.3, ("yes", "-1", "no")),
        ("lanes", 0.4, ("1", "2", "3", "4", "1.5", "x")),
        ("maxspeed", 0.3, ("30", "walk", "30 mph", "none")),
        ("bridge", 0.1, ("yes",)),
        ("sidewalk", 0.2, ("both", "left", "no")),
    ):
        if chance.random() < share:
            tags[key] = chance.choice(values)
    return tags
