"""Every block of the documentation is run, or listed with the reason why not, and looked at all the same.

``tests/support/docs_ledger.py`` is the list. What is short enough is run here, in one folder for those that belong together.
"""

import ast
import inspect
import io
import json
import re
import shlex
import tomllib
from importlib import import_module
from importlib.util import find_spec

import pytest
import yaml

from bench.__main__ import ALONE, BENCHMARKS, WHEN_NAMED
from samepath.cli.app import VERBS, load_verb
from samepath.core.errors import SamepathError
from samepath.instrument.study.plan import built_in_studies
from tests.cli.test_docs_of_golden import assert_commands_exist, steps
from tests.support.docs_ledger import LEDGER, PAGES, ROOT, Not, all_blocks, blocks_of

# Programs of other people that a page may tell a reader to run; what they are told is not ours to check.
THEIRS = {"apt-get", "cd", "cat", "git", "npm", "printf", "ray", "sed", "pip", "python", "python3", "python3.11"}
THEIRS |= {"./CarlaUE4.sh", "./Blocks.sh", "pytest"}
COMMAND = re.compile(r"^(?:[a-z]*\$|#) (.*)$")
BARE = re.compile(r"^(?:samepath [a-z]+(?: |$)|(?:pip|python) )")


def commands_of(block):
    """The commands in a block, each as its words: without prompt, comment, and what another program gets of it."""
    lines = block.text.replace("\\\n", "").splitlines()
    if block.language == "console":
        lines = [found[1] for line in lines if (found := COMMAND.match(line))]
    elif block.language in ("sh", "text", ""):
        lines = [line.removeprefix("$ ") for line in lines if BARE.match(line) or line.startswith("$ ")]
    else:
        return
    for line in lines:
        for part in re.split(r" && | \|\| ", line):
            words = shlex.split(part, comments=True)
            words = words[: words.index(">")] if ">" in words else words
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words:
                yield [words[0].removeprefix(".venv/bin/"), *words[1:]]


def parse(words):
    """Let the program's own parser read a command, as far as it goes before anything is done."""
    name = words[1]
    command, rest = load_verb(name), words[2:]
    if name == "carla":  # the arguments of CARLA's start script, which it reads itself
        return {}
    if hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    return command.make_context(name, list(rest)).params


def test_every_block_is_held_by_a_test_or_listed_with_a_reason():
    listed = {path.relative_to(ROOT).as_posix(): blocks_of(path) for path in PAGES}
    assert set(LEDGER) == {page for page, blocks in listed.items() if blocks}
    for page, held in LEDGER.items():
        found = [block.text for block in listed[page]]
        missing = [text for text in found if not any(text.startswith(begins) for begins, _ in held)]
        assert not missing, f"{page}: run this block in a test, or say why not, in tests/support/docs_ledger.py:\n{missing[0]}"
        assert len(found) == len(held), f"{page}: {len(found)} blocks, {len(held)} of them listed"
        for text, (begins, how) in zip(found, held, strict=True):
            assert text.startswith(begins), f"{page}: {begins!r} was listed, {text[:60]!r} came"
            if isinstance(how, Not):
                assert len(how.why) > 5
                named = re.findall(r"(?:tests|bench)/[\w/]+(?:\.py)?|tutorials/[\w-]+\.md", how.why)
                assert all((ROOT / name).exists() or (ROOT / "docs" / name).exists() for name in named), how.why
            else:
                file, _, test = how.partition("::")
                assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{page}: {how} is not there"


def test_every_command_is_one_that_the_program_takes():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    seen = 0
    for block in all_blocks():
        for words in commands_of(block):
            said = f"{block}: {' '.join(words)}"
            seen += 1
            if words[0] == "samepath":
                try:
                    given = parse(words)
                except Exception as error:
                    raise AssertionError(f"{said}: {error!r}") from error
                page = (ROOT / block.page).read_text("utf-8")
                for name in (
                    [setting.partition("=")[0] for setting in given.get("setting") or ()] if words[1] == "conformance" else ()
                ):
                    assert re.search(rf'[`"]{name}[`":]|{name}: ', page), f"{said}: the page tells of no setting {name}"
                study = given.get("study") if words[1] == "study" else None
                named = study is None or study in built_in_studies() or study.endswith(".yaml")
                assert named, f"{said}: no study of this name comes with samepath"
            elif words[0] == "make":
                assert words[1] in targets, said
            elif words[:3] == ["python", "-m", "bench"]:
                assert words[3] in (*BENCHMARKS, *WHEN_NAMED, *ALONE), said
                asked = {word for word in words if word.startswith("--")}
                assert all(word in inspect.getsource(import_module(ALONE[words[3]])) for word in asked), said
            else:
                assert words[0] in THEIRS or (ROOT / words[0]).exists() or words[0].endswith("/pip"), said
            for extra in re.findall(r"samepath\[([\w,]+)\]", " ".join(words)):
                assert set(extra.split(",")) <= set(extras), said
    assert seen > 120


def test_every_command_in_a_sentence_has_options_that_there_are():
    for path in PAGES:
        text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        spoken = [" ".join(command.split()) for command in re.findall(r"`(samepath [a-z]+[^`]*)`", text)]
        lines = [command for command in spoken if command.split()[1] in VERBS and command.split()[1] != "carla"]
        # "cluster start/node" is a way to speak of two; with options a sentence names one.
        assert_commands_exist(
            [command.replace("'", "").replace("[", "").replace("]", "") for command in lines if " --" in command]
        )


def names_in(tree):
    """What a program names of samepath: (object, where), imports and attributes of ``samepath`` itself."""
    import samepath

    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("samepath", "pytest"):
            for alias in node.names:
                known[alias.asname or alias.name] = getattr(import_module(node.module), alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "samepath":
                    known["samepath"] = samepath
    return known


def test_every_python_block_compiles_and_names_what_there_is():
    """Imports of ours are there, so is what is taken of ``samepath``, and calls have only arguments that are taken."""
    import samepath

    called = 0
    for block in all_blocks():
        if block.language != "python":
            continue
        tree = ast.parse(block.text, str(block))
        known = {"samepath": samepath, **names_in(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
                assert hasattr(known[node.value.id], node.attr), f"{block}: {node.value.id}.{node.attr}"
            if not isinstance(node, ast.Call):
                continue
            asked = node.func
            if isinstance(asked, ast.Name) and asked.id in known:
                target = known[asked.id]
            elif isinstance(asked, ast.Attribute) and isinstance(asked.value, ast.Name) and asked.value.id in known:
                target = getattr(known[asked.value.id], asked.attr)
            else:
                continue
            given = [None] * len(node.args)
            inspect.signature(target).bind_partial(*given, **{word.arg: None for word in node.keywords if word.arg})
            called += 1
    assert called > 25


# What a page says that its reader must install.
TO_BE_INSTALLED = ("carla", "torch")
# Pages for those who have a clone: they work on samepath, or measure samepath itself.
OF_A_CLONE = ("README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/cluster-measuring.md")


def test_no_example_needs_more_than_the_package_and_its_own_page():
    written = re.compile(r"`(?:[\w-]+/)*(\w+)\.py`")
    imports = 0
    for block in all_blocks():
        if block.page in OF_A_CLONE:
            continue
        text = re.sub(r"tests/crossing\.golden", "", block.text)  # a file of the reader's
        assert not re.search(r"\btests/|src/samepath|REPOSITORY|-m bench|^\$ make ", text, re.MULTILINE), str(block)
        if block.language == "python":
            page = (ROOT / block.page).read_text("utf-8")
            beside = {*written.findall(page), *re.findall(r"^# (?:\w+/)*(\w+)\.py", page, re.MULTILINE)}
            for name in {line.split(".")[0] for line in re.findall(r"^\s*(?:import|from) ([\w.]+)", block.text, re.MULTILINE)}:
                assert name in beside or find_spec(name) or name in TO_BE_INSTALLED, f"{block}: {name}"
                assert not (ROOT / name).exists(), f"{block}: {name}"
                imports += 1
    assert imports > 40


def read_yaml(block, folder):
    """Read a YAML block by what it is for."""
    from samepath.instrument.evaluation import monitor_set
    from samepath.instrument.study.plan import make_plan
    from samepath.scenarios.model import parse_scenario
    from samepath.simulator.sensors.rig import parse_rig

    data = yaml.safe_load(block.text)
    where = str(block)
    if isinstance(data, list) and "simulator" in data[0]:  # a line of a study
        make_plan(f"name: part\ndesign:\n  scenarios: [table1-test2]\n  simulators:\n{block.text}", where)
    elif isinstance(data, list):  # of a pipeline
        assert_commands_exist([step["run"] for step in data])
    elif "design" in data:
        make_plan(block.text, where)
    elif "monitors" in data:
        (folder / "my_monitors.py").write_text("def margin(run):\n    return 1.0\n")
        (folder / "monitors.yaml").write_text(block.text)
        monitor_set(folder / "monitors.yaml")
    elif "sensors" in data:
        parse_rig(block.text, where)
    elif "actors" in data or "traffic" in data:
        parse_scenario(block.text if "name" in data else f"name: part\nmap: t-junction\n{block.text}", where)
    else:
        assert {"jobs", "repeatable"} & set(data), f"{where}: what is this for?"


def test_every_yaml_json_and_toml_is_read_by_what_it_is_for(tmp_path):
    from samepath.engines.airsim import AirSim
    from samepath.engines.airsim.engine import homes_of
    from samepath.engines.airsim.simulator import read_settings
    from samepath.engines.registry import ENTRY_POINT_GROUP
    from samepath.scenarios.scripts import read_script

    for block in all_blocks():
        if block.language == "yaml":
            try:
                read_yaml(block, tmp_path)
            except SamepathError as error:
                raise AssertionError(f"{block}: {error}") from error
        elif block.language == "toml":
            (group,) = tomllib.loads(block.text)["project"]["entry-points"]
            assert group in (ENTRY_POINT_GROUP, "samepath.importers")
        elif block.language == "json":
            data = json.loads(block.text)
            if "SimMode" in data:
                assert set(homes_of(read_script("table1-test2"), read_settings(AirSim().info().settings), block.text)) == {1, 2}
            else:
                told = inspect.getsource(import_module("samepath.sessions.twice"))
                assert all(f'"{key}"' in told for key in data), data


def test_every_file_of_a_drawn_tree_is_there():
    """Modules and folders in drawings of the code, in words and in mermaid's."""
    parts = [ROOT, ROOT / "tests", ROOT / "src" / "samepath", *(ROOT / "src" / "samepath").rglob("*/")]
    seen = 0
    for page in ("architecture", "sensors", "serve", "traffic"):
        for block in blocks_of(ROOT / "docs" / f"{page}.md"):
            if block.language not in ("", "mermaid") or BARE.match(block.text):
                continue
            for name in re.findall(r"(?<![\w./-])((?:[a-z_]+/)*[a-z_]+\.py|(?:[a-z_]+/)+)(?=[\s,:)\"]|$)", block.text):
                assert any((part / name).exists() for part in parts), f"{block}: {name} is not there"
                seen += 1
    assert seen > 80


def shape(text):
    """A text without its words that hold a digit: those differ from run to run."""
    return re.sub(r"\S*[0-9]\S*", "#", text)


def lines_like(output):
    """The lines of an output on a page, whatever their numbers; three dots stand for anything."""
    return [
        re.escape(shape(line)).replace(r"\.\.\.", ".*").replace(r"\#", r"\S+")
        for line in output.splitlines()
        if line.strip() not in ("", "...")
    ]


def page_blocks(page, language=None):
    return [block.text for block in blocks_of(ROOT / "docs" / f"{page}.md") if language in (None, block.language)]


@pytest.fixture(scope="module")
def flaky(quick, tmp_path_factory):
    """The study of the page about debugging, half as often."""
    folder = tmp_path_factory.mktemp("flaky")
    (study,) = page_blocks("debug", "yaml")
    (folder / "flaky.yaml").write_text(study.replace("repeats: 6", "repeats: 3"))
    done = quick("study", "flaky.yaml", cwd=folder)
    assert (folder / "runs" / "flaky" / "report.html").exists(), done.stderr
    return folder


def test_the_pages_about_a_flaky_study_are_followed(flaky, quick):
    """debug.md, explain.md and replay.md, command by command; what is printed is what stands there, numbers aside."""
    told = quick("explain", "runs/flaky", "--figure", "parting.svg", cwd=flaky).stdout
    assert "<svg" in (flaky / "parting.svg").read_text("utf-8")
    assert "1 other cell: the same to the bit." in told
    # Which cause is found depends on the clock of these runs; each sentence has its test in tests/instrument/analysis.
    assert re.search(r"steps as long as frames: 3 repeats fall into 3 outcomes\.", told)
    assert re.search(
        r"Cause: step-length\. Step \d+ was \S+ s long in repeat \d and \S+ s in repeat \d: the wall clock drove", told
    )
    (spoken,) = [text for text in page_blocks("explain", "console") if "DIR" in text]
    for command, _ in steps(spoken):
        words = shlex.split(command, comments=True)[1:]
        if "OTHER_DIR" in words:
            continue  # two traces: tests/cli/test_explain_verb.py
        filled = ["runs/flaky" if word == "DIR" else "steps as long as frames" if word == "NAME" else word for word in words]
        filled = [
            "2" if before == "--repeat" and word == "3" else word for before, word in zip(["", *filled], filled, strict=False)
        ]
        assert quick(*filled, cwd=flaky).returncode in (0, 1), command
    followed, done_before = 0, {}
    for page in ("debug", "replay"):
        for text in page_blocks(page, "console"):
            for command, output in steps(text):
                words = shlex.split(command, comments=True)
                if not re.match(r"samepath (replay|fork) (runs/flaky|crash\.recording)", command) or "--shell" in words:
                    continue
                if not (flaky / "crash.recording").exists():
                    save = ["--repeat", "2", "--save", "crash.recording"]
                    assert quick("replay", "runs/flaky", "--cell", "steps as long as frames", *save, cwd=flaky).returncode == 0
                if command not in done_before:  # two pages tell of one recording
                    done_before[command] = quick(*["1" if word == "5" else word for word in words[1:]], cwd=flaky)
                done = done_before[command]
                assert done.returncode in (0, 1), done.stderr
                printed = shape(done.stdout)
                for line in lines_like(output)[:2]:
                    found = re.search(line.replace("\\ ", r"\s+"), printed)
                    assert found, f"{page}: {command} printed\n{done.stdout}not\n{line}"
                followed += 1
    assert followed == 8
    # What is damaged is told in the page's words.
    whole = (flaky / "crash.recording").read_bytes()
    spoilt = bytearray(whole)
    spoilt[-40] ^= 1
    for name, data in (("cut", whole[:3000]), ("bad", bytes(spoilt))):
        (flaky / f"{name}.recording").write_bytes(data)
    (wrong,) = [text for text in page_blocks("replay", "console") if "cut.recording" in text]
    for command, output in steps(wrong):
        if "newer" in command:
            continue  # tests/engines/test_replays.py writes one
        done = quick(*command.split()[1:], cwd=flaky)
        assert done.returncode == 2
        assert shape(done.stderr.strip()) == shape(output.strip()), command


def test_short_commands_of_the_pages_run(quick, tmp_path):
    from tests.support import xosc

    done = quick("new", "my-study.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    drives = xosc.story("ego", xosc.event("brakes", xosc.speed(2.0), xosc.after(3)))
    begins = xosc.init(ego=[xosc.at(xosc.lane(1, -1, 50)), xosc.speed(8.0)])
    xosc.write(tmp_path, xosc.document(xosc.vehicle("ego"), begins, drives), "cut-in.xosc")
    ran = (
        "doctor --memory 0 --gpu-memory 0 --json",
        "script table1-test2",
        "study my-study.yaml --dry-run",
        "script cut-in.xosc",
    )
    spoken = {" ".join(words[1:]) for block in all_blocks() for words in commands_of(block) if words[0] == "samepath"}
    for command in ran:
        assert command in spoken, f"no page says samepath {command} any more"
        done = quick(*command.split(), cwd=tmp_path)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stdout


def test_commands_about_logs_and_monitors_run(quick, tmp_path):
    """importers.md, monitors.md, studies.md and view.md, on two repeats of a car and a lorry that part."""
    import samepath
    from tests.conftest import cell_of, straight_run

    (tmp_path / "runs").mkdir()
    runs = [straight_run(n, shift=lambda tick, actor, n=n: 1e-3 * n * tick * (actor == 2)) for n in range(3)]
    for name in ("my-study", "demo", "case-study"):
        samepath.store([cell_of(runs, cell="game loop", scenario="table1-test1")], tmp_path / "runs" / name)
    (tmp_path / "my_monitors.py").write_text("def margin(run):\n    return 1.0\n")
    rows = [f"{n},{t / 10},{70 * t},{t * n / 10},0.9" for n in range(2) for t in range(20)]
    (tmp_path / "own.csv").write_text("\n".join(["episode_nr,time,east[cm],north[cm],soc", *rows]))
    plain = [f"{n},{t / 10},{a},car,{0.7 * t},{3 * a + t * n / 1000}" for n in range(2) for t in range(20) for a in (1, 2)]
    (tmp_path / "log.csv").write_text("\n".join(["repeat,time,actor,actor_type,x,y", *plain]))
    measured = [f"0,{t / 20},{a},{0.7 * t},{3.3 * a}" for t in range(1, 21) for a in (1, 2)]
    (tmp_path / "measured.csv").write_text("\n".join(["repeat,time,actor,x,y", *measured]))
    followed = 0
    for page in ("importers", "monitors", "studies", "view"):
        for text in page_blocks(page, "console"):
            for command, _ in steps(text):
                words = shlex.split(command, comments=True)[1:]
                served = words[0] == "view" and "--out" not in words
                if words[0] not in ("analyse", "check", "tolerance", "view", "export") or served:
                    continue
                if page == "importers":
                    words[1] = "own.csv"
                # A monitor of a scenario that no run is of is an error: of a log it is left out, as a reader would.
                asked = page_blocks("monitors", "yaml")[0]
                of_log = asked.replace(", scenarios: [table1-test1]", "")
                (tmp_path / "monitors.yaml").write_text(of_log if "log.csv" in words else asked)
                done = quick(*words, cwd=tmp_path)
                assert done.returncode in (0, 1), f"{command}: {done.stderr}"
                assert done.stdout or "--out" in words, f"{command}: {done.stderr}"
                followed += 1
    assert followed == 11
    assert all((tmp_path / f"loop.{kind}").stat().st_size > 100 for kind in ("csv", "mcap", "rrd"))


def test_the_search_of_the_page_finds_its_border(quick, tmp_path):
    (text,) = [block for block in page_blocks("monitors", "console") if "samepath search" in block]
    ((command, output),) = steps(text)
    done = quick(*shlex.split(command)[1:], cwd=tmp_path)
    for line in output.splitlines():
        assert line == "..." or line in done.stdout, f"{command} printed\n{done.stdout}{done.stderr}"
    assert (tmp_path / "border" / "after.yaml").exists()


def test_the_controller_of_the_page_brakes_for_what_the_lidar_sees():
    import numpy as np

    names = {}
    exec(compile(page_blocks("perception", "python")[0], "docs/perception.md", "exec"), names)

    class Seen:
        def __init__(self, *points):
            self.values = np.array(points or np.zeros((0, 4)), np.float32).reshape(-1, 4)

        def sensors(self, actor):
            return {"lidar": self}

    assert names["drive"](Seen((8.0, 0.0, 0.0, 1.0)), 1).brake == 1.0
    assert names["drive"](Seen((8.0, 5.0, 0.0, 1.0), (30.0, 0.0, 0.0, 1.0)), 1).brake == 0.0
    assert names["drive"](Seen(), 1).throttle == 0.3


def test_the_viewers_example_writes_its_page(tmp_path, monkeypatch):
    import samepath

    monkeypatch.chdir(tmp_path)
    samepath.store(samepath.load(ROOT / "tests" / "data" / "tsl_format.txt"), tmp_path / "runs" / "demo")
    (example,) = page_blocks("view", "python")
    exec(compile(example, "docs/view.md", "exec"), {})
    assert (tmp_path / "view.html").stat().st_size > 500_000


def test_the_status_of_a_cluster_looks_as_the_page_shows_it():
    from rich.console import Console

    from samepath.cli import cluster
    from tests.support.watched_clusters import working

    console = Console(width=120, file=io.StringIO())
    console.print(cluster.view(working(), "http://127.0.0.1:8200/", wide=True))
    printed = console.file.getvalue()
    (shown,) = page_blocks("cluster-watching", "console")
    columns = next(line for line in shown.splitlines() if line.startswith("node "))
    assert columns.split() in [line.split() for line in printed.splitlines()]
    for beginning in ("desynchronised", "tick time", "frames ", "commands "):
        line = next(line for line in shown.splitlines() if line.startswith(beginning))
        assert [word for word in shape(line).split()[:3] if word != "#"][:1] == beginning.split()[:1]
        assert any(printed_line.startswith(beginning) for printed_line in printed.splitlines()), beginning
