"""A real Chromium that tests drive: pages are opened, keys pressed, pixels looked at. Whatever a page complains of is kept."""

import contextlib
import shutil

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
FLAGS = [
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    # WebGL on the processor: a machine of tests has no graphics card.
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]


@contextlib.contextmanager
def chromium():
    """Start a browser; yields a function that opens pages, each with ``complaints`` and ``requests`` of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=BROWSER, args=FLAGS)
        try:
            yield lambda url, **how: _page(browser, url, **how)
        finally:
            browser.close()


def _page(browser, url, *, width=1280, height=800, dark=False, wait=True):
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.complaints, page.asked = [], []
    page.on("console", lambda said: page.complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(url)
    if wait:
        page.wait_for_selector("body[data-ready]", timeout=120_000)
        settle(page)
    return page


def settle(page):
    """Wait until what was asked for is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
