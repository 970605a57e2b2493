"""A report as PDF, set by Typst from a template that takes all words as data: none is markup."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from edgebench.errors import MachineError
from edgebench.report.html import REMEDY
from edgebench.report.page import Picture, Report
from edgebench.report.pictures import is_pixels

_TEMPLATE, _DATA = "report.typ", "report.json"


def as_pdf(report: Report) -> bytes:
    """The whole document, figures inside.

    Raises:
        MachineError: Typst is not installed.
    """
    try:
        import typst
    except ModuleNotFoundError as error:
        raise MachineError(f"a PDF needs {error.name}", remedy=REMEDY) from None
    with tempfile.TemporaryDirectory(prefix="edgebench-report-") as name:
        folder = Path(name)
        pictures = [_written(folder, n, one) for n, one in enumerate(report.pictures)]
        (folder / _DATA).write_text(json.dumps({**_plain(report), "pictures": pictures}))
        template = files("edgebench.report") / "templates" / _TEMPLATE
        (folder / _TEMPLATE).write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
        return bytes(typst.compile(str(folder / _TEMPLATE), root=name, ignore_system_fonts=True))


def _plain(report: Report) -> dict[str, Any]:
    data = asdict(replace(report, pictures=[]))
    tables = [data["summary"], *data["tables"]]
    tables += [table for chapter in data["chapters"] for table in chapter["tables"]]
    for table in tables:
        table["numbers"] = sorted(table["numbers"])
    return data


def _written(folder: Path, number: int, picture: Picture) -> dict[str, str]:
    """One figure as a file; as pixels where its SVG is too large."""
    pixels = is_pixels(picture)
    file = f"figure{number}.{'png' if pixels else 'svg'}"
    (folder / file).write_bytes(picture.png if pixels else picture.svg)
    return {"file": file, "shows": picture.shows}
