"""Which cluster ``--ray auto`` means is read from a file, and that file is believed only if it is ours."""

import pytest

pytest.importorskip("ray")

from samepath.core import ray_cluster
from samepath.core.errors import ClusterError
from tests.support.foreign import given_away


@pytest.fixture
def address(tmp_path, monkeypatch):
    """The file that Ray writes, with an address at which nobody answers."""
    monkeypatch.setattr(ray_cluster, "_LAST_STARTED", tmp_path / "ray_current_cluster")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "ray_current_cluster"
    path.write_text("127.0.0.1:1\n")
    path.chmod(0o644)
    return path


def refusal(address="auto"):
    with pytest.raises(ClusterError) as caught:
        ray_cluster.connect(address, "no Ray")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_cluster_of_a_file_of_ours_is_asked(address):
    assert refusal().startswith("--ray 127.0.0.1:1: nobody answers there")


def test_a_file_that_belongs_to_somebody_else_is_refused(address, monkeypatch):
    given_away(monkeypatch, address)
    assert "belongs to user 54321, neither to you nor to root" in refusal()
    assert "give the cluster's address as --ray HOST:PORT" in refusal()


def test_a_file_that_everybody_can_write_is_refused(address):
    address.chmod(0o666)
    assert "can be written by other users" in refusal()


def test_a_link_is_refused_wherever_it_leads(address, tmp_path):
    (tmp_path / "mine").write_text("127.0.0.1:1")
    address.unlink()
    address.symlink_to(tmp_path / "mine")
    assert "cannot be read: Too many levels of symbolic links" in refusal()


def test_without_a_file_ray_is_not_left_to_look_for_one_among_everybodys_processes(address, monkeypatch):
    address.unlink()
    monkeypatch.setattr(ray_cluster, "import_ray", lambda _: pytest.fail("Ray was asked"))
    assert "no Ray runs on this machine" in refusal()


def test_the_user_may_name_the_cluster_and_then_no_file_counts(address, monkeypatch):
    address.chmod(0o666)
    assert refusal("127.0.0.1:2").startswith("--ray 127.0.0.1:2: nobody answers there")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:3")
    assert refusal().startswith("--ray 127.0.0.1:3: nobody answers there")


@pytest.mark.parametrize("named", [True, False])
def test_a_token_that_others_can_read_or_have_written_is_refused(address, tmp_path, monkeypatch, named):
    path = tmp_path / ".ray" / "auth_token"
    path.parent.mkdir()
    path.write_text("secret")
    path.chmod(0o600)
    if named:
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    assert "nobody answers" in refusal()
    path.chmod(0o604)
    assert f"--ray: the token {path} can be read by other users: chmod 600 it" in refusal()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert "nobody answers" in refusal(), "it is not used"
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    path.chmod(0o600)
    given_away(monkeypatch, path)
    assert "belongs to user 54321" in refusal()
