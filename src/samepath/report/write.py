"""Writing the reports of a study into its folder."""

from pathlib import Path

from samepath.base.files import write_text_atomically
from samepath.report.document import Document, to_json
from samepath.report.junit import render_junit


def write_reports(folder: Path, document: Document) -> Path:
    """Write ``report.html``, ``report.json`` and ``junit.xml``; return the page's path."""
    from samepath.report.html import render_html

    write_text_atomically(folder / "report.json", to_json(document))
    write_text_atomically(folder / "junit.xml", render_junit(document))
    write_text_atomically(folder / "report.html", render_html(document))
    return folder / "report.html"
