"""Files that cannot be played are refused in one line that names the element; whatever a file holds, reading it ends."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samepath.core.errors import InputError, SamepathError
from samepath.openscenario import plan_file
from samepath.openscenario.document import SIZE_MAX_BYTES, evaluated
from samepath.scenarios.model import load_scenario
from tests.support.xosc import after, at, by_entity, document, event, init, lane, speed, story, vehicle, world, write

START = init(ego=[at(lane(1, -1, 50)), speed(10)])
PLAYABLE = document(vehicle("ego"), START, story("ego", event("e", speed(5, "linear", 2), after(1))), end_s=3.0)


def refused(tmp_path, text):
    with pytest.raises(InputError) as caught:
        plan_file(write(tmp_path, text))
    told = str(caught.value)
    assert "\n" not in told
    # The file, or the catalogue it names.
    assert re.match(r"(OpenSCENARIO file ')?\w+\.xosc'?: ", told)
    return told


@pytest.mark.parametrize(
    ("element", "action"),
    [
        ("LateralDistanceAction",
         '<LateralAction><LateralDistanceAction entityRef="ego" coordinateSystem="trajectory"/></LateralAction>'),
        ("'ego': somebody else was wanted", '<LateralAction><LateralDistanceAction entityRef="ego"/></LateralAction>'),
        ("TeleportAction", at(world(0, 0))),
        ("AnimationAction", "<AnimationAction/>"),
    ],
)  # fmt: skip
def test_an_action_that_is_not_played_is_named(tmp_path, element, action):
    assert element in refused(tmp_path, document(vehicle("ego"), START, story("ego", event("e", action, after(1)))))


@pytest.mark.parametrize("condition", ["RelativeClearanceCondition", "AngleCondition"])
def test_a_condition_that_is_not_looked_at_is_named(tmp_path, condition):
    trigger = by_entity("ego", f'<{condition} freeSpace="true" oppositeLanes="false"/>')
    assert f"<{condition}>" in refused(tmp_path, document(vehicle("ego"), START, story("ego", event("e", speed(1), trigger))))


def test_controllers_of_the_file_are_named(tmp_path):
    action = (
        '<ControllerAction><AssignControllerAction activateLongitudinal="true"><Controller name="c"><Properties>'
        '<Property name="esminiController" value="ACCController"/></Properties></Controller></AssignControllerAction>'
        "</ControllerAction>"
    )
    told = refused(tmp_path, document(vehicle("ego"), init(ego=[at(lane(1, -1, 50)), action])))
    assert "ACCController" in told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("laneId=\"-1\"", "laneId=\"-7\""), "lane -7 of road 1 was wanted at s 50, but there are lanes"),
        (("roadId=\"1\"", "roadId=\"77\""), "no such road"),
        (("s=\"50\"", "s=\"nan\""), "a number was wanted for 's'"),
        (("filepath=\"oval\"", "filepath=\"ovall\""), "did you mean 'oval'"),
        (("entityRef=\"ego\"", "entityRef=\"nobody\""), "one of ego was wanted"),
        (("revMajor=\"1\"", "revMajor=\"2\""), "OpenSCENARIO 1.x"),
        (("vehicleCategory=\"car\"", "vehicleCategory=\"tram\""), "'tram' is not supported"),
        (("<OpenSCENARIO>", "<OpenSCENARIO><Catalog/>"), "catalogue"),
        (("value=\"10\"", "value=\"-10\""), "driving backwards is not supported"),
        (("value=\"10\"", "value=\"$fast\""), "$fast is used, but not declared"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(tmp_path, change, words):
    text = PLAYABLE.replace("vehicle.mini.cooper_s", "some car") if "tram" in words else PLAYABLE
    assert change[0] in text
    assert words in refused(tmp_path, text.replace(*change))


def test_entities_and_document_types_are_refused(tmp_path):
    bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><OpenSCENARIO>&b;</OpenSCENARIO>'
    assert "document type or entities" in refused(tmp_path, bomb)


def test_a_file_that_is_too_large_is_not_parsed(tmp_path):
    assert "at most" in refused_large(tmp_path)


def refused_large(tmp_path):
    with pytest.raises(InputError) as caught:
        plan_file(write(tmp_path, "<OpenSCENARIO>" + " " * SIZE_MAX_BYTES + "</OpenSCENARIO>"))
    return str(caught.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.xosc cannot be read: No such file"):
        load_scenario(str(tmp_path / "nowhere.xosc"))


def test_catalogues_that_refer_to_themselves_end(tmp_path):
    (tmp_path / "catalogue").mkdir()
    loop = '<CatalogReference catalogName="C" entryName="car" name="car"/>'
    write(
        tmp_path / "catalogue",
        f'<OpenSCENARIO><FileHeader revMajor="1"/><Catalog name="C">{loop}</Catalog></OpenSCENARIO>',
        "c.xosc",
    )
    text = PLAYABLE.replace(
        "<CatalogLocations/>",
        '<CatalogLocations><VehicleCatalog><Directory path="catalogue"/></VehicleCatalog></CatalogLocations>',
    )
    text = re.sub(r"<Vehicle name.*?</Vehicle>", loop, text)
    assert "too often" in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3 + 4 * 2", 11.0), ("72 / 3.6", 20.0), ("round(2.6) % 2", 1.0), ("not (1 > 2)", 1.0), ("-pow(2, 3)", -8.0)],
)
def test_expressions_are_arithmetic(text, value):
    assert evaluated(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "9**9**9", "'a' * 1000000000", "pow(10, 1000)", "1 / 0", "(" * 300, "[1] * 9", "a.b", ""]
)
def test_nothing_else_is_an_expression(text):
    with pytest.raises(ValueError):
        evaluated(text)


def test_a_file_of_ours_is_played(tmp_path):
    _, plan = plan_file(write(tmp_path, PLAYABLE))
    assert plan.ticks == 61


def way(shape):
    return (
        f'<RoutingAction><FollowTrajectoryAction><TrajectoryRef><Trajectory name="way" closed="false"><Shape>{shape}</Shape>'
        '</Trajectory></TrajectoryRef><TimeReference><Timing domainAbsoluteRelative="relative" scale="1" offset="0"/>'
        "</TimeReference></FollowTrajectoryAction></RoutingAction>"
    )


BEND = (
    '<Clothoid curvature="0.05" curvaturePrime="0.001" length="20" startTime="0" stopTime="1">'
    f"<Position>{world(0, 0)}</Position></Clothoid>"
)
BENDS = (
    '<ClothoidSpline timeEnd="2"><ClothoidSplineSegment curvatureStart="0.1" curvatureEnd="-0.1" length="5" timeStart="0"/>'
    '<ClothoidSplineSegment curvatureStart="0" curvatureEnd="0" length="5" hOffset="0.2" timeStart="1"/></ClothoidSpline>'
)
SPLINE = '<Nurbs order="3">{}{}</Nurbs>'.format(
    "".join(f'<ControlPoint time="{k}" weight="1.{k}"><Position>{world(9 * k, k)}</Position></ControlPoint>' for k in range(4)),
    "".join(f'<Knot value="{knot}"/>' for knot in (0, 0, 0, 0.5, 1, 1, 1)),
)
BESIDE = (
    '<LateralAction><LateralDistanceAction entityRef="lead" distance="1" freespace="true" continuous="true" '
    'displacement="leftToReferencedEntity"><DynamicConstraints maxSpeed="2" maxAcceleration="1"/></LateralDistanceAction>'
    "</LateralAction>"
)
SHAPES = {"lead": BEND, "bends": BENDS, "spline": SPLINE}
CURVED = document(
    vehicle("ego") + "".join(map(vehicle, SHAPES)),
    init(ego=[at(lane(1, -1, 50)), speed(10)], **{name: [at(world(0, 0)), speed(10)] for name in SHAPES}),
    story("ego", event("beside", BESIDE, after(0.2)))
    + "".join(story(name, event(name, way(shape), after(-1))).replace("story", name) for name, shape in SHAPES.items()),
    end_s=2.0,
)


def test_a_file_of_ours_with_every_curve_is_played(tmp_path):
    _, plan = plan_file(write(tmp_path, CURVED))
    assert plan.ticks == 41


# Pieces that real files have, thrown into each other's places.
WORDS = [
    *sorted(set(re.findall(r"[A-Za-z]+(?==)|(?<=<)[A-Za-z]+|(?<=\")[^\"<>]*(?=\")", PLAYABLE + CURVED))),
    "1e308", "-1e308", "INF", "nan", "${1/0}", "$x", "99999999999999999999", "", "step", "rate", "ego", "0", "-0.0", "é",
]  # fmt: skip


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1))
def test_a_damaged_file_is_played_or_refused_in_one_line(tmp_path_factory, seed):
    chance = random.Random(seed)
    text = chance.choice((PLAYABLE, CURVED))
    for _ in range(chance.randint(1, 4)):
        kind = chance.randrange(4)
        if kind == 0:  # a value
            found = list(re.finditer(r'="[^"]*"', text))
            spot = chance.choice(found)
            text = text[: spot.start()] + f'="{chance.choice(WORDS)}"' + text[spot.end() :]
        elif kind == 1:  # an element goes, with all that is in it
            found = list(re.finditer(r"<(\w+)[^<>]*/>|<(\w+)[^<>]*>.*?</\2>", text))
            if found:
                spot = chance.choice(found)
                text = text[: spot.start()] + text[spot.end() :]
        elif kind == 2:  # or is there twice
            found = list(re.finditer(r"<(\w+)[^<>]*/>|<(\w+)[^<>]*>.*?</\2>", text))
            if found:
                spot = chance.choice(found)
                text = text[: spot.end()] + spot.group() + text[spot.end() :]
        else:  # bytes
            where = chance.randrange(len(text))
            text = text[:where] + chance.choice("<>\"'&\x00é ") + text[where + chance.randint(0, 3) :]
    path = write(tmp_path_factory.getbasetemp(), text, "damaged.xosc")
    try:
        _, plan = plan_file(path)
    except SamepathError as error:
        assert "\n" not in str(error)
    else:
        assert all(abs(value) < 1e7 for _, track in plan.tracks for point in track.points for value in point)
