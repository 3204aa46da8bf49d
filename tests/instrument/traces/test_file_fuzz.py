"""Recordings and tables from grammars: each is read or refused in one line, within bounds that the kernel holds.

``python -m bench fuzz`` does the same with tens of thousands.
"""

import pytest

from tests.support.confined import confined
from tests.support.grammars.recorder import recorder_document
from tests.support.grammars.tables import table_document


@pytest.mark.slow
def test_a_hundred_and_fifty_files_are_read_or_refused_in_a_line_and_worlds_that_play_them_go_on():
    found = confined("tests.support.reading:read_both", 7, 0, 75, memory_mib=800, cpu_s=30)
    assert {kind: sum(figures.values()) for kind, figures in found.items()} == {"recordings": 75, "tables": 75}
    assert min(figures[what] for figures in found.values() for what in ("read", "refused")) > 10


@pytest.mark.parametrize("document", [recorder_document, table_document])
def test_a_file_is_the_same_whenever_it_is_made(document):
    assert document(7, 41) == document(7, 41)
    assert len({document(7, number) for number in range(50)} | {document(8, 0)}) > 45, "but for those without frames"


def test_what_takes_too_much_is_found():
    with pytest.raises(AssertionError, match="MemoryError"):
        confined("builtins:bytearray", 1 << 30, memory_mib=100, cpu_s=5)
    with pytest.raises(AssertionError, match="ended with -24"):
        confined("tests.support.confined:spin", memory_mib=100, cpu_s=0)
