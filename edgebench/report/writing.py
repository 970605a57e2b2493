"""Where a report goes: one page, or a text with its figures beside it."""

from __future__ import annotations

from pathlib import Path

from edgebench.report.markdown import as_markdown
from edgebench.report.page import Report
from edgebench.results.derived import write_derived, write_file

FIGURES = "figures"


def write_page(target: Path, page: bytes) -> Path:
    """Put the page there whole; its path.

    Raises:
        ResultsError: the folder can't be written.
    """
    return write_file(target, page)


def write_markdown(target: Path, report: Report) -> list[Path]:
    """Put the text there, and its figures into the folder ``figures`` beside it; their paths.

    Raises:
        ResultsError: a folder can't be written.
    """
    text = as_markdown(report, FIGURES)
    folder = target.parent / FIGURES
    paths = [write_file(target, text.encode())]
    return paths + [write_derived(folder, f"{p.stem}.png", p.png) for p in report.pictures]
