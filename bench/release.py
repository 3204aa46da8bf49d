"""What a release is: the same bytes whoever builds it, installable in empty environments, of known size and known licences.

``python -m bench release`` builds wheel and source archive twice, in folders, time zones, languages and with file modes of
their own, and compares bytes. It installs the wheel into empty environments of every Python that the project names and that is
here (``python3.11`` and so on), and runs the demo there. It then asks pip what each extra adds, installs that and nothing else
beside it, and adds up files. Licences are those that the installed packages declare themselves.

What is built is the commit, not the folder: files that no commit holds are in no archive. Needs a package index and minutes.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final

from bench.tools import ROOT, save, show, verdict
from samepath.core.clock import SYSTEM_CLOCK

# Two ways to be somebody else: what must not show in what is built.
BUILDERS: Final = (
    {"umask": 0o022, "environment": {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"}},
    {"umask": 0o077, "environment": {"TZ": "Pacific/Chatham", "LC_ALL": "C", "PYTHONHASHSEED": "2"}},
)
# Extras that are for those who work on samepath itself.
OURS: Final = ("test", "lint", "docs", "bench")
# Asked for more than this, an index does not answer.
INSTALL_S: Final = 1800
# What the three largest packages of the base are there for, found by taking each away from the first thing that a user does.
LARGEST: Final = ("scipy", "pyarrow", "matplotlib")


def main() -> bool:
    """Build, install, run, measure; tell whether all of it went as it must."""
    with tempfile.TemporaryDirectory(prefix="samepath-release-") as place:
        work = Path(place)
        built = build_twice(work)
        wheel = work / "0" / "dist" / next(name for name in built["files"] if name.endswith(".whl"))
        pythons = [installed(work, wheel, version) for version in supported_pythons()]
        here = next(work / python["python"] / "env" for python in pythons if python.get("works"))
        base = packages(here)
        extras = {name: added(here, wheel, name, work) for name in extras_of_users()}
        needed = {name: without(here, name, work) for name in LARGEST}
    figures = {"built": built, "pythons": pythons, "base": base, "extras": extras, "needed": needed}
    _show(figures)
    save("release", figures)
    return built["same"] and all(python.get("works") or python.get("absent") for python in pythons)


def build_twice(work: Path) -> dict[str, Any]:
    """Build wheel and source archive from the commit, twice; tell their sizes and whether bytes are equal."""
    git = ["git", "-C", str(ROOT)]
    when = subprocess.run([*git, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True).stdout.strip()
    tools = work / "builder"
    _quietly([sys.executable, "-m", "venv", str(tools)])
    _quietly([str(tools / "bin" / "python"), str(ROOT / "locks" / "install.py"), "--without-samepath", "build", "release"])
    found: list[dict[str, str]] = []
    sizes: dict[str, int] = {}
    for number, builder in enumerate(BUILDERS):
        folder = work / str(number)
        folder.mkdir()
        archive = folder / "tree.tar"
        _quietly([*git, "archive", "--format=tar", f"--output={archive}", "HEAD"])
        _quietly(["tar", "-xf", str(archive), "--no-same-permissions", "-C", str(folder)], umask=builder["umask"])
        archive.unlink()
        environment = {**os.environ, **builder["environment"], "SOURCE_DATE_EPOCH": when}
        _quietly(
            [str(tools / "bin" / "python"), "-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(folder)],
            umask=builder["umask"],
            environment=environment,
        )
        files = sorted((folder / "dist").iterdir())
        found.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files})
        sizes = {path.name: path.stat().st_size for path in files}
    return {"same": found[0] == found[1] and len(found[0]) == 2, "files": found[0], "bytes": sizes, "source_date_epoch": when}


def supported_pythons() -> list[str]:
    """The versions that the project says it runs on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier) for classifier in project["classifiers"])
    return [match[1] for match in found if match]


def extras_of_users() -> list[str]:
    """The extras that users install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [name for name in project["optional-dependencies"] if name not in OURS]


def find_python(version: str) -> str | None:
    """An interpreter of a version that runs: on PATH, or among those of pyenv, whose own commands run only the chosen ones."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(root.glob(f"versions/{version}.*/bin/python")))]
    for program in candidates:
        if program and subprocess.run([program, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
            return program
    return None


def installed(work: Path, wheel: Path, version: str) -> dict[str, Any]:
    """Install the wheel into an empty environment of one Python, and do there what a newcomer does."""
    python = find_python(version)
    if python is None:
        return {"python": version, "absent": True}
    folder = work / version
    folder.mkdir()
    environment = folder / "env"
    _quietly([python, "-m", "venv", str(environment)])
    start = SYSTEM_CLOCK.monotonic_s()
    _quietly([str(environment / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", str(wheel)])
    install_s = SYSTEM_CLOCK.monotonic_s() - start
    samepath = str(environment / "bin" / "samepath")
    said = subprocess.run([samepath, "--version"], capture_output=True, text=True, check=False, cwd=folder)
    start = SYSTEM_CLOCK.monotonic_s()
    demo = subprocess.run([samepath, "demo", "--no-open"], capture_output=True, text=True, check=False, cwd=folder)
    demo_s = SYSTEM_CLOCK.monotonic_s() - start
    analysed = subprocess.run(
        [samepath, "analyse", str(ROOT / "tests" / "data" / "tsl_format.txt")],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    listed = subprocess.run([samepath, "simulators"], capture_output=True, text=True, check=False, cwd=folder)
    lines = [line for line in listed.stdout.splitlines() if line.startswith("carla: ")]
    works = (
        said.returncode == demo.returncode == analysed.returncode == 0
        and (folder / "runs" / "demo" / "report.html").exists()
        and "identical-at-resolution" in analysed.stdout
    )
    return {
        "python": version,
        "full_version": _full_version(environment),
        "version": said.stdout.strip(),
        "works": works,
        "install_s": install_s,
        "demo_s": demo_s,
        "report": (folder / "runs" / "demo" / "report.html").exists(),
        "without_carlas_client": lines[0] if lines else "",
        "stderr": (said.stderr + demo.stderr + analysed.stderr)[-2000:] if not works else "",
    }


def packages(environment: Path) -> list[dict[str, Any]]:
    """What is installed: name, version, bytes on disk, licence as the package declares it; without pip itself."""
    site = _site(environment)
    rows = [
        _package(package)
        for package in distributions(path=[str(site)])
        if package.metadata["Name"].lower() not in ("pip", "setuptools")
    ]
    return sorted(rows, key=lambda row: -int(row["bytes"]))


def added(environment: Path, wheel: Path, extra: str, work: Path) -> dict[str, Any]:
    """What an extra adds to the base, and how large that is."""
    pip = [str(environment / "bin" / "python"), "-m", "pip"]
    asked = subprocess.run(
        [*pip, "install", "--quiet", "--dry-run", "--report", "-", f"samepath[{extra}] @ {wheel.as_uri()}"],
        capture_output=True, text=True, check=False, timeout=INSTALL_S,
    )  # fmt: skip
    if asked.returncode:
        return {"failed": asked.stderr.strip()[-500:]}
    wanted = [
        package["metadata"] for package in json.loads(asked.stdout)["install"] if package["metadata"]["name"] != "samepath"
    ]
    if not wanted:
        return {"packages": [], "bytes": 0}
    target = work / f"extra-{extra}"
    pins = [f"{package['name']}=={package['version']}" for package in wanted]
    done = subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--no-compile", "--target", str(target), *pins],
        capture_output=True, text=True, check=False, timeout=INSTALL_S,
    )  # fmt: skip
    if done.returncode:
        return {"failed": done.stderr.strip()[-500:]}
    rows = sorted((_package(package) for package in distributions(path=[str(target)])), key=lambda row: -int(row["bytes"]))
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    shutil.rmtree(target)
    return {"packages": rows, "bytes": size}


def without(environment: Path, package: str, work: Path) -> dict[str, Any]:
    """What a newcomer's two commands say where one package is not there: it is hidden, not uninstalled."""
    hidden = work / f"without-{package}"
    hidden.mkdir()
    (hidden / f"{package}.py").write_text(f"raise ImportError('{package} is hidden')\n")
    samepath, variables = str(environment / "bin" / "samepath"), {**os.environ, "PYTHONPATH": str(hidden)}
    codes = {}
    for name, words in (
        ("analyse", ["analyse", str(ROOT / "tests" / "data" / "tsl_format.txt"), "--json"]),
        ("demo", ["demo", "--no-open", "--out", str(hidden / "demo")]),
    ):
        done = subprocess.run([samepath, *words], capture_output=True, env=variables, cwd=hidden, check=False)
        codes[name] = done.returncode == 0
    return codes


def _package(found: Distribution) -> dict[str, Any]:
    files = [Path(str(found.locate_file(file))) for file in found.files or ()]
    size = sum(path.stat().st_size for path in files if path.is_file() and path.suffix != ".pyc")
    meta = found.metadata
    return {"name": meta["Name"], "version": found.version, "bytes": size, "licence": _licence(meta)}


def _licence(meta: Any) -> str:  # noqa: ANN401 - a message of e-mail, as packages are described
    """The licence that a package declares: its SPDX expression, else its classifiers, else the first line of what it says."""
    if expression := meta.get("License-Expression"):
        return str(expression)
    classes = [
        classifier.rpartition(" :: ")[2]
        for classifier in meta.get_all("Classifier") or ()
        if classifier.startswith("License ::")
    ]
    if classes:
        return ", ".join(sorted(set(classes)))
    lines = (meta.get("License") or "").strip().splitlines()
    return lines[0][:60] if lines else "not declared"


def _site(environment: Path) -> Path:
    (found,) = environment.glob("lib/python3.*/site-packages")
    return found


def _full_version(environment: Path) -> str:
    asked = [str(environment / "bin" / "python"), "-c", "import platform; print(platform.python_version())"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _quietly(command: list[str], *, umask: int = -1, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_S, umask=umask, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:6])} ...: {(done.stderr or done.stdout).strip()[-1500:]}")


def _show(figures: dict[str, Any]) -> None:
    built = figures["built"]
    rows = [[name, f"{built['bytes'][name] / 1e6:.2f} MB", digest[:16]] for name, digest in built["files"].items()]
    show(f"built twice, equal bytes: {verdict(met=built['same'])}", ["file", "size", "sha256"], rows)
    rows = [
        [python["python"], "not here"]
        if python.get("absent")
        else [
            python["full_version"],
            python["version"],
            f"{python['install_s']:.0f} s",
            f"{python['demo_s']:.0f} s",
            verdict(met=python["works"]),
        ]
        for python in figures["pythons"]
    ]
    show("empty environments", ["Python", "says", "pip install", "demo", "works"], rows)
    base = figures["base"]
    show(
        f"base: {sum(package['bytes'] for package in base) / 1e6:.0f} MB in {len(base)} packages",
        ["package", "version", "MB", "licence"],
        [[package["name"], package["version"], f"{package['bytes'] / 1e6:.1f}", package["licence"]] for package in base],
    )
    extras = figures["extras"]
    show(
        "what extras add",
        ["extra", "MB", "packages"],
        [
            [name, extra["failed"][:80], ""]
            if "failed" in extra
            else [name, f"{extra['bytes'] / 1e6:.0f}", ", ".join(each["name"] for each in extra["packages"])]
            for name, extra in extras.items()
        ],
    )
    show(
        "without it",
        ["package", "analyse", "demo"],
        [[n, str(c["analyse"]), str(c["demo"])] for n, c in figures["needed"].items()],
    )


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
