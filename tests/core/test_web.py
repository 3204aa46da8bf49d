"""The small web server's token: made for its owner's eyes, read back, refused where it is none."""

import stat

import pytest

from samepath.core.errors import InputError
from samepath.core.web import TOKEN_HEADER, HttpRequest, knows_token, token_in


def test_a_token_that_is_not_there_is_made_for_its_owner_alone_and_stays(tmp_path):
    file = tmp_path / "token"
    token = token_in(file)
    assert len(token) >= 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token_in(file) == token
    assert token_in(tmp_path / "other") != token


@pytest.mark.parametrize("text", ["", "short", "x" * 300, "sixteen letters with spaces", 'quotes-quotes-"quotes', "ä" * 20])
def test_what_is_no_token_is_one_line(tmp_path, text):
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(InputError, match="16 to 200 letters, digits, - and _ was wanted"):
        token_in(file)


def test_a_token_that_cannot_be_made_is_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be made: No such file"):
        token_in(tmp_path / "nowhere" / "token")


@pytest.mark.parametrize(
    ("given", "token", "knows"), [("a", "a", True), ("b", "a", False), ("", "", False), ("\xe4", "a", False)]
)
def test_only_who_brings_the_token_knows_it(given, token, knows):
    request = HttpRequest("POST", "/", "", {TOKEN_HEADER: given}.__getitem__)
    assert knows_token(request, token) is knows


def test_fields_come_once_each_and_not_too_many():
    assert HttpRequest("GET", "/", "a=1&b=", str).fields() == {"a": "1", "b": ""}
    for query in ("a=1&a=2", "&".join(f"a{number}=1" for number in range(40))):
        with pytest.raises(InputError):
            HttpRequest("GET", "/", query, str).fields()
