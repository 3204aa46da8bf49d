"""Figures in the docs are those of bench/results."""

import pytest

from bench import tables

PLACES = [(page, name) for page in tables.pages() for name in tables.places(page)]


@pytest.mark.parametrize(("page", "name"), PLACES, ids=[f"{page.name} {name}" for page, name in PLACES])
def test_a_table_says_what_was_measured(page, name):
    assert tables.places(page)[name] == tables.table(name), "python -m bench tables writes it anew"


def test_every_table_stands_somewhere():
    assert {name for _, name in PLACES} == set(tables.TABLES)
