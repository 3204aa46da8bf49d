"""Where a cluster is watched from: two small files in its run folder, and the questions that can be asked there.

``watching.json`` says at which address the main server answers; ``watching.token`` (for its owner's eyes only) holds the word
that whoever wants to change something must know.
"""

import contextlib
import http.client
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from samepath.cluster.monitor.status import ClusterStatus, from_json, plain
from samepath.core.errors import ClusterError, InputError, StoreError
from samepath.core.files import make_folder, write_text_atomically
from samepath.core.web import TOKEN_HEADER

RUN_FOLDER: Final = Path("cluster-run")
"""Where a cluster leaves its files unless told otherwise."""
ADDRESS_FILE: Final = "watching.json"
TOKEN_FILE: Final = "watching.token"  # noqa: S105 - a name
_MOST_BYTES: Final = 32 << 20
_ANSWER_S: Final = 5.0


class SilentError(ClusterError):
    """Nobody answers where a cluster should."""


class RefusedError(ClusterError):
    """The main server answers, but does not do it."""


@dataclass(frozen=True)
class MonitorAddress:
    """Where to ask; ``token`` is empty for those who only look."""

    url: str
    token: str = ""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            good = parts.scheme == "http" and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:
            good = False
        if not good:
            raise InputError(f"an address such as http://127.0.0.1:8200 was wanted, but {self.url!r} came")


def new_token() -> str:
    """Return a word that nobody guesses."""
    return secrets.token_urlsafe(32)


def publish_address(folder: Path, url: str, token: str) -> None:
    """Leave address and token in a run folder, the token readable by its owner alone."""
    path = make_folder(folder) / TOKEN_FILE
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.unlink(missing_ok=True)
        # Narrow from its first moment: nobody can have opened it before.
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(token + "\n")
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}; choose another run folder") from error
    # The address last: who finds it finds the token too.
    write_text_atomically(folder / ADDRESS_FILE, json.dumps({"url": url}) + "\n")


def remove_address(folder: Path) -> None:
    """Take both files away, as a main server that ends does."""
    for name in (ADDRESS_FILE, TOKEN_FILE):
        with contextlib.suppress(OSError):
            (folder / name).unlink(missing_ok=True)


def find_cluster(folder: Path) -> MonitorAddress:
    """Read where the cluster of a run folder answers, and its token if we may."""
    path = folder / ADDRESS_FILE
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        what = "has no cluster running" if folder.is_dir() else "is no folder"
        raise SilentError(f"{folder} {what} ({ADDRESS_FILE} is not there): name its run folder with --run") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    url = found.get("url") if isinstance(found, dict) else None
    if not isinstance(url, str):
        raise InputError(f"{path}: an object with a url was wanted")
    token = ""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        token = (folder / TOKEN_FILE).read_text("utf-8").strip()
    return MonitorAddress(url, token)


def read_status(site: MonitorAddress, timeout_s: float = _ANSWER_S) -> ClusterStatus:
    """Ask how the cluster stands."""
    code, body = _ask(site, "GET", "/status.json", timeout_s)
    if code != http.client.OK:
        raise RefusedError(f"{site.url}: {_line(body)}")
    try:
        return from_json(body)
    except InputError as error:
        raise InputError(f"{site.url}: {error}; is this a samepath cluster of the same version?") from error


def drain(site: MonitorAddress, node: str) -> str:
    """Ask that a node finish what it has and get nothing more."""
    return _command(site, f"/nodes/{quote(node, safe='')}/drain")


def scale(site: MonitorAddress, nodes: int) -> str:
    """Ask for so many nodes."""
    return _command(site, f"/scale?nodes={nodes}")


def stop(site: MonitorAddress) -> str:
    """Ask the cluster to end."""
    return _command(site, "/stop")


def _command(site: MonitorAddress, path: str) -> str:
    if not site.token:
        raise InputError(f"{site.url}: to change something the run folder's {TOKEN_FILE} is needed, and it cannot be read")
    code, body = _ask(site, "POST", path, _ANSWER_S)
    if code != http.client.OK:
        raise RefusedError(f"{site.url}: {_line(body)}")
    return _line(body)


def _ask(site: MonitorAddress, method: str, path: str, timeout_s: float) -> tuple[int, bytes]:
    # Straight to the address: a proxy from the environment has nothing to do with a loopback page.
    parts = urlsplit(site.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout_s)
    headers = {TOKEN_HEADER: site.token} if method == "POST" else {}
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read(_MOST_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        # ValueError: a host name that is none.
        words = plain(str(getattr(error, "strerror", None) or error).strip()[:100]) or type(error).__name__
        raise SilentError(f"no cluster answers at {site.url} ({words}); samepath cluster start begins one") from error
    finally:
        connection.close()
    if len(body) > _MOST_BYTES:
        raise InputError(f"{site.url}: an answer of at most {_MOST_BYTES >> 20} MiB was wanted")
    return answer.status, body


def _line(body: bytes) -> str:
    """What was said, as one line that a terminal can show."""
    return plain(body[:500].decode("utf-8", "replace").strip()) or "no reason was given"
