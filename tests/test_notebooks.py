"""The notebooks of the docs run from top to bottom, and find what their text says."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

BOOKS = Path(__file__).parents[1] / "docs" / "notebooks"

# Jupyter's own libraries warn of each other.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def run(name, folder):
    """Run a notebook in an empty folder; returns its text output and how many figures and pages it shows."""
    book = nbformat.read(BOOKS / name, as_version=4)
    assert not [cell for cell in book.cells if cell.get("outputs")], "notebooks are kept without what they once printed"
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    shown = [output for cell in book.cells for output in cell.get("outputs", ())]
    text = "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in shown)
    kinds = [kind for output in shown for kind in output.get("data", {})]
    return text, kinds.count("image/png"), kinds.count("text/html")


def test_a_first_study(tmp_path):
    text, figures, pages = run("first-study.ipynb", tmp_path)
    assert "'lockstep': ('bit-identical', 0.0)" in text
    assert "'game loop': ('exceeds-tolerance'" in text
    assert "Cause: step-length." in text
    assert (figures, pages) == (1, 1)


def test_logs_that_one_has(tmp_path):
    text, figures, _ = run("your-logs.ipynb", tmp_path)
    assert "('within-tolerance', 'exceeds-tolerance')" in text
    assert figures == 1
