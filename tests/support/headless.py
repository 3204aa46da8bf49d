"""A headless Chromium for pages that only have to be opened: how it is called, and what such tests are marked with."""

import pytest

from tests.support.chromium import BROWSER

HEADLESS = [
    BROWSER,
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(BROWSER is None, reason="neither chromium, chromium-browser nor google-chrome is on PATH"),
]
