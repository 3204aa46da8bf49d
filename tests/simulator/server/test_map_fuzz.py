"""Maps from a grammar: each is refused in one line, or a whole world is made of it. ``python -m bench fuzz``: 100,000."""

import re
import sys

from bench import fuzz
from tests.support.grammars.opendrive import opendrive_document

# What the reader of OpenDRIVE looks for, wherever it stands.
ELEMENTS = {
    "header", "geoReference", "road", "link", "predecessor", "successor", "type", "speed", "planView", "geometry", "line",
    "arc", "spiral", "poly3", "paramPoly3", "elevationProfile", "elevation", "lateralProfile", "superelevation", "crossfall",
    "shape", "lanes", "laneOffset", "laneSection", "left", "center", "right", "lane", "width", "border", "roadMark", "height",
    "objects", "object", "outlines", "outline", "cornerRoad", "cornerLocal", "signals", "signal", "signalReference", "validity",
    "junction", "connection", "laneLink", "controller", "control", "railroad",
}  # fmt: skip

ENDS_AT_2 = """
import json, os, signal, sys
seed, first, count = map(int, sys.argv[1:])
for number in range(first, first + count):
    if number == 2:
        print("panicked at 2", flush=True)
        os.kill(os.getpid(), signal.SIGXCPU)
    print(json.dumps([number, "refused" if number == 1 else "taken", "words", float(number)]), flush=True)
"""


def test_two_hundred_maps_are_refused_in_a_line_or_served_whole():
    found = fuzz.run_maps(200, 7)
    assert found.failures == ()
    assert found.taken > 30
    assert found.refused > 60
    assert found.taken + found.refused == 200


def test_a_map_that_ends_its_process_is_named_and_those_behind_it_are_tried():
    found = fuzz.run_maps(4, 7, child=[sys.executable, "-c", ENDS_AT_2])
    assert (found.taken, found.refused, found.slowest_s) == (2, 1, 3.0)
    assert found.failures == ("map 2 of seed 7: the process was ended by signal 24 (SIGXCPU): panicked at 2",)


def test_a_document_is_the_same_whenever_it_is_made():
    assert opendrive_document(7, 41) == opendrive_document(7, 41)
    assert len({opendrive_document(7, number) for number in range(50)} | {opendrive_document(8, 0)}) == 51


def test_the_grammar_knows_every_element_that_the_reader_knows():
    text = "".join(opendrive_document(7, number) for number in range(200))
    assert set(re.findall(r"<(\w+)", text)) >= ELEMENTS
