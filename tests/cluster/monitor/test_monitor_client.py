"""How a cluster is found from its run folder, and what is said when it is not there."""

import socket
import stat
import threading

import pytest

from samepath.cluster.monitor.client import (
    ADDRESS_FILE,
    TOKEN_FILE,
    MonitorAddress,
    RefusedError,
    SilentError,
    drain,
    find_cluster,
    new_token,
    publish_address,
    read_status,
    remove_address,
    scale,
    stop,
)
from samepath.core.errors import InputError, SamepathError
from tests.support.watched_clusters import working
from tests.support.watched_web import TOKEN, watched


def test_a_run_folder_leads_to_its_cluster(tmp_path):
    folder = tmp_path / "run" / "deep"
    token = new_token()
    with watched(working, token=token) as web:
        publish_address(folder, web.url, token)
        site = find_cluster(folder)
        assert site.url == web.url
        assert read_status(site) == working()
        assert drain(site, "node-2") == "node-2 is drained"
        assert scale(site, 3) == "3 nodes from now on"
        assert stop(site) == "stopping"
        assert web.wishes.made == [("drain", "node-2"), ("scale", 3), ("stop",)]
    with pytest.raises(SilentError, match="no cluster answers at"):
        read_status(site)


def test_the_token_is_for_its_owner_alone_and_new_every_time(tmp_path):
    first, second = new_token(), new_token()
    publish_address(tmp_path, "http://127.0.0.1:1", first)
    path = tmp_path / TOKEN_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)  # left over from somebody careless
    publish_address(tmp_path, "http://127.0.0.1:1", second)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first != second
    assert len(second) >= 40
    assert find_cluster(tmp_path).token == second
    remove_address(tmp_path)
    assert list(tmp_path.iterdir()) == []
    remove_address(tmp_path)


def test_the_token_is_not_written_through_a_link_of_somebody_else(tmp_path):
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / TOKEN_FILE).symlink_to(other)
    publish_address(tmp_path, "http://127.0.0.1:1", new_token())
    assert other.read_text() == "kept"
    assert not (tmp_path / TOKEN_FILE).is_symlink()


def test_a_wrong_token_is_refused_in_words(tmp_path):
    with watched(working) as web, pytest.raises(RefusedError, match="must hold the run folder's token"):
        stop(MonitorAddress(web.url, "wrong"))


def test_without_the_token_nothing_is_even_asked(tmp_path):
    with pytest.raises(InputError, match=TOKEN_FILE):
        stop(MonitorAddress("http://127.0.0.1:1"))


def test_what_the_main_server_says_is_passed_on(tmp_path):
    with watched(working) as web:
        with pytest.raises(RefusedError, match="at most 8 nodes fit this machine, but 20 came"):
            scale(MonitorAddress(web.url, TOKEN), 20)
        with pytest.raises(RefusedError, match="there are /nodes/NAME/drain"):
            drain(MonitorAddress(web.url, TOKEN), "../../stop?")
        assert web.wishes.made == []


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (None, "is no folder"),
        ({}, "has no cluster running"),
        ({ADDRESS_FILE: "{"}, "cannot be read"),
        ({ADDRESS_FILE: "[]"}, "with a url"),
        ({ADDRESS_FILE: '{"url": 3}'}, "with a url"),
        ({ADDRESS_FILE: '{"url": "file:///etc/passwd"}'}, "http://127.0.0.1:8200"),
    ],
)
def test_a_folder_without_a_cluster_is_said_in_one_line(tmp_path, files, words):
    folder = tmp_path / "run"
    if files is not None:
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
    with pytest.raises(SamepathError, match=words) as caught:
        find_cluster(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8200", "https://localhost", "http://", "http://[::1", "http://a:99999", "http://a:b"]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(InputError, match="such as http"):
        MonitorAddress(url)


def test_a_proxy_of_the_environment_has_no_part_in_it(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with watched(working) as web:
        assert read_status(MonitorAddress(web.url)).name == "crossing"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "no cluster answers"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "no cluster answers"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "is this a samepath cluster"),
        (b"HTTP/1.0 500 Oh\r\n\r\n\x1b[2Jwoe\n", r"\?\[2Jwoe"),
    ],
)
def test_somebody_else_on_the_port_is_said_in_one_line(answer, words):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            line, _ = server.accept()
            with line:
                line.recv(4096)
                line.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(SamepathError, match=words) as caught:
            read_status(MonitorAddress(f"http://127.0.0.1:{server.getsockname()[1]}"))
        thread.join(60)
    assert str(caught.value).isprintable()
