"""The docs as a site: it builds without a warning, and a reader's browser is sent nowhere for fonts or scripts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= 40
    for page in pages:
        text = page.read_text("utf-8")
        assert not re.findall(
            r'<(?:script|link|img|iframe)[^>]*(?:src|href)="https?://(?!example)[^"]*"', text.replace("canonical", "")
        ), page
