"""The short version of ``python -m bench hostile``: messages made to cost much, beside an honest client."""

import pytest

from bench import hostile
from tests.support.serve_processes import serve_pool

MESSAGES = 120


@pytest.fixture(scope="module")
def pool():
    with serve_pool() as found:
        yield found


def test_hostile_messages_are_answered_or_end_their_connection_and_the_server_keeps_its_memory(pool, tmp_path):
    found = hostile.attacked(pool, tmp_path, hostile.KINDS, MESSAGES)
    assert found["messages"] == MESSAGES
    assert all(found["kinds"].values())
    assert (found["errors_of_ours"], found["without_an_answer"]) == (0, 0)
    assert found["peak_growth_mib"] <= hostile.MEMORY_MIB
    assert all(call["count"] for call in found["calls"].values())


@pytest.mark.parametrize(
    "kind",
    ["30 MB of nils as arguments", "15,000 calls in one piece", "a batch of arrays of maps", "answers that nobody fetches"],
)
def test_sigterm_ends_a_server_within_5_s_while_such_messages_come(pool, tmp_path, kind):
    assert hostile.sigterm_s(pool, tmp_path, kind) <= hostile.SIGTERM_S_MAX
