"""Pictures of the docs' own site, as people see it: ``python -m bench.site_pictures`` writes ``docs/site-*.png``.

Not a benchmark: what is looked at before a release, wide, narrow, dark and printed, by the browser that the tests
use. ``--pdf`` also writes ``build/start.pdf``, as a printer gets it.
"""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.tools import ROOT

LOOKS = {
    "site-wide": ("tutorials/own-simulator", {"width": 1280, "height": 760}),
    "site-narrow": ("start", {"width": 390, "height": 760}),
    "site-dark": ("promises", {"width": 1280, "height": 760, "dark": True}),
    "site-printed": ("start", {"width": 718, "height": 1047}),
}


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve the site on loopback: without a server the theme hides its search."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> int:
    """Build the site, look at it, keep the pictures."""
    from tests.support.chromium import chromium

    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", place]
        subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
        with _served(Path(place)) as address, chromium() as open_page:
            for name, (page, how) in LOOKS.items():
                seen = open_page(f"{address}/{page}.html", wait=False, **how)
                seen.wait_for_selector(".md-search__input", state="attached")
                if name.endswith("printed"):
                    seen.emulate_media(media="print")
                seen.screenshot(path=ROOT / "docs" / f"{name}.png")
                print(f"docs/{name}.png")
                seen.close()
            if "--pdf" in sys.argv:
                seen = open_page(f"{address}/start.html", wait=False)
                seen.pdf(path=ROOT / "build" / "start.pdf", format="A4", prefer_css_page_size=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
