"""The pages about golden files, bisect, shrink and CI are true: commands exist, and print what stands there."""

import re
import shlex
import subprocess
from pathlib import Path

import yaml

import samepath.pytest_plugin as plugin
from samepath.cli.app import VERBS, load_verb

ROOT = Path(__file__).parents[2]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL)


def steps(block):
    """The commands of a block, each with what it prints."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def as_written(output, printed):
    """Three dots stand for the rest of a line, and alone for any number of lines."""
    lines = [
        r"(?:.*\n)*" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in output.splitlines()
    ]
    return re.fullmatch("".join(lines), printed)


def play(block, quick, folder):
    for command, output in steps(block):
        if not command.startswith("samepath "):
            subprocess.run(["bash", "-c", command], cwd=folder, check=True)
            continue
        done = quick(*shlex.split(command)[1:], cwd=folder)
        assert as_written(output, done.stdout), f"{command} printed\n{done.stdout}{done.stderr}instead of\n{output}"


def test_the_page_about_golden_files_prints_what_it_says(quick, tmp_path):
    (tmp_path / "crossing.yaml").write_text(blocks("golden.md", "yaml")[0])
    for block in blocks("golden.md", "console"):
        play(block, quick, tmp_path)


def test_the_page_about_bisecting_prints_what_it_says(quick, tmp_path):
    setting, files, commits, shrink = blocks("bisect.md", "console")
    play(setting, quick, tmp_path)
    play(files, quick, tmp_path)
    # These take a repository of somebody's, and chance: what they find is held by tests of their own.
    assert_commands_exist([command for block in (commits, shrink) for command, _ in steps(block)])


def options_of(words):
    """The options that a verb, or a verb of a group, knows."""
    command = load_verb(words[1])
    if hasattr(command, "commands"):
        command = command.commands[words[2]]
    return {option for parameter in command.params for option in parameter.opts}


def assert_commands_exist(lines):
    for line in lines:
        for part in re.split(r"\|\||&&|;|>", line):
            words = shlex.split(part)
            if words[:1] == ["samepath"]:
                before = words[: words.index("--")] if "--" in words else words
                assert before[1] in VERBS, line
                assert {word for word in before if word.startswith("--")} <= options_of(before), line


def commands_in(node):
    """Every line that a pipeline runs."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("run", "script", "before_script", "after_script"):
                yield from value if isinstance(value, list) else value.splitlines()
            else:
                yield from commands_in(value)
    elif isinstance(node, list):
        for value in node:
            yield from commands_in(value)


class _Options:
    """Collects what the plugin adds to pytest's command line."""

    def __init__(self):
        self.names = set()

    def getgroup(self, *words):
        return self

    def addoption(self, name, **how):
        self.names.add(name)

    def addini(self, name, *words, **how):
        self.names.add(name)


def test_the_pipelines_are_yaml_and_every_command_in_them_exists():
    github, gitlab = (yaml.safe_load(block) for block in blocks("ci.md", "yaml"))
    assert github["jobs"]["repeatable"]["runs-on"] == "ubuntu-latest"
    assert gitlab["repeatable"]["artifacts"]["reports"]["junit"] == ["junit.xml", "junit-golden.xml", "junit-logs.xml"]
    added = _Options()
    plugin.pytest_addoption(added)
    for pipeline in (github, gitlab):
        lines = list(commands_in(pipeline))
        assert_commands_exist(lines)
        verbs = {shlex.split(line)[1] for line in lines if line.startswith("samepath ")}
        assert {"golden", "check", "explain"} <= verbs
        (tests,) = (shlex.split(line) for line in lines if line.startswith("pytest "))
        assert {word for word in tests if word.startswith("--samepath")} <= added.names
        assert any(word.startswith("--junitxml=") for word in tests)


def test_what_a_page_says_of_the_plugin_is_what_it_has():
    text = (ROOT / "docs" / "golden.md").read_text("utf-8")
    added = _Options()
    plugin.pytest_addoption(added)
    assert all(f"`{name}" in text for name in added.names)
    methods = re.findall(r"samepath_runs\.(\w+)\(", text)
    assert set(methods) == {name for name in vars(plugin.SamepathRuns) if not name.startswith("_")} - {"call"}
    for mark in re.findall(r"@pytest\.mark\.(\w+)\(", text):
        assert mark == plugin.MARK
