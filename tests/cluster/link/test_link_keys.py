"""Keys lie in files that only their owner can read, whole or not at all, and never show themselves."""

import pytest

from samepath.cluster.link import Keys, make_keys, read_keys, read_public, write_keys
from samepath.cluster.link.keys import KnownKeys
from samepath.core.errors import InputError
from tests.support.foreign import given_away


def test_keys_come_back_as_they_were_written_and_only_the_owner_can_read_the_secret(tmp_path):
    folder, keys = tmp_path / "keys", make_keys()
    write_keys(folder, "main", keys)
    assert read_keys(folder, "main") == keys
    assert read_public(folder, "main") == keys.public
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())}
    assert modes == {"keys": 0o700, "main.public": 0o644, "main.secret": 0o600}
    newer = make_keys()
    assert newer != keys
    write_keys(folder, "main", newer)
    assert read_keys(folder, "main") == newer
    assert len(list(folder.iterdir())) == 2


def test_a_secret_shows_itself_nowhere():
    keys = make_keys()
    assert keys.secret not in repr(keys)
    assert keys.secret not in str(keys)
    with pytest.raises(InputError) as caught:
        Keys(keys.public, keys.secret + "x")
    assert keys.secret not in str(caught.value)


@pytest.mark.parametrize("content", ["", "short", "ä" * 40, "\x00" * 40, "a" * 41, "a" * 39 + " "])
def test_a_file_that_holds_no_key_is_one_line(tmp_path, content):
    write_keys(tmp_path, "node", make_keys())
    for ending in ("public", "secret"):
        (tmp_path / f"node.{ending}").write_text(content, "utf-8")
        with pytest.raises(InputError, match=r"^.*node.(public|secret) should hold one line of 40 characters of Z85.*$"):
            read_keys(tmp_path, "node")


def test_a_missing_key_and_an_open_secret_are_one_line(tmp_path):
    with pytest.raises(InputError, match=r"^key .*main.secret cannot be read: No such file.*$"):
        read_keys(tmp_path, "main")
    with pytest.raises(InputError, match=r"^key .*main.public cannot be read: No such file.*$"):
        read_public(tmp_path, "main")
    write_keys(tmp_path, "main", make_keys())
    (tmp_path / "main.secret").chmod(0o640)
    with pytest.raises(InputError, match=r"^.*main.secret can be read by other users: chmod 600 it.*$"):
        read_keys(tmp_path, "main")


@pytest.mark.parametrize("name", ["", "../main", "a/b", "a.b", "é", "a b"])
def test_a_name_is_no_path(tmp_path, name):
    for action in (lambda: write_keys(tmp_path, name, make_keys()), lambda: read_keys(tmp_path, name)):
        with pytest.raises(InputError, match=r"^a key's name has letters"):
            action()


def cluster_folder(folder):
    """Keys of a main server and two nodes, and what else may lie about; returns the nodes' public keys."""
    names = {name: make_keys() for name in ("main", "node", "other")}
    for name, keys in names.items():
        write_keys(folder, name, keys)
    return names["node"].public, names["other"].public


def test_a_file_that_is_no_key_keeps_nobody_out_and_is_told_of_once(tmp_path):
    folder, lines = tmp_path / "keys", []
    node, other = cluster_folder(folder)
    (folder / "a copy of node.public").write_text(node)
    (folder / "aaa.public").write_text("no key at all")
    (folder / "bad\nname.public").write_text(node)
    (folder / "folder.public").mkdir()
    (folder / "gone.public").symlink_to(folder / "nowhere")
    known = KnownKeys(folder, "main", lines.append)
    for _ in range(3):
        assert known(node)
        assert known(other)
        assert not known(make_keys().public)
        assert not known(read_public(folder, "main")), "the main server is no node"
    assert len(lines) == 5
    assert all(line.startswith("keys: left out: ") and "\n" not in line for line in lines)
    (folder / "other.public").unlink()
    assert not known(other)


def test_a_key_that_somebody_else_put_there_lets_nobody_in(tmp_path, monkeypatch):
    folder, lines = tmp_path / "keys", []
    node, other = cluster_folder(folder)
    known = KnownKeys(folder, "main", lines.append)
    (folder / "other.public").chmod(0o666)
    assert known(node)
    assert not known(other)
    assert lines == [
        f"keys: left out: {folder}/other.public can be written by other users: chmod go-w it, after a look at what is there"
    ]
    given_away(monkeypatch, folder / "node.public")
    assert not known(node)
    assert "belongs to user" in lines[-1]


def test_a_folder_that_others_can_write_lets_nobody_in_and_takes_no_secret(tmp_path):
    folder, lines = tmp_path / "keys", []
    node, _ = cluster_folder(folder)
    folder.chmod(0o777)
    known = KnownKeys(folder, "main", lines.append)
    assert not known(node)
    assert not known(node)
    assert len(lines) == 1
    for action in (
        lambda: read_keys(folder, "main"),
        lambda: read_public(folder, "main"),
        lambda: write_keys(folder, "new", make_keys()),
    ):
        with pytest.raises(
            InputError, match=r"^.*keys can be written by other users: chmod go-w it, after a look at what is there$"
        ):
            action()
    assert not (folder / "new.secret").exists()


def test_a_pair_that_belongs_to_somebody_else_is_refused(tmp_path, monkeypatch):
    write_keys(tmp_path / "keys", "main", make_keys())
    given_away(monkeypatch, tmp_path / "keys" / "main.secret")
    with pytest.raises(InputError, match=r"belongs to user \d+, neither to you nor to root: chown it"):
        read_keys(tmp_path / "keys", "main")
