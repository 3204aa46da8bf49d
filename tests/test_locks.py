"""The locks, pyproject.toml and what the package carries say the same, and everything is installed by them."""

import importlib.util
import io
import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from rich.console import Console

from samepath.instrument.host.locked import differences_from_lock, locked_versions
from samepath.instrument.host.probe import Unknown
from samepath.instrument.report.console import print_document
from samepath.instrument.report.html import render_html
from samepath.instrument.report.junit import render_junit
from tests.support.report_cells import document_of, identical

ROOT = Path(__file__).parents[1]
TABLES = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PYTHONS = [line.rpartition(" ")[2] for line in TABLES["project"]["classifiers"] if re.search(r":: 3\.\d+$", line)]
# Libraries that have a share in the bits: pyproject.toml says which share.
BITS = (
    "numpy", "scipy", "numba", "rapier3d", "pydoe", "pyarrow", "msgspec", "msgpack", "pydantic", "pyyaml", "pillow", "mcap",
    "pycocotools", "moderngl", "nvidia-cuda-nvrtc", "cuda-bindings",
)  # fmt: skip


def module_of(name):
    spec = importlib.util.spec_from_file_location(f"locks_{name}", ROOT / "locks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKE, INSTALL = module_of("make"), module_of("install")


def lock_of(python):
    return (ROOT / "locks" / f"python{python}.txt").read_text("utf-8")


def requirements():
    """Every requirement with the extra that it belongs to."""
    return [(extra, Requirement(line)) for extra, lines in MAKE.requirements().items() for line in lines]


def test_there_is_a_lock_for_every_python_that_is_promised():
    assert [f"python{python}.txt" for python in PYTHONS] == sorted(path.name for path in (ROOT / "locks").glob("*.txt"))
    assert MAKE.pythons() == PYTHONS
    assert list(locked_versions()) == PYTHONS


@pytest.mark.parametrize("python", PYTHONS)
def test_a_lock_has_every_requirement_at_a_version_that_is_allowed(python):
    pins = MAKE.pins(lock_of(python))
    there = {"python_version": python, "platform_machine": "x86_64", "platform_system": "Linux"}
    for extra, requirement in requirements():
        if requirement.marker is None or requirement.marker.evaluate(there):
            name = canonicalize_name(requirement.name)
            assert pins[name] in requirement.specifier, f"{extra}: {requirement}"
            assert f"{name}==" in INSTALL.select(lock_of(python), {extra}), f"{extra}: {requirement}"


@pytest.mark.parametrize("python", PYTHONS)
def test_a_lock_is_whole_and_names_no_index(python):
    text = lock_of(python)
    assert "://" not in text
    assert text.startswith(MAKE.HEADER.format(python=python, name=f"locks/python{python}.txt"))
    assert not re.search(r"^-", text, re.MULTILINE)
    blocks = re.findall(r"^(\S+)==\S+((?: \\\n    --hash=sha256:[0-9a-f]{64})+)\n    # (.+)\n", text, re.MULTILINE)
    assert [name for name, _, _ in blocks] == sorted(MAKE.pins(text))
    assert (
        "".join(line for line in text.splitlines(keepends=True) if line.startswith("# "))
        + INSTALL.select(text, {extra for _, _, extras in blocks for extra in extras.split(", ")})
        == text
    )


def test_the_package_carries_the_versions_of_the_locks():
    carried = json.loads(MAKE.PACKAGED.read_text("utf-8"))
    assert carried == MAKE.packaged({python: MAKE.pins(lock_of(python)) for python in PYTHONS})
    assert MAKE.PACKAGED.stat().st_size < 5000
    base = {canonicalize_name(Requirement(line).name) for line in TABLES["project"]["dependencies"]}
    for python in PYTHONS:
        assert base | {"numba", "llvmlite"} <= set(carried[python])
        assert not {"pytest", "ruff", "mkdocs-material"} & set(carried[python])


def test_what_has_a_share_in_the_bits_has_an_upper_bound_and_one_version():
    bounded = {canonicalize_name(requirement.name): requirement for _, requirement in requirements()}
    for name in BITS:
        (above,) = [Version(part.version) for part in bounded[name].specifier if part.operator == "<"]
        versions = {MAKE.pins(lock_of(python))[name] for python in PYTHONS}
        assert len(versions) == 1, f"{name}: {versions}"
        version = Version(versions.pop())
        # The next major version is out; below 1.0 a minor one counts, and numba's minor ones come too often for that.
        following = Version(f"{version.major + 1}") if version.major else Version(f"0.{version.minor + 1}")
        assert above == following or name == "numba", f"{name}: {bounded[name]}, locked {version}"


def test_rays_version_is_the_one_that_the_cluster_names():
    for python in PYTHONS:
        assert MAKE.pins(lock_of(python))["ray"] == MAKE.ray_version()


def test_an_extra_that_is_unknown_is_refused_with_those_there_are():
    with pytest.raises(SystemExit, match=r"^expected extras among .*base, .*, got no-such-extra$"):
        INSTALL.select(lock_of(PYTHONS[0]), {"base", "no-such-extra"})


def test_everything_is_installed_by_the_locks():
    workflows = [yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    steps = [step for workflow in workflows for job in workflow["jobs"].values() for step in job["steps"]]
    texts = [str(step.get("run", "")) for step in steps]
    texts += [(ROOT / name).read_text("utf-8") for name in ("Makefile", ".ci/run", ".ci/engines", "deploy/Containerfile")]
    known = set(MAKE.requirements())
    seen = set()
    for text in texts:
        joined = re.sub(r"\\\n\s*", "", text)
        for command in re.findall(r"pip\"? (?:install|wheel) [^\n&|]*", joined):
            # By hash, or something that is here already and whose requirements were installed by hash.
            assert "--require-hashes" in command or "--no-deps" in command, command
        for words in re.findall(r"(?:locks/install\.py|\$\(INSTALL\))((?: [\w-]+)+)", joined):
            seen |= {word for word in shlex.split(words) if not word.startswith("-")}
        for words in re.findall(r'^python "[^"]+" ([\w ]+)$', joined, re.MULTILINE):
            seen |= set(words.split())
    assert {"sensors", "docs", "test", "lint", "cluster", "release", "build", "mujoco", "airsim"} <= seen <= known


@pytest.mark.parametrize("target", ["study", "docs", "test", "lint"])
def test_a_target_installs_what_it_needs_and_no_more(target):
    (needs,) = re.findall(rf"^{target}: \$\(VENV\)/(\.\w+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    (recipe,) = re.findall(
        rf"^\$\(VENV\)/\{needs}: [^\n]*\n\t\$\(INSTALL\) ([^\n]+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    wanted = {"study": "sensors", "docs": "docs", "test": "test lint", "lint": "test lint"}
    assert recipe == wanted[target]
    packages = MAKE.pins(INSTALL.select(lock_of("3.12"), {"base", "build", *recipe.split()}))
    assert ("pytest" in packages, "mkdocs-material" in packages) == {
        "study": (False, False), "docs": (False, True), "test": (True, True), "lint": (True, True),
    }[target]  # fmt: skip


def test_versions_that_differ_from_the_lock_are_named_with_both():
    locked = locked_versions()["3.12"]
    there = {**locked, "numpy": "2.5.5"}
    assert differences_from_lock(locked.get, "3.12") == ()
    assert differences_from_lock(there.get, "3.12") == (f"numpy 2.5.5 (lock: {locked['numpy']})",)
    assert differences_from_lock({"numpy": locked["numpy"]}.get, "3.12") == ()  # what is not installed does not differ
    unknown = differences_from_lock(locked.get, "3.99")
    assert isinstance(unknown, Unknown)
    assert unknown == "unknown: there is no lock for Python 3.99"


def test_every_report_names_them():
    differing = ["numpy 2.5.5 (lock: 2.4.6)", "scipy 1.18.0 (lock: 1.17.1)"]
    terminal, page, junit = reports(differing)
    words = f"Versions that differ from the lock: {', '.join(differing)}"
    assert words in terminal
    assert f"<p>{words}</p>" in page
    assert f'<property name="differs_from_lock" value="{", ".join(differing)}"' in junit
    terminal, page, junit = reports([])
    assert "differ from the lock" not in terminal + page
    assert "differs_from_lock" not in junit
    assert reports("unknown: there is no lock for Python 3.99")[0].count("no lock for Python 3.99") == 1
    assert "and 12 more" in reports([f"library{n} 2 (lock: 1)" for n in range(20)])[0]


def reports(differing):
    """A report on the terminal, as a page and as JUnit XML."""
    document = document_of(identical(), provenance={"differs_from_lock": differing})
    terminal = io.StringIO()
    print_document(Console(width=100, file=terminal), document)
    return terminal.getvalue(), render_html(document), render_junit(document)


def test_a_python_without_a_lock_gets_the_newest_versions_and_is_told_so(monkeypatch, capsys):
    called = []
    monkeypatch.setattr(INSTALL.platform, "machine", lambda: "riscv64")
    monkeypatch.setattr(sys, "argv", ["install.py", "docs", "release"])
    monkeypatch.setattr(subprocess, "run", lambda command, **_: called.append(command))
    INSTALL.main()
    assert "no lock for Python 3." in capsys.readouterr().err
    (command,) = called
    assert command[-2:] == ["-e", f"{ROOT}[docs]"]
    assert set(TABLES["dependency-groups"]["release"]) < set(command)
