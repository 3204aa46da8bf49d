"""The live page in a real browser: it shows what is, it fits a telephone, and it says when nobody answers."""

import html
import json
import re
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from samepath.cluster.monitor.web import MonitorServer
from tests.support.headless import HEADLESS, MARKS
from tests.support.watched_clusters import desynchronised, node, one_fenced, picture, working
from tests.support.watched_web import Wishes, watched

pytestmark = MARKS


def browse(folder, url: str, *arguments: str, seconds: int = 4) -> str:
    """Open a page for so many seconds of the browser's own time, which passes at once. A complaint of the page is a failure."""
    command = [
        *(
            *HEADLESS,
            "--enable-logging=stderr",
            f"--user-data-dir={folder / 'profile'}",
            f"--virtual-time-budget={seconds * 1000}",
        ),
        *(*arguments, url),
    ]
    found = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=True)
    complaints = [line for line in found.stderr.splitlines() if "CONSOLE" in line and "Failed to load resource" not in line]
    assert complaints == []
    return found.stdout


def text_of(dom: str, name: str) -> str:
    """The text of the element with this id, without its tags."""
    inside = re.search(rf'<(\w+)[^>]*\bid="{name}"[^>]*>(.*?)</\1>', dom, re.DOTALL)[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", inside)).split())


def test_it_shows_nodes_figures_sensors_and_commands(tmp_path):
    seen = set()
    with watched(one_fenced, thumbnail=lambda sensor: seen.add(sensor) or picture(sensor)) as web:
        dom = browse(tmp_path, web.url, "--dump-dom", "--window-size=1280,2600")
    assert text_of(dom, "verdict-words") == "0 desynchronised"
    assert text_of(dom, "verdict-why") == "All 9 380 state digests of nodes are equal to the main server's."
    assert text_of(dom, "where").startswith("real time, map town, episode 1, tick 2 345")
    assert text_of(dom, "waiting") == "This tick waits for node-3."
    nodes = text_of(dom, "nodes")
    for words in ("node-1 127.0.0.1:2010", "render-host, process 4202", "fenced silent for 4 s", "joining", "draining", "87 %"):
        assert words in nodes
    facts = text_of(dom, "facts")
    for words in ("20.6 ms", "416", "at worst 31.0 ms", "99 % within 2.70 ms", "2 of 5"):
        assert words in facts
    assert text_of(dom, "problems").startswith("tick 2343: node-2 is fenced")
    assert "apply_control_to_vehicle" in text_of(dom, "commands")
    assert "overruled" in text_of(dom, "commands")
    assert "<title>samepath cluster crossing</title>" in dom
    assert dom.count("<polyline") == 2
    assert dom.count("<figure") == 12
    assert dom.count('<img alt="what sensor.camera.') == 11
    assert seen == set(range(200, 211))  # the LiDAR has no picture to ask for
    assert 'class="stale"' not in dom
    assert re.search(r'id="silence"[^>]*hidden', dom)


def test_it_says_when_the_main_server_is_gone(tmp_path):
    asked, seen = [], []

    def dying():
        asked.append(1)
        if len(asked) == 3:
            web.stop()  # before the answer: the browser's own time passes at once, and it may ask again at once
        return working()

    with watched(dying, thumbnail=seen.append) as web:
        dom = browse(tmp_path, web.url, "--dump-dom", seconds=9)
    assert len(asked) == 3
    assert seen == []  # in a small window the sensors are out of sight, and nothing is drawn for nobody
    words = text_of(dom, "silence")
    assert re.match(r"No answer since \d\d:\d\d:\d\d \([1-9] s\)\.", words)
    assert words.endswith("below is how it stood at tick 2 345.")
    assert '<body class="stale">' in dom
    assert "<title>No answer \u2013 samepath cluster crossing</title>" in dom
    assert "node-4" in text_of(dom, "nodes")


def test_it_recovers_and_forgets_what_is_no_longer_there(tmp_path):
    asked = []

    def changing():
        asked.append(1)
        if len(asked) == 1:
            return None
        if len(asked) in (3, 4):
            raise RuntimeError("a bug")
        status = working()
        if len(asked) < 5:
            return status
        return replace(desynchronised(), nodes=desynchronised().nodes[2:], sensors=status.sensors[:2])

    with watched(changing) as web:
        dom = browse(tmp_path, web.url, "--dump-dom", seconds=8)
    assert len(asked) > 5
    assert '<body class="">' in dom
    assert text_of(dom, "verdict-words") == "2 desynchronised"
    assert 'class="verdict bad"' in dom
    assert "<title>2 desynchronised \u2013 samepath cluster crossing</title>" in dom
    assert "node-1" not in text_of(dom, "nodes")
    assert dom.count("<figure") == 2


def test_names_from_outside_are_text(tmp_path):
    odd = "<img src=x onerror=\"document.title='caught'\">"
    status = working()
    nodes = (node(1, name=odd, host=odd, address=odd),)
    sensors = (replace(status.sensors[0], type=odd, node=odd, homes=(odd,)),)
    status = replace(status, name=odd, map_name=odd, nodes=nodes, sensors=sensors, waiting_for=(odd,), problems=(odd,))
    with watched(lambda: status) as web:
        dom = browse(tmp_path, web.url, "--dump-dom")
    assert "caught</title>" not in dom
    assert text_of(dom, "problems") == odd
    assert "<img src" not in dom.replace('<img src="/thumbnails', "")


# The page refuses to stand in a frame, and no window is as narrow as a telephone: here it is served without its policy.
FRAMES = """<!DOCTYPE html><body>
<iframe src="/" style="width:1200px;height:900px"></iframe><iframe src="/" style="width:390px;height:900px"></iframe><script>
const look = frame => {
  const page = frame.contentDocument, root = page.documentElement;
  const outside = [...page.querySelectorAll("main *, header *")].filter(element => {
    const box = element.getBoundingClientRect();
    return box.width && !element.closest("thead") && (box.right > root.clientWidth + 1 || box.left < -1);
  });
  return {
    width: root.scrollWidth, shown: root.clientWidth, figures: page.querySelectorAll("figure").length,
    outside: outside.map(element => element.outerHTML.slice(0, 80)) };
};
setTimeout(() => {
  document.body.dataset.seen = JSON.stringify([...document.querySelectorAll("iframe")].map(look));
}, 3000);
</script>"""


def test_it_fits_a_desk_and_a_telephone(tmp_path):
    inside = MonitorServer(one_fenced, picture, Wishes(), "token")

    class Framed(BaseHTTPRequestHandler):
        def do_GET(self):
            answer = inside._web.answer("GET", self.path, lambda name: "localhost")
            body, kind = (FRAMES.encode(), "text/html") if self.path == "/frames" else (answer.body, answer.content_type)
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Framed) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/frames"
        dom = browse(tmp_path, url, "--dump-dom", "--window-size=1800,1000", seconds=5)
        server.shutdown()
    inside.stop()
    desk, telephone = json.loads(html.unescape(re.search(r'data-seen="([^"]*)"', dom)[1]))
    assert (desk["shown"], telephone["shown"]) == (1200, 390)
    for seen in (desk, telephone):
        assert seen["width"] == seen["shown"]
        assert seen["figures"] == 12
    assert desk["outside"] == []
    # The table of commands may be pushed sideways within its own frame.
    assert [element for element in telephone["outside"] if "<t" not in element] == []


def test_it_is_dark_where_the_reader_wants_it_dark(tmp_path):
    import numpy as np
    from PIL import Image

    shot = tmp_path / "page.png"
    with watched(working) as web:
        dark = "--blink-settings=preferredColorScheme=0"
        browse(tmp_path, web.url, "--window-size=1280,1400", f"--screenshot={shot}", dark)
    pixels = np.asarray(Image.open(shot).convert("RGB"))
    paper, good = (22, 28, 34), (79, 201, 159)
    assert tuple(pixels[-1, 2]) == paper
    assert (pixels == good).all(axis=2).sum() > 500  # the verdict's bar and words, the nodes' badges
    inked = (pixels != paper).any(axis=2).mean(axis=1)
    assert (inked > 0).mean() > 0.6
