"""What is malformed or not understood is refused in one line that names it."""

import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samepath.core.errors import InputError, UnknownNameError
from samepath.simulator.maps import load_map, parse_map
from samepath.simulator.maps.checked_xml import SIZE_MAX_BYTES
from tests.support.map_texts import LANES, LINE, bends, one_road

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE OpenDRIVE [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]><OpenDRIVE>&c;</OpenDRIVE>'
)
EXTERNAL = '<?xml version="1.0"?><!DOCTYPE O [<!ENTITY x SYSTEM "file:///etc/hostname">]><OpenDRIVE>&x;</OpenDRIVE>'
OBJECT = '<objects><object id="3" type="pole" {}/></objects>'
JUNCTION = '<junction id="5" name=""><connection id="0" incomingRoad="7" connectingRoad="{}" contactPoint="{}"/></junction>'
WIDTH = '<width sOffset="0" a="3" b="0" c="0" d="0"/>'

BROKEN = {
    "endless road": (one_road(length="1e8"), "at most 100000 m"),
    "endless turn": (one_road(LINE.replace("<line/>", '<arc curvature="50"/>')), "road 7: <arc>: a turn of at most 100 rad"),
    "not XML": ("hello", "well-formed XML"),
    "cut off": (one_road()[:200], "well-formed XML"),
    "empty": ("", "well-formed XML"),
    "billion laughs": (BOMB, "entities"),
    "external entity": (EXTERNAL, "entities"),
    "bare doctype": ("<!DOCTYPE OpenDRIVE><OpenDRIVE/>", "document type"),
    "too large": ("<OpenDRIVE>" + " " * SIZE_MAX_BYTES + "</OpenDRIVE>", "bytes"),
    "lone surrogate": ("<OpenDRIVE>\ud800</OpenDRIVE>", "XML"),
    "null character": ("<OpenDRIVE>\x00</OpenDRIVE>", "XML"),
    "other root": ("<svg/>", "<OpenDRIVE> was wanted"),
    "no header": ("<OpenDRIVE/>", "<header> is missing"),
    "no roads": ('<OpenDRIVE><header revMajor="1" revMinor="4"/></OpenDRIVE>', "at least one <road>"),
    "other version": ('<OpenDRIVE><header revMajor="2" revMinor="4"/></OpenDRIVE>', "OpenDRIVE 1.x"),
    "NaN": (one_road(LINE.replace('x="0"', 'x="nan"')), "road 7: <geometry>: a finite number up to 1e+09 was wanted for 'x'"),
    "infinity": (one_road(LINE.replace('hdg="0"', 'hdg="1e999"')), "was wanted for 'hdg', but '1e999'"),
    "a word for a number": (one_road(LINE.replace('y="0"', 'y="north"')), "a number was wanted for 'y', but 'north'"),
    "missing attribute": (one_road(LINE.replace('hdg="0"', "")), "attribute 'hdg' is missing"),
    "negative length": (one_road(length="-5"), "'length' must be more than 0, but -5"),
    "zero geometry": (one_road(LINE.replace('length="100"', 'length="0"')), "'length' must be more than 0"),
    "no geometry": (one_road(""), "at least one <geometry>"),
    "gap in geometry": (one_road(LINE.replace('s="0"', 's="9"')), "geometry was wanted at s=0"),
    "short geometry": (one_road(LINE.replace('length="100"', 'length="60"')), "it ends at s=60"),
    "unknown geometry": (one_road(LINE.replace("<line/>", "<clothoid/>")), "<clothoid>: this geometry is not known"),
    "two curves": (one_road(LINE.replace("<line/>", "<line/><line/>")), "exactly one curve"),
    "bad pRange": (
        one_road(LINE.replace("<line/>", '<paramPoly3 pRange="x" aU="0" bU="1" cU="0" dU="0" aV="0" bV="0" cV="0" dV="0"/>')),
        "pRange",
    ),
    "point instead of a curve": (
        one_road(LINE.replace("<line/>", '<paramPoly3 aU="0" bU="0" cU="0" dU="0" aV="0" bV="0" cV="0" dV="0"/>')),
        "all its derivatives are 0",
    ),
    "no lane section": (one_road(lanes=""), "at least one <laneSection>"),
    "no lane at all": (
        one_road(lanes='<laneSection s="0"><center><lane id="0" type="none"/></center></laneSection>'),
        "at least one lane beside the centre lane",
    ),
    "no centre lane": (one_road(lanes='<laneSection s="0"><right/></laneSection>'), "centre lane 0 is missing"),
    "lane on the wrong side": (one_road(lanes=LANES.replace('id="1"', 'id="-3"')), "cannot stand in <left>"),
    "gap in lane ids": (one_road(lanes=LANES.replace('id="1"', 'id="2"')), "lane ids without gaps"),
    "lane without width": (one_road(lanes=LANES.replace(WIDTH, "")), "at least one <width> was wanted"),
    "lane by border": (one_road(lanes=LANES.replace("<width", "<border")), "road 7, lane 1: <border>: lanes by border"),
    "late section": (one_road(lanes=LANES.replace('s="0"><left>', 's="5"><left>')), "must start at s=0"),
    "section twice": (one_road(lanes=LANES + LANES), "must start at s=0 and rise"),
    "section past the end": (
        one_road(lanes=LANES + LANES.replace('s="0"><left>', 's="100"><left>')),
        "not before the road's end",
    ),
    "single side": (one_road(lanes=LANES.replace("<laneSection ", '<laneSection singleSide="true" ')), "single-sided"),
    "banked road": (
        one_road(before='<lateralProfile><superelevation s="0" a="0.1" b="0" c="0" d="0"/></lateralProfile>'),
        "road 7: <superelevation>: a banked road",
    ),
    "railroad": (one_road(after="<railroad/>"), "road 7: <railroad>: railroads are not supported"),
    "left-hand traffic": (one_road(attributes='rule="LHT"'), "right-hand traffic"),
    "object off the road": (one_road(after=OBJECT.format('s="500" t="1"')), "object '3': <object>: s within the road's 0..100"),
    "negative object": (one_road(after=OBJECT.format('s="5" t="1" height="-1"')), "'height' must be at least 0"),
    "bad speed unit": (one_road(before='<type s="0" type="town"><speed max="3" unit="knots"/></type>'), "'knots'"),
    "unknown road in a junction": (
        one_road(top=JUNCTION.format(99, "start")),  # carla.Map refuses this as well
        "junction 5: <connection>: road 99 does not exist",
    ),
    "bad contact point": (one_road(top=JUNCTION.format(7, "middle")), "contactPoint 'start' or 'end'"),
    "road id as a word": (one_road().replace('id="7"', 'id="main"'), "a whole number was wanted for 'id'"),
    "road twice": (one_road().replace("</OpenDRIVE>", one_road().split("/>", 1)[1]), "road id 7 is used twice"),
}


SPIRAL = LINE.replace("<line/>", '<spiral curvStart="{}" curvEnd="{}"/>')
MARK = '<width sOffset="0" a="3" b="0" c="0" d="0"/><roadMark sOffset="{}" type="broken" width="{}"/>'
CROSSING = '<objects><object id="3" type="crosswalk" s="5" t="0" {}>{}</object></objects>'
CORNERS = "".join(f'<cornerRoad s="{s}" t="{t}" dz="0" height="0"/>' for s, t in ((10, -3), (10, 3), ("{0}", 3), ("{0}", -3)))
SIGNAL = '<signals><signal id="4" s="5" t="4" {}/></signals>'
ELEVATION = '<elevationProfile><elevation s="{}" a="{}" b="0" c="0" d="{}"/></elevationProfile>'
MANY_LANES = "".join(f'<lane id="-{k}" type="driving">{WIDTH}</lane>' for k in range(1, 101))
WIDE = '<laneSection s="0"><center><lane id="0" type="none"/></center><right>' + MANY_LANES + "</right></laneSection>"
LONG_SPIRAL = '<geometry s="0" x="0" y="0" hdg="0" length="99000"><spiral curvStart="0" curvEnd="0.001"/></geometry>'
LONG_LINE = LINE.replace("100", "90000")

HOSTILE = {
    "endless lane id": (
        one_road(lanes=LANES.replace('id="1"', 'id="1000000000"')),
        "road 7: <lane>: 'id' between -100 and 100 was wanted, but 1000000000 came",
    ),
    "lane id of many digits": (one_road(lanes=LANES.replace('id="-1"', f'id="-{"9" * 5000}"')), "a whole number was wanted"),
    "lane link to a lane far away": (
        one_road(lanes=LANES.replace("<link/>", '<link><successor id="-1000000000"/></link>', 1)),
        "lane 1: <successor>: 'id' between -100 and 100",
    ),
    "the same lane many times": (
        one_road(lanes=LANES.replace("<right>", "<right>" + 300 * f'<lane id="-1" type="none">{WIDTH}</lane>')),
        "<laneSection>: at most 201 lanes were wanted, but 303 came",
    ),
    "endless lane": (one_road(lanes=LANES.replace('a="3"', 'a="1e9"')), "<width>: at most 100 m was wanted along its road"),
    "lane that grows without end": (
        one_road(lanes=LANES.replace('d="0"/>', 'd="1"/>')),
        "lane 1: <width>: at most 100 m was wanted along its road, but a=3 b=0 c=0 d=1 from sOffset=0 come to 1e+06 m",
    ),
    "lane that bulges": (
        one_road(lanes=LANES.replace('b="0" c="0"', 'b="100" c="-1"')),
        "come to 2503 m",
    ),
    "lane offset without end": (
        one_road(lanes='<laneOffset s="0" a="0" b="1e6" c="0" d="0"/>' + LANES),
        "<laneOffset>: at most 1000 m",
    ),
    "width past the road": (
        one_road(lanes=LANES.replace('sOffset="0"', 'sOffset="1e9"')),
        "<width>: 'sOffset' between -1 and 101 was wanted, but 1e+09 came",
    ),
    "road mark before the road": (
        one_road(lanes=LANES.replace(WIDTH, MARK.format("-1e9", "0.1"))),
        "lane 1: <roadMark>: 'sOffset' between -1 and 101 was wanted, but -1e+09 came",
    ),
    "road mark as wide as a country": (
        one_road(lanes=LANES.replace(WIDTH, MARK.format("0", "1e6"))),
        "<roadMark>: 'width' between",
    ),
    "mountain": (one_road(before=ELEVATION.format(0, "1e8", 0)), "<elevation>: at most 10000 m was wanted along its road"),
    "cliff": (one_road(before=ELEVATION.format(0, 0, 1)), "come to 1e+06 m"),
    "elevation elsewhere": (one_road(before=ELEVATION.format("1e9", 0, 0)), "<elevation>: 's' between -1 and 101"),
    "endless crossing": (
        one_road(after=CROSSING.format('length="1e9" width="3"', "")),
        "object '3': <object>: 'length' between 0 and 1000 was wanted, but 1e+09 came",
    ),
    "crossing whose corners are far away": (
        one_road(SPIRAL.format(0, "0.02"), after=CROSSING.format("", f"<outline>{CORNERS.format('1e9')}</outline>")),
        "object '3': <cornerRoad>: 's' between -100 and 200 was wanted, but 1e+09 came",
    ),
    "corner far beside": (
        one_road(after=CROSSING.format("", '<outline><cornerLocal u="1e9" v="0" z="0"/></outline>')),
        "<cornerLocal>: 'u' between -1000 and 1000",
    ),
    "outline of very many corners": (
        one_road(after=CROSSING.format("", "<outline>" + 1001 * '<cornerLocal u="1" v="0" z="0"/>' + "</outline>")),
        "an outline of at most 1000 corners was wanted, but 1001 came",
    ),
    "object far beside": (one_road(after=OBJECT.format('s="5" t="-1e9"')), "<object>: 't' between -1000 and 1000"),
    "tower": (one_road(after=OBJECT.format('s="5" t="1" height="1e6"')), "<object>: 'height' between 0 and 1000"),
    "signal far beside": (one_road(after=SIGNAL.format("").replace('t="4"', 't="1e9"')), "signal '4': <signal>: 't' between"),
    "signal as large as a town": (one_road(after=SIGNAL.format('width="1e9"')), "<signal>: 'width' between -100 and 100"),
    "valid for lanes far away": (
        one_road(after=SIGNAL.format("").replace("/></s", '><validity fromLane="1" toLane="9999999"/></signal></s')),
        "<validity>: 'toLane' between -100 and 100",
    ),
    "spiral that winds up": (
        one_road(SPIRAL.format(0, 10)),
        "<spiral>: a turn of at most 100 rad was wanted, but curvEnd=10 over 100 m came",
    ),
    "far away": (one_road(LINE.replace('x="0"', 'x="9e8"')), "<geometry>: 'x' between -1e+07 and 1e+07"),
    "jump": (
        one_road(
            '<geometry s="0" x="0" y="0" hdg="0" length="50"><line/></geometry>'
            '<geometry s="50" x="50" y="1e6" hdg="0" length="50"><line/></geometry>'
        ),
        "within 10 m of (50, 0), where the one before ends, was wanted at s=50, but x=50 y=1e+06 came",
    ),
    "curve much longer than it says": (
        one_road(LINE.replace("<line/>", '<paramPoly3 aU="0" bU="1e8" cU="0" dU="0" aV="0" bV="0" cV="0" dV="0"/>')),
        "<paramPoly3>: a curve of length=100 was wanted, but its formula is 1e+08 m long",
    ),
    "very many elements": (
        one_road(top="<userData/>" * 600_000).replace("<userData/>", "<a/>"),
        "at most 500000 tags of XML were wanted",
    ),
    "speed of light": (
        one_road(before='<type s="0" type="town"><speed max="3e8" unit="m/s"/></type>'),
        "<speed>: 'max' between 0 and 10000",
    ),
    "long, wide and bent": (
        one_road(LONG_SPIRAL, WIDE, length="99000"),
        "a map of at most 5e+07 steps of work was wanted, but this one would take about",
    ),
    "lines painted over each other": (
        one_road(
            LONG_LINE,
            LANES.replace(WIDTH, WIDTH + "".join(MARK[len(WIDTH) :].format(k % 2 * 90000, 0.1) for k in range(6000)), 1),
            length="90000",
        ),
        "steps of work",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_number_beyond_its_meaning_is_refused_at_once_in_one_line_that_names_it(case):
    text, wanted = HOSTILE[case]
    start_s = time.process_time()
    with pytest.raises(InputError) as caught:
        parse_map(text, "broken")
    assert time.process_time() - start_s < 2.0
    message = str(caught.value)
    assert wanted in message
    assert "\n" not in message
    assert len(message) < 400
    assert message.startswith("map 'broken'")


def test_a_long_road_with_broken_lines_is_built_in_time():
    broken = LANES.replace(WIDTH, MARK.format(0, "0.1"))
    start_s = time.process_time()
    road_map = parse_map(one_road(LINE.replace("100", "20000"), broken, length="20000"), "long")
    assert sum(len(mesh.vertices) for mesh in road_map.meshes) > 20_000
    assert time.process_time() - start_s < 10.0


GENTLE = LINE.replace("100", "1500").replace("<line/>", '<paramPoly3 pRange="arcLength" {}/>')
MANY_LANES = LANES.replace(
    "</right>", "".join(f'<lane id="-{k}" type="driving">{WIDTH}</lane>' for k in range(2, 15)) + "</right>"
)


def test_a_motorway_of_gentle_polynomials_is_built_and_one_that_may_wind_is_refused():
    gentle = GENTLE.format('aU="0" bU="1" cU="0" dU="0" aV="0" bV="0" cV="1e-6" dV="1e-9"')
    road_map = parse_map(one_road(gentle, MANY_LANES, length="1500"), "motorway")
    assert len(road_map.lanes) == MANY_LANES.count("<lane ") - 1
    wound = GENTLE.format('aU="0" bU="1" cU="-1e-3" dU="0" aV="0" bV="0" cV="1e-3" dV="0"')
    with pytest.raises(InputError, match="steps of work was wanted"):
        parse_map(one_road(wound, MANY_LANES.replace('a="3"', 'a="9"'), length="1500"), "wound")


def test_a_corner_past_the_end_of_its_road_is_as_high_as_the_end():
    pieces = "".join(f'<elevation s="{s}" a="0" b="0" c="0" d="{d}"/>' for s, d in ((0, 0), (99, 9)))
    steep = f"<elevationProfile>{pieces}</elevationProfile>"
    corners = f"<outline>{CORNERS.format('150')}</outline>"
    (crossing,) = parse_map(one_road(before=steep, after=CROSSING.format("", corners)), "steep").crosswalks
    assert crossing.vertices[:, 2].tolist() == [0.0, 0.0, 9.0, 9.0]


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_map_is_refused_in_one_line_that_names_the_place(case):
    text, wanted = BROKEN[case]
    with pytest.raises(InputError) as caught:
        parse_map(text, "broken")
    message = str(caught.value)
    assert wanted in message
    assert "\n" not in message
    assert message.startswith("map 'broken'")


NEW_VALUES = ("", "-1", "0", "1e8", "1e-9", "7", "x", "nan", "-3.5", "99", "start", "none", "sidewalk")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_whatever_is_changed_in_a_map_it_is_read_or_refused_but_nothing_else_leaks(data):
    text = data.draw(st.sampled_from([one_road(), bends()]))
    values = list(re.finditer('"([^"]*)"', text))
    for _ in range(data.draw(st.integers(1, 3))):
        value = data.draw(st.sampled_from(values))
        text = text[: value.start()] + text[value.start() :].replace(value[0], f'"{data.draw(st.sampled_from(NEW_VALUES))}"', 1)
    try:
        road_map = parse_map(text, "changed")
        assert road_map.digest
        assert road_map.topology() is not None
    except InputError as error:
        assert "\n" not in str(error)


def test_an_unknown_name_offers_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 't-junction'"):
        load_map("t-juntion")


def test_what_is_harmless_is_listed():
    road = one_road(after="<surface/>", top="<station/>", lanes=LANES.replace("<link/>", "<link/><material/>"))
    assert parse_map(road, "x").ignored == ("road 7: <surface>", "road 7: lane <material>", "<station>")


def test_a_flat_lateral_profile_is_welcome():
    flat = '<lateralProfile><superelevation s="0" a="0" b="0" c="0" d="0"/></lateralProfile>'
    assert parse_map(one_road(before=flat), "x").ignored == ()
