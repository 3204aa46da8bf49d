"""The docs as a site: built without a warning, links lead somewhere, nobody is sent elsewhere, everybody can read it."""

import importlib.util
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

from samepath.cli.app import VERBS
from tests.support.chromium import BROWSER, chromium

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def needs_browser(test):
    reason = "neither chromium, chromium-browser nor google-chrome is on PATH"
    return pytest.mark.browser(pytest.mark.skipif(BROWSER is None, reason=reason)(test))


# A page of each kind: pictures, code, long tables, help texts; as people look at them.
LOOKS = (
    ("index", {}),
    ("start", {"dark": True}),
    ("tutorials/own-simulator", {}),
    ("promises", {"width": 390}),
    ("cli", {"dark": True, "width": 390}),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built once, as pages by their place."""
    place = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def pages(site):
    found = {page.resolve(): page.read_text("utf-8") for page in site.rglob("*.html")}
    assert len(found) >= 60
    return found


def test_it_loads_nothing_from_elsewhere(pages):
    for page, text in pages.items():
        assert not re.findall(
            r'<(?:script|link|img|iframe)[^>]*(?:src|href)="https?://(?!example)[^"]*"', text.replace("canonical", "")
        ), page


def test_every_link_leads_to_a_page_and_a_place_in_it(pages):
    places = {page: set(re.findall(r'\bid="([^"]+)"', text)) for page, text in pages.items()}
    followed = 0
    for page, text in pages.items():
        if page.name == "404.html":  # its links begin at the root of whoever serves it
            continue
        for target in map(unescape, re.findall(r'<a\b[^>]*\bhref="([^"]+)"', text)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            other = (page.parent / name).resolve() if name else page
            assert other.exists(), f"{page.name}: {target}"
            if anchor and other in places:
                assert anchor in places[other], f"{page.name}: {target}"
                followed += 1
    assert followed > 500


def test_the_reference_of_the_command_line_has_every_verb_and_option(pages):
    (text,) = (unescape(text) for page, text in pages.items() if page.name == "cli.html")
    for verb in VERBS:
        assert f"Usage: samepath {verb} " in text, verb
    for option in ("--tolerance", "--real-time", "--placement", "--renderer"):
        assert option in text, option


def test_the_button_of_every_console_block_copies_commands_alone(pages):
    copied = [unescape(text) for page in pages.values() for text in re.findall(r'data-copy="([^"]*)"', page)]
    assert len(copied) > 60
    for text in copied:
        assert not re.search(r"^(?:[\w-]+)?[$#] ", text, re.MULTILINE), text
    (explained,) = [text for text in copied if text.startswith("samepath explain runs/crossing")]
    assert explained == "samepath explain runs/crossing"  # and nothing of what it prints


@pytest.mark.parametrize(
    ("console", "commands"),
    [
        ("$ one\nprinted\n$ two --flag   # why\n", "one\ntwo --flag   # why"),
        ("# apt-get install x\n$ y\n", "apt-get install x\ny"),
        ("$ long \\\n    --more \\\n    --most\n$ 1 is printed\n  2\n", "long \\\n    --more \\\n    --most\n1 is printed"),
        ("main$ one\nnode$ two\n", "one\ntwo"),
        ("only output\n", ""),
    ],
)
def test_commands_are_told_from_what_they_print(console, commands):
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "web" / "docs" / "hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    assert hooks.commands_of(console) == commands


@needs_browser
def test_the_search_finds_a_page_of_a_site_that_is_opened_as_files(site):
    with chromium() as open_page:
        page = open_page((site / "index.html").as_uri(), wait=False)
        page.locator(".md-search__input").click()
        page.keyboard.type("clopper")
        found = page.locator("a.md-search-result__link").first
        found.wait_for(state="visible", timeout=60_000)
        with page.expect_navigation():
            found.click()
        assert not page.url.endswith("/index.html")
        assert "Clopper" in page.locator("article").inner_text()
        assert [url for url in page.asked if not url.startswith(("file:", "data:"))] == []


@needs_browser
def test_what_the_button_copies_can_be_pasted(site):
    with chromium() as open_page:
        page = open_page((site / "tutorials" / "gate.html").as_uri(), wait=False)
        block = page.locator(".highlight[data-copy]").first
        block.scroll_into_view_if_needed()
        block.locator(".md-code__button[data-md-type=copy], .md-clipboard").first.click()
        page.evaluate("document.body.append(document.createElement('textarea'))")
        page.locator("body > textarea").focus()
        page.keyboard.press("Control+V")
        assert page.locator("body > textarea").input_value() == block.get_attribute("data-copy")


@needs_browser
def test_axe_finds_nothing_serious(site):
    from axe_playwright_python.sync_playwright import Axe

    found = {}
    with chromium() as open_page:
        for name, how in LOOKS:
            page = open_page((site / f"{name}.html").as_uri(), wait=False, **how)
            result = Axe().run(page).response
            assert len(result["passes"]) > 20  # it did look
            serious = [violation["id"] for violation in result["violations"] if violation["impact"] in ("serious", "critical")]
            if serious:
                found[name, *how.items()] = serious
            page.close()
    assert found == {}
