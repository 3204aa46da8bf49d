"""The viewer's page: the built script is that of its sources, blocks are read back, nothing from a trace becomes markup."""

import base64
import gzip
import hashlib
import json
import re
import struct
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from samepath.core.errors import InputError
from samepath.instrument.viewer import page
from samepath.instrument.viewer.page import MAGIC, ViewServer, ViewSource, cell_block, ground_block, index_of, index_row
from samepath.instrument.viewer.scene import Ground, Surface, view_cell
from samepath.instrument.viewing import view
from tests.conftest import cell_of, straight_run

SOURCES = Path(__file__).parents[3] / "web" / "viewer"
BUILT = Path(page.__file__).parent / "page"
ODD = '</script><img src=x onerror="document.title=1">'


def unpacked(block):
    assert block.startswith(MAGIC)
    start = len(MAGIC) + 4
    (length,) = struct.unpack("<I", block[len(MAGIC) : start])
    head = json.loads(block[start : start + length])
    kinds = {"f8": "<f8", "f4": "<f4", "u2": "<f2", "u4": "<u4"}
    arrays = {
        name: np.frombuffer(block, kinds[row["kind"]], row["count"], start + length + row["at"])
        for name, row in head.pop("arrays").items()
    }
    return head, arrays, start + length


def test_the_built_script_is_that_of_its_sources():
    digest = hashlib.sha256()
    names = [*(f"src/{path.name}" for path in sorted((SOURCES / "src").iterdir())), "package-lock.json", "build.mjs"]
    for name in names:
        digest.update(name.encode() + b"\0" + (SOURCES / name).read_bytes() + b"\0")
    first = (BUILT / "viewer.js").read_text("utf-8").splitlines()[0]
    assert f"sources {digest.hexdigest()};" in first, "build it anew: cd web/viewer && npm ci && npm run build"
    for name in ("viewer.css", "viewer.html"):
        assert (BUILT / name).read_bytes() == (SOURCES / "src" / name).read_bytes()


def test_the_library_in_it_is_named_with_version_and_licence():
    version = json.loads((SOURCES / "package.json").read_text())["dependencies"]["three"]
    licences = (BUILT / "LICENSES.txt").read_text("utf-8")
    assert f"three.js {version}" in licences
    assert "MIT" in licences
    assert f"three.js {version}" in (BUILT / "viewer.js").read_text("utf-8").splitlines()[0]


def test_a_block_holds_what_the_view_has_and_its_arrays_are_aligned():
    made = view_cell(cell_of([straight_run(0), straight_run(1, shift=lambda tick, actor: 0.25)]))
    block = cell_block(made)
    head, arrays, at = unpacked(block)
    assert at % 8 == 0
    assert head["name"] == "cell"
    assert head["outcomes"][1]["parting_tick"] == 1
    assert np.array_equal(arrays["offsets"], made.offsets.transpose(2, 0, 1, 3).reshape(-1))
    assert np.array_equal(arrays["reference"], made.reference.reshape(-1))
    assert arrays["ticks"].tolist() == made.ticks.tolist()


def test_a_ground_block_holds_its_triangles():
    surface = Surface("road", np.arange(9, dtype=np.float32).reshape(3, 3), np.array([[0, 1, 2]], np.uint32))
    head, arrays, _ = unpacked(ground_block(Ground("here", (surface,))))
    assert head == {"name": "here", "labels": ["road"]}
    assert arrays["vertices0"].tolist() == list(range(9))
    assert arrays["triangles0"].tolist() == [0, 1, 2]


def whole(**changes):
    made = view_cell(cell_of([straight_run(0), straight_run(1)], **changes))
    return page.whole_page(index_of(changes.get("cell", "x"), "1", [index_row(made, None)], []), [cell_block(made)], [])


def test_the_file_holds_everything_and_asks_nobody():
    text = whole()
    assert re.findall(r"(?:src|href)=\"(?!data:)", text.replace(page.part("viewer.js"), "")) == []
    assert "connect-src 'none'" in text
    packed = re.search(r'id="cell-0">([^<]*)</script>', text)[1]
    assert unpacked(gzip.decompress(base64.b64decode(packed)))[0]["repeats"] == 2


def test_the_policy_lets_only_this_script_and_this_sheet_run():
    text = whole()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(script) == len(style) == 1
    for kind, inside in (("script-src", script[0]), ("style-src", style[0])):
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_names_from_a_trace_never_end_the_element_they_stand_in():
    text = whole(cell=ODD, scenario=ODD, simulator=ODD)
    assert ODD not in text
    own = page.part("viewer.html").count("<img")
    assert text.replace(page.part("viewer.js"), "").count("<img") == own
    index = re.search(r'id="index">(.*?)</script>', text, re.DOTALL)[1]
    assert json.loads(index)["title"] == ODD


def test_a_name_that_looks_like_a_place_to_fill_is_left_as_it_is():
    assert (
        json.loads(re.search(r'id="index">(.*?)</script>', whole(cell="<!--script-->"), re.DOTALL)[1])["title"]
        == "<!--script-->"
    )


def test_equal_traces_give_equal_files(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("repeat,time,x,y\n0,0,1,1\n0,1,2,1\n1,0,1,1\n1,1,2.5,1\n")
    first, other = (view(log, progress=False).write(tmp_path / name).read_bytes() for name in ("a.html", "b.html"))
    assert first == other


@pytest.fixture
def server():
    def block(number):
        return [b"a block"][number]

    made = ViewServer(ViewSource(lambda: "<p>page</p>", block, block))
    made.start()
    yield made
    made.stop()


def ask(server, path, host=None):
    request = urllib.request.Request(server.url.rstrip("/") + path, headers={"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


def test_the_server_gives_page_and_blocks_and_nothing_else(server):
    status, body, headers = ask(server, "/")
    assert (status, body) == (200, b"<p>page</p>")
    assert "connect-src 'self'" in headers["Content-Security-Policy"]
    assert ask(server, "/cell-0.bin")[1] == b"a block"
    for path in ("/cell-1.bin", "/cell--1.bin", "/cell-99999999999.bin", "/../etc/passwd", "/ground-x.bin", "/%2e%2e/a"):
        assert ask(server, path)[0] == 404, path


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "[", ""])
def test_a_browser_led_here_under_another_name_gets_nothing(server, host):
    status, body, _ = ask(server, "/", host=host or " ")
    assert status == 421
    assert b"page" not in body


def test_a_port_that_is_taken_is_one_line(server):
    with pytest.raises(InputError, match=r"choose another --port"):
        ViewServer(ViewSource(str, bytes, bytes), server.port)


def test_it_listens_on_loopback_alone(server):
    assert server.listens_on == "127.0.0.1"
