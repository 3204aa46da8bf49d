"""Install this checkout, with the versions and hashes of its lock, for the Python that runs this file.

usage: .venv/bin/python locks/install.py [--without-samepath] [EXTRA ...]

A package that is already installed at the version of the lock stays. Without a lock for the Python or
the machine, this prints one line and installs the newest versions that pyproject.toml allows.
"""

import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PIP: Final = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
_PACKAGE: Final = re.compile(r"^[A-Za-z0-9].*?^    # (?P<extras>.*?)$\n?", re.MULTILINE | re.DOTALL)


def select(lock: str, extras: set[str]) -> str:
    """Return a requirements file with the packages of a lock that any of the extras needs."""
    found = [match for match in _PACKAGE.finditer(lock) if extras & set(match["extras"].split(", "))]
    known = {extra for match in _PACKAGE.finditer(lock) for extra in match["extras"].split(", ")}
    if unknown := extras - known:
        raise SystemExit(f"expected extras among {', '.join(sorted(known))}, got {', '.join(sorted(unknown))}")
    return "".join(match[0] for match in found)


def main() -> None:
    """Install the extras of the command line."""
    extras = [word for word in sys.argv[1:] if not word.startswith("-")]
    with_samepath = "--without-samepath" not in sys.argv
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    lock = ROOT / "locks" / f"python{python}.txt"
    if not lock.exists() or (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        where = f"Python {python} on {platform.system()} {platform.machine()}"
        print(f"no lock for {where}: installing the newest versions that pyproject.toml allows", file=sys.stderr)
        install_unlocked(extras, with_samepath=with_samepath)
        return
    wanted = {*extras, *(("base", "build") if with_samepath else ())}
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as part:
        part.write(select(lock.read_text("utf-8"), wanted))
        part.flush()
        subprocess.run([*PIP, "--require-hashes", "-r", part.name], check=True)
    if with_samepath:
        subprocess.run([*PIP, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)


def install_unlocked(extras: list[str], *, with_samepath: bool) -> None:
    """Install without a lock."""
    import tomllib

    tables = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = {"build": tables["build-system"]["requires"], "release": tables["dependency-groups"]["release"]}
    groups["base"] = tables["project"]["dependencies"]
    lines = [line for extra in extras for line in groups.get(extra, [])]
    named = [extra for extra in extras if extra not in groups]
    if with_samepath:
        lines += ["-e", f"{ROOT}[{','.join(named)}]" if named else str(ROOT)]
    subprocess.run([*PIP, *lines], check=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
