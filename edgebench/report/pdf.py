"""A report as PDF, typeset by Typst; its text is data for the template, never markup."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from edgebench.extras import need
from edgebench.report.content import FIGURES_NOTE, Picture, Report
from edgebench.report.pictures import is_png
from edgebench.safe_files import write

_TEMPLATE, _DATA = "report.typ", "report.json"


def as_pdf(report: Report) -> bytes:
    """The whole document, figures inside.

    Raises:
        MachineError: Typst is not installed.
    """
    need("typst")
    import typst

    with tempfile.TemporaryDirectory(prefix="edgebench-report-") as name:
        folder = Path(name)
        pictures = [_written(folder, n, one) for n, one in enumerate(report.pictures)]
        data = {**_plain(report), "pictures": pictures, "figures_note": FIGURES_NOTE}
        write(folder / _DATA, json.dumps(data).encode())
        template = files("edgebench.report") / "templates" / _TEMPLATE
        write(folder / _TEMPLATE, template.read_bytes())
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
    pixels = is_png(picture)
    file = f"figure{number}.{'png' if pixels else 'svg'}"
    write(folder / file, picture.png if pixels else picture.svg)
    return {"file": file, "shows": picture.shows}
