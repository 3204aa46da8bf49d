"""The web server of a main server, asked over real sockets: politely, rudely and by strangers."""

import http.client
import io
import json
import random
import socket
import struct
import sys
import threading

import pytest
from PIL import Image

from samepath.cluster.monitor.client import TOKEN_HEADER
from samepath.cluster.monitor.status import from_json
from samepath.cluster.monitor.web import MonitorServer
from samepath.core.errors import InputError
from tests.support.watched_clusters import working
from tests.support.watched_web import TOKEN, Wishes, watched

WITH_TOKEN = {TOKEN_HEADER: TOKEN}
NO_LIBRARY = b"metrics need prometheus_client: pip install 'samepath[cluster]'\n"


@pytest.fixture(scope="module")
def web():
    with watched(working) as found:
        yield found


def ask(web, method, path, headers=None, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=60)
    connection.request(method, path, headers=headers or {}, body=body)
    answer = connection.getresponse()
    found = (answer.status, answer.read(), answer.headers)
    connection.close()
    return found


def raw(web, data: bytes) -> bytes:
    """Send bytes, say that no more come, and read until the server closes."""
    with socket.create_connection(("127.0.0.1", web.port), timeout=60) as line:
        received = b""
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            while block := line.recv(65536):
                received += block
        except ConnectionResetError:  # it closed before it had read all
            pass
        return received


def test_the_status_is_what_was_published(web):
    code, body, headers = ask(web, "GET", "/status.json")
    assert code == 200
    assert headers["Content-Type"] == "application/json"
    assert headers["Cache-Control"] == "no-store"
    assert from_json(body) == working()


def test_the_page_brings_everything_with_it_and_its_policy_allows_nothing_else(web):
    code, body, headers = ask(web, "GET", "/")
    assert code == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"].startswith("'sha256-")
    assert policy["frame-ancestors"] == "'none'"
    page = body.decode()
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    for outside in ('src="', "@import", "url("):
        assert outside not in page
    for unsafe in ("innerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert unsafe not in page


def test_metrics_are_served(web):
    pytest.importorskip("prometheus_client")
    code, body, headers = ask(web, "GET", "/metrics")
    assert code == 200
    assert headers["Content-Type"].startswith("text/plain; version=")
    assert b"samepath_cluster_desynchronised_digests_total 0.0\n" in body


def test_metrics_without_their_library_are_501_and_one_line(web, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    code, body, _ = ask(web, "GET", "/metrics")
    assert code == 501
    assert body == NO_LIBRARY
    assert ask(web, "GET", "/status.json")[0] == 200


def test_thumbnails_are_pictures(web):
    code, body, headers = ask(web, "GET", "/thumbnails/200.png?frame=12")
    assert (code, headers["Content-Type"]) == (200, "image/png")
    assert Image.open(io.BytesIO(body)).size == (180, 120)


@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/thumbnails/999.png",
        "/thumbnails/230.png",  # a LiDAR
        "/thumbnails/../token.png",
        "/thumbnails/12345678901.png",
        "/thumbnails/%32%30%30.png",
        "/thumbnails/%D9%A2%D9%A0%D9%A0.png",
        "/../../etc/passwd",
        "/status.json/",
    ],
)
def test_what_is_not_there_is_404(web, path):
    code, body, _ = ask(web, "GET", path)
    assert code == 404
    assert body.count(b"\n") == 1


@pytest.mark.parametrize("path", ["/", "/status.json", "/metrics", "/thumbnails/200.png", "/nowhere"])
def test_head_is_get_without_the_body(web, path):
    code, body, headers = ask(web, "HEAD", path)
    got, whole, _ = ask(web, "GET", path)
    assert (code, body) == (got, b"")
    assert int(headers["Content-Length"]) == len(whole)


def test_the_main_server_is_asked_only_for_sensors_that_there_are():
    asked = []
    with watched(working, thumbnail=asked.append) as web:
        for sensor in (0, 199, 200, 211, 9_999_999_999):
            assert ask(web, "GET", f"/thumbnails/{sensor}.png")[0] == 404
    assert asked == [200]


def test_before_the_first_status_it_says_so():
    with watched(lambda: None) as web:
        assert ask(web, "GET", "/status.json")[:2] == (503, b"the cluster has just begun; ask again\n")
        assert ask(web, "POST", "/nodes/node-1/drain", WITH_TOKEN)[0] == 503
        assert ask(web, "GET", "/")[0] == 200
        assert ask(web, "GET", "/metrics")[:2] in ((200, b""), (501, NO_LIBRARY))


@pytest.mark.parametrize(
    ("path", "wish"), [("/nodes/node-2/drain", ("drain", "node-2")), ("/scale?nodes=6", ("scale", 6)), ("/stop", ("stop",))]
)
def test_who_knows_the_token_may_change_something(path, wish):
    with watched(working) as web:
        code, body, _ = ask(web, "POST", path, WITH_TOKEN, body=b"ignored")
        assert code == 200
        assert body.count(b"\n") == 1
        assert web.wishes.made == [wish]


@pytest.mark.parametrize("path", ["/nodes/node-2/drain", "/nodes/nobody/drain", "/scale?nodes=6", "/scale", "/stop"])
@pytest.mark.parametrize("token", [None, "", "the-wor", "the-word2", "ünlike"])
def test_who_does_not_is_refused_and_learns_nothing(web, path, token):
    code, body, _ = ask(web, "POST", path, {} if token is None else {TOKEN_HEADER: token.encode("latin-1")})
    assert code == 403
    assert TOKEN_HEADER.encode() in body
    assert TOKEN.encode() not in body
    assert web.wishes.made == []


def test_an_empty_token_lets_nobody_in():
    with watched(working, token="") as web:
        assert ask(web, "POST", "/stop", {TOKEN_HEADER: ""})[0] == 403
        assert web.wishes.made == []


@pytest.mark.parametrize("path", ["/nodes/node-2/drain", "/scale?nodes=6", "/stop"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_looking_changes_nothing_even_with_the_token(web, path, method):
    code, _, headers = ask(web, method, path, WITH_TOKEN)
    assert (code, headers["Allow"]) == (405, "POST")
    assert web.wishes.made == []


@pytest.mark.parametrize(
    "query", ["", "nodes=", "nodes=0", "nodes=-1", "nodes=2.5", "nodes=9999", "nodes=1&nodes=2", "nodes=%D9%A3"]
)
def test_only_a_number_of_nodes_is_a_scale(web, query):
    code, body, _ = ask(web, "POST", f"/scale?{query}", WITH_TOKEN)
    assert code == 400
    assert b"from 1 to" in body


def test_what_cannot_be_done_is_said_in_the_main_servers_words(web):
    assert ask(web, "POST", "/scale?nodes=9", WITH_TOKEN)[:2] == (409, b"at most 8 nodes fit this machine, but 9 came\n")
    code, body, _ = ask(web, "POST", "/nodes/node-9/drain", WITH_TOKEN)
    assert (code, body) == (404, b"there is no node node-9; there are: node-1, node-2, node-3, node-4\n")
    assert ask(web, "POST", "/status.json", WITH_TOKEN)[0] == 404
    assert web.wishes.made == []


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "[::1", "127.0.0.1.evil.example", "a b"]
)
def test_a_browser_led_here_under_another_name_gets_nothing(web, host):
    for method, path in (("GET", "/status.json"), ("GET", "/"), ("GET", "/thumbnails/200.png"), ("POST", "/stop")):
        code, body, _ = ask(web, method, path, {"Host": host, **WITH_TOKEN})
        assert code == 421
        assert b"crossing" not in body
    assert web.wishes.made == []


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9999", "127.0.0.1", "[::1]:80", "10.1.2.3:8200"])
def test_addresses_and_localhost_are_served_through_any_tunnel(web, host):
    assert ask(web, "GET", "/status.json", {"Host": host})[0] == 200


def test_a_name_that_was_given_is_served():
    with watched(working, names=["Main.Cluster.Local"]) as web:
        assert ask(web, "GET", "/status.json", {"Host": "main.cluster.local:8200"})[0] == 200
        assert ask(web, "GET", "/status.json", {"Host": "other.cluster.local"})[0] == 421


def test_it_listens_on_loopback_alone(web):
    assert web.listens_on == "127.0.0.1"
    assert web.url == f"http://127.0.0.1:{web.port}/"


def test_a_port_that_is_taken_is_said_in_one_line(web):
    with pytest.raises(InputError, match="choose another port"):
        MonitorServer(working, lambda sensor: None, Wishes(), TOKEN, port=web.port)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / SPDY\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),  # somebody speaks TLS
        b"GET /" + b"a" * 70_000 + b" HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.0\r\n" + b"".join(b"X-%d: 1\r\n" % index for index in range(200)) + b"\r\n",
        b"GET / HTTP/1.0\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET //[ HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"BREW / HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"POST /stop HTTP/1.0\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /stop HTTP/1.0\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /stop HTTP/1.0\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc",
        b"POST /stop HTTP/1.0\r\nHost: localhost\r\nContent-Length: \xb2\r\n\r\nabc",
    ],
)
def test_garbage_is_refused_and_the_next_is_served(web, data):
    answer = raw(web, data)
    if answer:
        assert b" 200 " not in answer.splitlines()[0]
        assert b"Traceback" not in answer
        assert b"<" not in answer
    assert ask(web, "GET", "/status.json")[0] == 200
    assert web.wishes.made == []


def test_noise_breaks_nothing(web, capfd):
    chance = random.Random(7)
    parts = [
        b"GET ",
        b"POST ",
        b"/stop",
        b"/scale?nodes=",
        b" HTTP/1.1",
        b"\r\n",
        b"Host: localhost",
        b": ",
        b"\0",
        b"\xff\xfe",
        b"%",
    ]
    for _ in range(150):
        raw(web, b"".join(chance.choice([*parts, chance.randbytes(3)]) for _ in range(chance.randrange(30))))
    assert ask(web, "GET", "/status.json")[0] == 200
    assert web.wishes.made == []
    assert "Traceback" not in capfd.readouterr().err


def test_clients_that_say_nothing_do_not_keep_others_out(web):
    silent = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(10)]
    try:
        assert ask(web, "GET", "/status.json")[0] == 200
    finally:
        for connection in silent:
            connection.close()


def test_however_many_trickle_the_page_is_within_reach(web):
    half_said = []
    try:
        for _ in range(100):
            half_said.append(socket.create_connection(("127.0.0.1", web.port), timeout=60))
            half_said[-1].sendall(b"GET / HTTP/1.0\r\nX-Slow: ")
        for _ in range(5):
            assert ask(web, "GET", "/status.json")[0] == 200
        # Whoever came first had to give way.
        assert half_said[0].recv(100) == b""
    finally:
        for connection in half_said:
            connection.close()


def test_who_does_not_fetch_the_answer_gives_way_too():
    with watched(working, thumbnail=lambda sensor: bytes(32 << 20)) as web:
        lazy = [socket.create_connection(("127.0.0.1", web.port), timeout=60) for _ in range(40)]
        try:
            for connection in lazy:
                connection.sendall(b"GET /thumbnails/200.png HTTP/1.0\r\nHost: localhost\r\n\r\n")
            assert ask(web, "GET", "/status.json")[0] == 200
        finally:
            for connection in lazy:
                connection.close()


def test_a_request_that_comes_byte_by_byte_is_broken_off_in_time(monkeypatch):
    from samepath.core import web as module

    monkeypatch.setattr(module, "_REQUEST_S", 0.2)
    monkeypatch.setattr(module, "_LOOK_S", 0.02)
    with watched(working) as web, socket.create_connection(("127.0.0.1", web.port), timeout=0.01) as trickling:
        trickling.sendall(b"GET / HTTP/1.0\r\nX-Slow: ")
        is_over = False
        while not is_over:
            try:
                trickling.sendall(b"x")
                is_over = trickling.recv(100) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                is_over = True
        monkeypatch.undo()  # who asks in time may be late on a busy machine
        assert ask(web, "GET", "/status.json")[0] == 200


def test_nobody_who_waits_for_us_has_to_give_way():
    begun, go_on, answers = threading.Semaphore(0), threading.Event(), []

    def slow(sensor):
        begun.release()
        go_on.wait(60)
        return b"png"

    with watched(working, thumbnail=slow) as web:
        waiting = [
            threading.Thread(target=lambda: answers.append(ask(web, "GET", "/thumbnails/200.png")[0])) for _ in range(32)
        ]
        for thread in waiting:
            thread.start()
        for _ in waiting:
            assert begun.acquire(timeout=60)
        with socket.create_connection(("127.0.0.1", web.port), timeout=60) as too_many:
            assert too_many.recv(100) == b""
        go_on.set()
        for thread in waiting:
            thread.join(60)
    assert answers == [200] * 32


def test_a_client_that_leaves_in_the_middle_leaves_no_trace(web, capfd):
    for _ in range(5):
        line = socket.create_connection(("127.0.0.1", web.port))
        line.sendall(b"GET /status.json HTTP/1.0\r\nHost: localhost\r\n\r\n")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
        line.close()
    assert ask(web, "GET", "/status.json")[0] == 200
    assert "Traceback" not in capfd.readouterr().err


def test_a_bug_behind_it_is_an_answer_and_a_line_in_the_log():
    def broken(sensor):
        raise ValueError("a bug")

    with watched(working, thumbnail=broken) as web:
        code, body, _ = ask(web, "GET", "/thumbnails/200.png")
        assert code == 500
        assert b"bug" not in body
        assert web.said == ["GET '/thumbnails/200.png': ValueError: a bug"]
        assert ask(web, "GET", "/status.json")[0] == 200


def test_a_status_is_written_once_however_many_look(monkeypatch):
    from samepath.cluster.monitor import web as module

    status, written = working(), []
    with watched(lambda: status) as web:
        monkeypatch.setattr(module, "to_json", lambda status: written.append(status) or b"{}")
        for _ in range(5):
            assert ask(web, "GET", "/status.json")[1] == b"{}"
    assert written == [status]


def test_a_slow_picture_holds_nobody_up():
    begun, go_on = threading.Event(), threading.Event()

    def slow(sensor):
        begun.set()
        go_on.wait(60)
        return b"png"

    with watched(working, thumbnail=slow) as web:
        waiting = threading.Thread(target=ask, args=(web, "GET", "/thumbnails/200.png"))
        waiting.start()
        assert begun.wait(60)
        assert json.loads(ask(web, "GET", "/status.json")[1])["name"] == "crossing"
        go_on.set()
        waiting.join(60)
        assert not waiting.is_alive()


def test_after_stop_nobody_answers_and_the_port_is_free():
    with watched(working) as web:
        port = web.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=60)
    with watched(working, port=port) as again:
        assert ask(again, "GET", "/status.json")[0] == 200


def test_a_probe_asks_the_main_server_itself_and_not_its_status():
    wrong = []
    notes = []
    with watched(working, complaint=lambda: "".join(wrong), notes=lambda: "".join(notes)) as web:
        assert ask(web, "GET", "/healthz")[:2] == (200, b"ok\n")
        notes.append("simulated/wall 0.88")
        assert ask(web, "GET", "/healthz")[:2] == (200, b"ok\nsimulated/wall 0.88\n")
        wrong.append("the episode has been busy for 91 s at frame 7")
        assert ask(web, "GET", "/healthz")[:2] == (503, b"the episode has been busy for 91 s at frame 7\n")
        assert ask(web, "GET", "/status.json")[0] == 200  # which is as it was
