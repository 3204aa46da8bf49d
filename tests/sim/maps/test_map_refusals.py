"""What is malformed or not understood is refused in one line that names it."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from map_texts import LANES, LINE, bends, one_road

from samepath.base.errors import InputError, UnknownNameError
from samepath.sim.maps import load_map, parse_map
from samepath.sim.maps.xmlread import SIZE_MAX_BYTES

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
    "endless turn": (one_road(LINE.replace("<line/>", '<arc curvature="50"/>')), "road 7: <arc>: a turn of at most 1000 rad"),
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
        one_road(top=JUNCTION.format(99, "start")),
        "junction 5: <connection>: road 99 does not exist",
    ),
    "bad contact point": (one_road(top=JUNCTION.format(7, "middle")), "contactPoint 'start' or 'end'"),
    "link to nowhere": (
        one_road().replace(
            "<link/><planView>", '<link><successor elementType="road" elementId="8" contactPoint="start"/></link><planView>'
        ),
        "road 8 does not exist",
    ),
    "road id as a word": (one_road().replace('id="7"', 'id="main"'), "a whole number was wanted for 'id'"),
    "road twice": (one_road().replace("</OpenDRIVE>", one_road().split("/>", 1)[1]), "road id 7 is used twice"),
}


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
