"""Who holds each block of the documentation to the truth.

Every fenced block of the README, of CONTRIBUTING and of the docs is here, in the order of its page: how it begins, and the test
that runs it or compares it, or, in ``Not``, why nobody does. What is not run is still looked at: commands go through the
program's own parser, YAML through its own readers, Python is compiled and what it names is looked up
(``tests/cli/test_docs_blocks.py``). A block that is not listed fails a test: run it, or say why not.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: str
    language: str
    text: str

    def __str__(self):
        return f"{self.page}: {self.text.strip().splitlines()[0][:60]}"


@dataclass(frozen=True)
class Not:
    """A block that no test runs, and why."""

    why: str


def blocks_of(path):
    """The fenced blocks of a page, in their order."""
    page = path.relative_to(ROOT).as_posix()
    text = path.read_text("utf-8")
    found = [Block(page, language, inside) for language, inside in _FENCE.findall(text)]
    fences = len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE))
    assert fences == 2 * len(found), f"{page}: a block begins with ``` at the beginning of its line, and ends so"
    return found


def all_blocks():
    """The blocks of all pages."""
    return [block for path in PAGES for block in blocks_of(path)]


HERE = "tests/cli/test_docs_blocks.py::"
FLAKY = f"{HERE}test_the_pages_about_a_flaky_study_are_followed"
SHORT = f"{HERE}test_short_commands_of_the_pages_run"
LOGS = f"{HERE}test_commands_about_logs_and_monitors_run"
READ = f"{HERE}test_every_yaml_json_and_toml_is_read_by_what_it_is_for"
TREE = f"{HERE}test_every_file_of_a_drawn_tree_is_there"
GOLDEN = "tests/cli/test_docs_of_golden.py::"
TUTORIAL = "tests/cli/test_tutorials.py::"
DOCS = "tests/test_docs.py::"
TWICE = "tests/sessions/test_twice.py::test_the_page_shows_what_is_said"
MINUTES = Not("takes minutes; bench/stranger.py runs it")
SERVER = Not("a server that runs until it is ended; tests/cli/test_serve.py and test_live_view.py start it")
CLUSTER = Not("several processes, or hosts, that run until they are ended; tests/cluster starts them")
ENGINE = Not("installs somebody else's program; tests/engines runs the conformance kit where it is there")
CARLA = Not("needs a CARLA server; the tutorial tutorials/assess-carla.md is run against ours")
OUTPUT = Not("an output that varies from run to run, beside the command that made it")
DRAWING = Not("a drawing in words")

LEDGER = {
    "README.md": [
        ("$ make study", MINUTES),
        ("Is it", f"{DOCS}test_what_the_readme_shows_of_a_report_is_what_the_start_page_shows"),
    ],
    "CONTRIBUTING.md": [("$ make quick", Not("all tests; its targets are looked up"))],
    "docs/architecture.md": [
        (" study ->", DRAWING),
        ("src/samepath/", TREE),
        ("graph BT", "tests/test_architecture.py::test_the_drawing_of_the_imports_is_that_of_the_code"),
        ("graph LR", TREE),
        ("graph LR", TREE),
        ("graph LR", TREE),
    ],
    "docs/bisect.md": [
        ("$ samepath bisect", f"{GOLDEN}test_the_page_about_bisecting_prints_what_it_says"),
        ("$ printf", f"{GOLDEN}test_the_page_about_bisecting_prints_what_it_says"),
        (
            "$ samepath bisect mine",
            "tests/instrument/test_bisect.py::test_the_commit_is_found_and_the_repository_is_not_touched",
        ),
        ("own.yaml", OUTPUT),
        ("$ samepath shrink", Not("108 runs by chance; tests/instrument/test_shrink.py")),
        ("table1-test2", OUTPUT),
    ],
    "docs/carla.md": [("$ pip", CARLA)],
    "docs/ci.md": [
        ("name: same", f"{GOLDEN}test_the_pipelines_are_yaml_and_every_command_in_them_exists"),
        ("repeatable:", f"{GOLDEN}test_the_pipelines_are_yaml_and_every_command_in_them_exists"),
    ],
    "docs/client.md": [
        ("from samepath", "tests/simulator/server/test_remote.py::test_the_example_of_the_documentation_prints_what_it_says"),
        ("19.80", "tests/simulator/server/test_remote.py::test_the_example_of_the_documentation_prints_what_it_says"),
    ],
    "docs/cluster-hosts.md": [("main$", CLUSTER)],
    "docs/cluster-measuring.md": [("$ python -m bench", Not("a measurement of minutes; tests/bench/test_thesis.py"))],
    "docs/cluster-watching.md": [
        ("$ samepath cluster status", f"{HERE}test_the_status_of_a_cluster_looks_as_the_page_shows_it"),
    ],
    "docs/cluster.md": [
        ("$ pip", CLUSTER),
        ("import carla", f"{TUTORIAL}test_it_does_not_matter_which_server_of_a_cluster_draws"),
        ("graph LR", DRAWING),
    ],
    "docs/debug.md": [
        ("name: flaky", FLAKY),
        ("$ samepath study", FLAKY),
        ("$ samepath explain", FLAKY),
        ("on the wall", FLAKY),
        ("$ samepath twice", "tests/sessions/test_twice.py::test_what_is_wrong_with_a_script_is_named_with_its_line"),
        ("$ samepath replay", FLAKY),
        ("$ samepath replay", FLAKY),
        ("$ samepath fork", FLAKY),
    ],
    "docs/doctor.md": [
        ("$ samepath doctor", SHORT),
        ("good     GPU", "tests/instrument/host/test_gpu_memory.py::test_without_a_card_one_line_says_so"),
    ],
    "docs/engines/README.md": [
        ("$ samepath simulators", "tests/cli/test_simulators_verb.py::test_versions_and_what_to_install")
    ],
    "docs/engines/airsim.md": [("$ pip", ENGINE), ("{", READ)],
    "docs/engines/babylon.md": [("# apt-get", ENGINE)],
    "docs/engines/beamng.md": [("$ pip", ENGINE)],
    "docs/engines/command.md": [
        ("# toy_car.py", "tests/engines/test_command.py::test_the_pages_study_finds_what_the_page_says"),
        ("# toy-car", "tests/engines/test_command.py::test_the_pages_study_finds_what_the_page_says"),
        ("$ samepath study", "tests/engines/test_command.py::test_the_pages_commands_are_right"),
    ],
    "docs/engines/godot.md": [("# apt-get", ENGINE), ("# apt-get", ENGINE), ("    - {simulator", READ)],
    "docs/engines/gymnasium.md": [
        ("$ pip", ENGINE),
        ("# my-env", READ),
        ("def read", "tests/engines/test_gymnasium.py::test_an_environment_and_a_reader_of_one_s_own"),
    ],
    "docs/engines/metadrive.md": [("$ python3", ENGINE)],
    "docs/engines/mujoco.md": [("$ pip", ENGINE)],
    "docs/engines/panda3d.md": [("$ pip", ENGINE)],
    "docs/engines/pymunk.md": [("$ pip", ENGINE)],
    "docs/engines/scripts.md": [("$ samepath script", SHORT)],
    "docs/engines/sumo.md": [("$ pip", ENGINE)],
    "docs/engines/torcs.md": [("# apt-get", ENGINE)],
    "docs/explain.md": [
        ("$ samepath explain", FLAKY),
        ("on the wall", FLAKY),
        ("Cause: unknown", "tests/cli/test_explain_verb.py::test_a_log_that_was_written_at_other_moments_is_told_as_that"),
    ],
    "docs/golden.md": [
        ("name: crossing", f"{GOLDEN}test_the_page_about_golden_files_prints_what_it_says"),
        ("$ samepath golden write", f"{GOLDEN}test_the_page_about_golden_files_prints_what_it_says"),
        ("$ sed", f"{GOLDEN}test_the_page_about_golden_files_prints_what_it_says"),
        ("$ GLIBC", Not("depends on what the processor can do; bench/controls.py tries it")),
        ("import pytest", f"{GOLDEN}test_what_a_page_says_of_the_plugin_is_what_it_has"),
        ("test_parts", "tests/test_pytest_plugin.py::test_tests_are_run_n_times_and_their_figures_are_in_junit"),
    ],
    "docs/gpu.md": [
        ("$ pip", Not("needs an NVIDIA card; make gpu")),
        ("import samepath", "tests/simulator/sensors/test_batch.py::test_the_examples_of_the_page_run"),
        ("import torch", "tests/simulator/sensors/test_batch.py::test_the_examples_of_the_page_run"),
    ],
    "docs/importers.md": [
        ("$ samepath analyse", LOGS),
        ("# my_package/jsonl.py", f"{DOCS}test_the_example_importer_works"),
        ("# pyproject.toml", READ),
    ],
    "docs/library.md": [
        ("import samepath", f"{HERE}test_every_python_block_compiles_and_names_what_there_is"),
        ("def test", f"{HERE}test_every_python_block_compiles_and_names_what_there_is"),
        ("result =", f"{HERE}test_every_python_block_compiles_and_names_what_there_is"),
    ],
    "docs/monitors.md": [
        ("$ samepath analyse", LOGS),
        ("actors:", LOGS),
        (
            "samepath: monitors",
            "tests/instrument/monitors/test_monitor_docs.py::test_the_example_of_a_mistake_is_the_line_that_is_printed",
        ),
        ("$ samepath tolerance", LOGS),
        ("$ samepath search", f"{HERE}test_the_search_of_the_page_finds_its_border"),
        ("$ samepath analyse", LOGS),
    ],
    "docs/openscenario.md": [("$ samepath script", SHORT)],
    "docs/perception.md": [
        ("actors:", READ),
        ("from samepath", f"{HERE}test_the_controller_of_the_page_brakes_for_what_the_lidar_sees"),
        ("$ samepath study", Not("takes minutes; tests/simulator/test_perception.py")),
    ],
    "docs/record.md": [
        ("samepath record", f"{TUTORIAL}test_a_data_set_is_written_and_read"),
        ("data/test2/", "tests/simulator/dataset/test_dataset.py::test_pictures_points_and_labels_are_as_documented"),
        ("name: two-eyes", READ),
        ("pip install", "tests/cli/test_record.py::test_one_file_for_viewers_on_request"),
        (
            "import json",
            "tests/simulator/dataset/test_mcap.py::test_every_topic_has_a_message_per_frame_at_the_time_of_the_simulation",
        ),
        ("samepath record", Not("draws for minutes; tests/simulator/dataset/test_layouts.py")),
        ("data/town/", "tests/simulator/dataset/test_layouts.py::test_cocos_library_reads_it_and_every_mask_is_what_is_seen"),
        ("data/town/", "tests/simulator/dataset/test_layouts.py::test_kittis_labels_boxes_and_scans_fit_each_other"),
    ],
    "docs/replay.md": [
        ("$ samepath replay", FLAKY),
        ("$ samepath replay", "tests/cli/test_replay_verbs.py::test_the_shell_opens_at_the_tick_with_the_world_in_it"),
        ("$ samepath replay", FLAKY),
        ("$ samepath fork", FLAKY),
        ("$ samepath fork", FLAKY),
        (
            "$ samepath serve",
            "tests/cli/test_replay_verbs.py::test_a_server_records_and_the_session_is_replayed_without_its_client",
        ),
        ("$ samepath replay cut", FLAKY),
    ],
    "docs/sensors.md": [
        ("from samepath", "tests/simulator/sensors/test_cameras.py::test_the_example_of_the_documentation_runs"),
        ("simulator/sensors/", TREE),
    ],
    "docs/serve.md": [
        ("$ samepath serve", SERVER),
        ("import carla", CARLA),
        ("$ samepath carla", "tests/cli/test_carla_and_map.py::test_carlas_arguments_become_ours"),
        ("cli/serve.py", TREE),
        ("samepath serve", "tests/cli/test_serve.py::test_a_server_that_was_killed_goes_on_where_it_was"),
    ],
    "docs/simulator.md": [("$ samepath study", Not("600 runs; make study runs the same tests")), ("name: mine", READ)],
    "docs/simulators.md": [
        ("# my_package/adapter.py", f"{DOCS}test_the_example_simulator_conforms"),
        ("[project", READ),
        ("$ samepath conformance", Not("a package of the reader's; the tutorial own-simulator.md is run")),
        ("import pytest", f"{DOCS}test_the_example_simulator_conforms"),
    ],
    "docs/start.md": [
        ("$ python3 -m venv", MINUTES),
        ("One test:", OUTPUT),
        ("$ .venv/bin/samepath study", MINUTES),
        ("Is it", OUTPUT),
        ("repeat,time", f"{DOCS}test_the_first_example_prints_what_the_page_says"),
        ("$ .venv/bin/samepath analyse", f"{DOCS}test_the_first_example_prints_what_the_page_says"),
        ("import samepath", f"{HERE}test_every_python_block_compiles_and_names_what_there_is"),
        ("$ .venv/bin/samepath serve", SERVER),
    ],
    "docs/studies.md": [
        ("$ samepath new", SHORT),
        ("# yaml-language", f"{DOCS}test_the_example_study_is_what_the_text_says_of_it"),
        ("$ python -m venv", Not("installs two versions of MuJoCo; bench/studies.py does")),
        ("name: versions", f"{DOCS}test_the_example_study_is_what_the_text_says_of_it"),
        ("$ samepath analyse", LOGS),
        ("$ samepath plan", "tests/instrument/monitors/test_monitor_docs.py::test_the_example_of_plan_is_what_it_prints"),
        ("head$ ray", Not("needs several hosts; tests/instrument/execution/test_ray.py")),
    ],
    "docs/traces.md": [("import samepath", f"{DOCS}test_every_standard_channel_and_column_of_a_trace_is_documented")],
    "docs/traffic.md": [("name: my-town", READ), ("simulator/traffic/", TREE)],
    "docs/tutorials/assess-carla.md": [
        ("./CarlaUE4.sh", CARLA),
        ("$ samepath conformance", f"{TUTORIAL}test_a_server_of_carlas_protocol_is_assessed"),
        ("name: my-carla", f"{TUTORIAL}test_a_server_of_carlas_protocol_is_assessed"),
        ("$ samepath study", f"{TUTORIAL}test_a_server_of_carlas_protocol_is_assessed"),
    ],
    "docs/tutorials/cluster.md": [
        ("samepath cluster", CLUSTER),
        ("import hashlib", f"{TUTORIAL}test_it_does_not_matter_which_server_of_a_cluster_draws"),
        ("python camera.py", f"{TUTORIAL}test_it_does_not_matter_which_server_of_a_cluster_draws"),
    ],
    "docs/tutorials/dataset.md": [
        (begins, f"{TUTORIAL}test_a_data_set_is_written_and_read") for begins in ("$ samepath", "import", "$ python")
    ],
    "docs/tutorials/ego-controller.md": [
        (begins, f"{TUTORIAL}test_a_controller_is_told_from_its_world")
        for begins in ('"""An ego', "name: ego", "name: who", "$ samepath study", "$ samepath explain")
    ],
    "docs/tutorials/gate.md": [
        (begins, f"{TUTORIAL}test_gates_of_a_repository")
        for begins in ("name:", "$ samepath golden", "$ sed", "import", "$ python", "repeat,time", "$ samepath check")
    ],
    "docs/tutorials/own-simulator.md": [
        (begins, f"{TUTORIAL}test_a_simulator_of_your_own_in_fifty_lines")
        for begins in ('"""A car', "$ samepath conformance", "name:", "$ samepath study", "$ samepath explain")
    ],
    "docs/twice.md": [
        ("$ samepath twice", Not("a script of the reader's; those of this page are run")),
        ('"""What all', TWICE),
        ("import random", TWICE),
        ("$ samepath twice", TWICE),
        ("import random", TWICE),
        ("$ samepath twice", TWICE),
        ("import threading", TWICE),
        ("$ samepath twice", "tests/sessions/test_twice.py::test_what_is_wrong_with_a_script_is_named_with_its_line"),
        ("import sys", TWICE),
        ("$ samepath twice", "tests/sessions/test_twice.py::test_what_is_wrong_with_a_script_is_named_with_its_line"),
        ("$ samepath proxy", "tests/sessions/test_twice.py::test_the_proxy_stands_between_carlas_client_and_a_server"),
        ("- run", READ),
        ("{", READ),
    ],
    "docs/v2x.md": [("blueprint =", "tests/simulator/server/test_v2x.py::test_carlas_own_client_reads_it")],
    "docs/view.md": [
        ("$ samepath demo", LOGS),
        ("$ samepath export", LOGS),
        ("import samepath", f"{HERE}test_the_viewers_example_writes_its_page"),
    ],
}
