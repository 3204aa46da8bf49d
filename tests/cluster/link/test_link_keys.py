"""Keys lie in files that only their owner can read, whole or not at all, and never show themselves."""

import pytest

from samepath.cluster.link import Keys, make_keys, read_keys, read_public, write_keys
from samepath.core.errors import InputError


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
