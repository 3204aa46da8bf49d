"""The command that looks like CARLA's, and what is told of a map."""

import json
import os
import subprocess

import pytest
from typer.testing import CliRunner

from samepath.cli.app import app
from samepath.cli.carla import serve_words, write_script
from samepath.core.errors import InputError
from samepath.simulator.maps import load_map, parse_map
from samepath.simulator.survey import draw, survey
from tests.support.map_texts import one_road


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "serve --port 2000 --map town"),
        (["-RenderOffScreen", "-quality-level=Low", "-nosound", "-ResX=800"], "serve --port 2000 --map town"),
        (["Town03", "-carla-rpc-port=2010", "-carla-streaming-port=0"], "serve --port 2010 --map Town03"),
        (["/Game/Carla/Maps/Town05_Opt", "-windowed", "-carla-port=3000"], "serve --port 3000 --map Town05_Opt"),
        (
            ["-carla-rpc-port=4000", "-carla-streaming-port=4001", "--maps", "there"],
            "serve --port 4000 --map town --maps there",
        ),
        (["--map", "oval", "--draw-debug", "-opengl"], "serve --port 2000 --map oval --draw-debug"),
        (["--alias=Town*=town", "-fps=20", "-benchmark", "Town01"], "serve --port 2000 --map Town01 --alias=Town*=town"),
        (["-world-port=2010"], "serve --port 2010 --map town"),
        (["-RenderOffScreen", "--world-port=2010", "-nosound"], "serve --port 2010 --map town"),
        (["--carla-rpc-port=2010", "--map", "oval"], "serve --port 2010 --map oval"),
        (["-Carla-RPC-Port=", "2010", "-opengl"], "serve --port 2010 --map town"),
        (["-carla-rpc-port", "2010"], "serve --port 2010 --map town"),
        (["-carla-rpc-port=2010", "-world-port=2020", "-world-port=2030"], "serve --port 2020 --map town"),
        (["-carla-rpc-port=2010", "-carla-streaming-port=7000"], "serve --port 2010 --stream-port 7000 --map town"),
        (["-ini:[/Script/Engine.RendererSettings]:r.GraphicsAdapter=0"], "serve --port 2000 --map town"),
        (
            # How macad-gym starts CARLA.
            [
                "/Game/Carla/Maps/Town01",
                "-windowed",
                "-ResX=",
                "800",
                "-ResY=",
                "600",
                "-benchmark",
                "-fps=20",
                "-carla-server",
                "-carla-rpc-port=2010",
                "-carla-streaming-port=0",
            ],
            "serve --port 2010 --map Town01",
        ),
        (["-quality-level", "Low", "-fps", "20", "Town01", "Town02", "7"], "serve --port 2000 --map Town01"),
        (["-frobnicate", "--ros2", "--NoSound", "-view"], "serve --port 2000 --map town"),
        (
            ["--view", "Town01", "--weather-felt", "--data=there"],
            "serve --port 2000 --map Town01 --view --weather-felt --data=there",
        ),
        # The misspelt option goes on to samepath serve, which refuses it and names the right one.
        (["--alais=Town*=town"], "serve --port 2000 --map town --alais=Town*=town"),
    ],
)
def test_carlas_arguments_become_ours(given, words):
    assert " ".join(serve_words(given)[0]) == words


def test_each_ignored_argument_has_its_line():
    _, lines = serve_words(["Town01", "-ResX=", "800", "-ini:[A]:b.C=0", "Town02", "-ros2", "-fps=20"])
    assert [line.split("'")[1] for line in lines] == ["-ResX= 800", "-ini:[A]:b.C=0", "Town02", "-ros2", "-fps=20"]
    assert all(line.startswith("ignored ") and "\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("settings", "given", "words"),
    [
        ("[CARLA/Server]\nWorldPort=2010\nUseNetworking=true\n[CARLA/SceneCapture]\nx=1\n", [], "serve --port 2010 --map town"),
        ("[CARLA/Server]\nRPCPort=2010\nStreamingPort=7000\n", [], "serve --port 2010 --stream-port 7000 --map town"),
        # A port of the command line takes the streams' port with it, as in CARLA.
        ("[CARLA/Server]\nRPCPort=1\nStreamingPort=7000\n", ["-world-port=2010"], "serve --port 2010 --map town"),
        ("[CARLA/QualitySettings]\nQualityLevel=Low\n", [], "serve --port 2000 --map town"),
        (None, [], "serve --port 2000 --map town"),
    ],
)
def test_ports_of_carlas_settings_file_count(tmp_path, settings, given, words):
    path = tmp_path / "CarlaSettings.ini"
    if settings is not None:
        path.write_text(settings)
    found, lines = serve_words([f"-carla-settings={path}", *given])
    assert " ".join(found) == words
    assert len(lines) == (settings is None)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["-carla-rpc-port=x"], "a port of 0 to 65534"),
        (["-carla-rpc-port"], "a port of 0 to 65534"),
        (["-carla-rpc-port=99999"], "a port of 0 to 65534"),
        (["-world-port=", "-nosound"], "a port of 0 to 65534"),
    ],
)
def test_a_port_that_is_no_port_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        serve_words(given)


def test_a_script_is_left_where_tools_look_for_it(tmp_path):
    path = write_script(tmp_path / "carla")
    assert os.access(path, os.X_OK)
    write_script(tmp_path / "carla")  # ours is written again
    path.write_text("#!/bin/sh\n# somebody's own\n")
    with pytest.raises(InputError, match="not samepath's"):
        write_script(tmp_path / "carla")


@pytest.mark.slow
def test_the_script_starts_a_server_that_ends_with_it(tmp_path):
    script = write_script(tmp_path)
    command = [str(script), "t-junction", "-RenderOffScreen", "-carla-rpc-port=0", "-quality-level=Epic"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        said = [server.stderr.readline() for _ in range(4)]
        server.terminate()
        assert "ignored '-RenderOffScreen'" in said[0]
        assert "ignored '-quality-level=Epic'" in said[1]
        assert "samepath serve --port 0 --map t-junction" in said[2]
        assert "serving map t-junction" in said[3]
        assert server.wait(60) == 0


def run(*words):
    return CliRunner().invoke(app, ["map", *map(str, words)])


def test_a_map_is_told_and_drawn(tmp_path):
    picture = tmp_path / "town.svg"
    done = run("town", "--picture", picture, "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["lights"], told["crosswalks"], told["spawn_points"], told["parts"]) == (23, 26, 244, 1)
    assert told["missing"] == []
    drawn = picture.read_text()
    assert drawn.count("<path") > 200
    assert "stop lines of 23 lights" in drawn or "23" in drawn
    draw(load_map("town"), picture)
    assert picture.read_text().count("<path") == drawn.count("<path")


def test_what_a_map_lacks_is_said(tmp_path):
    (tmp_path / "Lane.xodr").write_text(one_road())
    done = run(tmp_path / "Lane.xodr", "--no-picture")
    assert done.exit_code == 0
    for words in ("no crosswalks", "no sidewalks", "no speed limits", "2 driving lanes end", "no geoReference"):
        assert words in done.stdout
    assert "picture" not in done.stdout


def test_pieces_that_do_not_hang_together_are_counted():
    apart = one_road(
        top=one_road().split("<road", 1)[1].join(["<road", ""]).replace('id="7"', 'id="8"').split("</OpenDRIVE>")[0]
    )
    found = survey(parse_map(apart, "apart"))
    assert (found.roads, found.parts) == (2, 2)
    assert any("2 pieces" in line for line in found.missing)


@pytest.mark.parametrize(
    ("words", "said"),
    [(("nowhere",), "unknown map"), (("nowhere.xodr",), "cannot be read"), (("town", "--picture", "a.bmp"), ".png or .svg")],
)
def test_a_map_that_cannot_be_told_is_one_line(refused, words, said):
    assert said in refused("map", *words)
