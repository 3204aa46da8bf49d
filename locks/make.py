"""Write the locks: one file per supported Python, and the versions that the package carries.

usage: python locks/make.py [--upgrade] [--uv PROGRAM]

Without ``--upgrade`` a version stays as it is while ``pyproject.toml`` allows it. All Pythons get
the same version of a library where one exists for all of them, because the bits must not depend on
the Python. uv resolves, for Linux on x86-64. A lock keeps only the hashes of files that fit such a
machine: wheels, or the source archive of a package without a wheel. It holds no address of an index.
"""

import argparse
import json
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
LOCKS: Final = ROOT / "locks"
PACKAGED: Final = ROOT / "src" / "samepath" / "instrument" / "host" / "locked_versions.json"
# The oldest C library that CARLA's client runs on; newer systems take the same wheels.
PLATFORM: Final = "x86_64-manylinux_2_31"
# Users of samepath need none of these sets.
TOOLS: Final = ("build", "release", "test", "lint", "docs", "bench")
# hatchling imports it to install a checkout in place.
IN_PLACE: Final = ("editables>=0.5",)
# numba requires it, and it compiles every kernel of the cameras.
COMPUTES_TOO: Final = ("llvmlite",)
HEADER: Final = """\
# Every version and hash for Python {python} on Linux x86-64. `make locks` writes this file.
# All packages: pip install --require-hashes -r {name}
# Those of some extras: python locks/install.py EXTRA ...
# The comment below a package names the extras that need it.
"""

Sets = dict[str, list[str]]


def main() -> None:
    """Resolve for every supported Python, oldest first, and write the files."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that pyproject.toml allows")
    parser.add_argument("--uv", default="uv", help="the program uv")
    options = parser.parse_args()
    uv = shutil.which(options.uv)
    if uv is None:
        raise SystemExit(f"{options.uv}: program not found: install uv, or name it with --uv")
    uv = str(Path(uv).resolve())  # it runs in another folder
    versions: dict[str, dict[str, str]] = {}
    before: dict[str, str] = {}
    for python in pythons():
        path = LOCKS / f"python{python}.txt"
        kept = {} if options.upgrade or not path.exists() else pins(path.read_text("utf-8"))
        files, sets = resolve(uv, python, {**before, **kept})
        path.write_text(lock_text(python, files, sets), "utf-8")
        before = versions[python] = {name: str(file["version"]) for name, file in files.items()}
        print(f"{path.relative_to(ROOT)}: {len(files)} packages")
    PACKAGED.write_text(json.dumps(packaged(versions), indent=1, sort_keys=True) + "\n", "utf-8")


def project() -> dict[str, Any]:
    """Return the tables of ``pyproject.toml``."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def pythons() -> list[str]:
    """Return the Pythons that the project names, oldest first."""
    classifiers = project()["project"]["classifiers"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in classifiers)
    return [match[1] for match in found if match]


def requirements() -> Sets:
    """Return the requirements of each extra, without references to other extras.

    ``base`` is the package without extras, ``build`` and ``release`` are the tools for archives.
    """
    tables = project()
    extras = {"base": tables["project"]["dependencies"], **tables["project"]["optional-dependencies"]}
    extras |= {"build": [*tables["build-system"]["requires"], *IN_PLACE], "release": tables["dependency-groups"]["release"]}

    def flat(name: str) -> list[str]:
        lines: list[str] = []
        for line in extras[name]:
            inner = re.fullmatch(r"samepath\[([^]]+)\]", line)
            lines += [line] if inner is None else [other for part in inner[1].split(",") for other in flat(part.strip())]
        return lines

    return {name: flat(name) for name in extras}


def ray_version() -> str:
    """Return the version of Ray in the RayCluster; KubeRay requires the same one in the image."""
    found = re.search(r"rayVersion: (\S+)", (ROOT / "deploy" / "kuberay" / "raycluster.yaml").read_text("utf-8"))
    if found is None:
        raise SystemExit("deploy/kuberay/raycluster.yaml: expected a line rayVersion, found none")
    return found[1]


def resolve(uv: str, python: str, wanted: dict[str, str]) -> tuple[dict[str, dict[str, Any]], Sets]:
    """Resolve all sets together for one Python.

    Returns the entry of uv's lock for each package, and for each package the extras that need it.
    ``wanted`` has the versions to prefer.
    """
    sets = requirements()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "ray.txt").write_text(f"ray=={ray_version()}\n")
        for name, lines in sets.items():
            (folder / f"{name}.in").write_text("\n".join(lines) + "\n")
        (folder / "all.in").write_text("".join(f"-r {name}.in\n" for name in sets))
        # uv prefers the versions that the output file holds already.
        (folder / "all.txt").write_text("".join(f"{name}=={version}\n" for name, version in wanted.items()))

        def compile_(name: str, output: str, constraint: str, *more: str) -> Path:
            command = [uv, "pip", "compile", f"{name}.in", "--quiet", "--no-header", "--no-annotate", "--no-config", *more]
            command += ["--python-version", python, "--python-platform", PLATFORM, "--constraint", constraint]
            subprocess.run([*command, "--output-file", output], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            return folder / output

        compile_("all", "all.txt", "ray.txt")
        # uv has everything in its cache now; asking the index again takes minutes.
        lock = tomllib.loads(compile_("all", "pylock.all.toml", "all.txt", "--offline").read_text("utf-8"))
        needed: Sets = {}
        for name in sets:
            for package in pins(compile_(name, f"{name}.txt", "all.txt", "--offline").read_text("utf-8")):
                needed.setdefault(package, []).append(name)
    return {package["name"]: package for package in lock["packages"]}, needed


def pins(text: str) -> dict[str, str]:
    """Return the versions in a requirements file by name."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", text, re.MULTILINE))


def lock_text(python: str, files: dict[str, dict[str, Any]], needed: Sets) -> str:
    """Return the text of a lock: packages by name, with hashes and the extras that need them."""
    lines = [HEADER.format(python=python, name=f"locks/python{python}.txt")]
    for name, file in sorted(files.items()):
        archives = file.get("wheels") or [file["sdist"]]
        hashes = sorted(f"--hash=sha256:{archive['hashes']['sha256']}" for archive in archives)
        lines.append(" \\\n    ".join([f"{name}=={file['version']}", *hashes]) + "\n")
        lines.append(f"    # {', '.join(sorted(needed[name]))}\n")
    return "".join(lines)


def packaged(versions: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Return, by Python, the versions of the libraries that samepath or a user's extra requires."""
    lines = [line for name, found in requirements().items() if name not in TOOLS for line in found]
    names = {re.split(r"[^A-Za-z0-9._-]", line)[0] for line in lines} | {*COMPUTES_TOO}
    return {python: {name: found[name] for name in sorted(names) if name in found} for python, found in versions.items()}


if __name__ == "__main__":
    main()
