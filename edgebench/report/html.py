"""A report as one HTML file: no script, nothing from elsewhere, everything escaped."""

from __future__ import annotations

from importlib.resources import files

from edgebench.errors import MachineError
from edgebench.report.page import Report
from edgebench.report.pictures import embedded

REMEDY = "python3 -m pip install 'edgebench[report]'"


def as_html(report: Report) -> str:
    """The whole page, figures inside.

    Raises:
        MachineError: Jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
    except ModuleNotFoundError as error:
        raise MachineError(f"this needs {error.name}", remedy=REMEDY) from None
    pictures, too_large = embedded(report.pictures)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_file("report.html"))
    return template.render(
        report=report,
        pictures=pictures,
        left_out=[*report.left_out, *too_large],
        style=_file("report.css"),
    )


def _file(name: str) -> str:
    return (files("edgebench.report") / "templates" / name).read_text(encoding="utf-8")
