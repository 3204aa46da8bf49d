"""Whatever a file holds, an importer reads it or refuses it in one line: it never falls over."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samepath.core.errors import SamepathError
from samepath.instrument.analysis.cell import analyse_cell
from samepath.instrument.traces.importers import load_cells

GOOD = "repeat,actor,time,x,y,z\n" + "".join(
    f"{r},{a},{t / 10},{t + a / 7},{2 * a},0\n" for r in range(3) for t in range(4) for a in range(2)
)
changes = st.lists(
    st.tuples(
        st.integers(0, len(GOOD)), st.integers(0, 6), st.text(alphabet='0123456789.,;-+eEnaif"\n\r\tx \x00é', max_size=4)
    ),
    max_size=4,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes)
def test_a_damaged_csv_is_read_or_refused_in_one_line(tmp_path, damage):
    text = GOOD
    for place, length, new in damage:
        text = text[:place] + new + text[place + length :]
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode())
    try:
        for cell in load_cells([path]):
            analyse_cell(cell)
    except SamepathError as error:
        assert "\n" not in str(error)
        assert str(error)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400), st.sampled_from(["log.csv", "log.parquet", "log.txt"]))
def test_any_bytes_are_refused_in_one_line(tmp_path, content, name):
    path = tmp_path / name
    path.write_bytes(content)
    try:
        for cell in load_cells([path]):
            analyse_cell(cell)
    except SamepathError as error:
        assert "\n" not in str(error)
