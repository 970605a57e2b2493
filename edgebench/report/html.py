"""A report as one HTML file without scripts or external files; all text is escaped."""

from __future__ import annotations

from importlib.resources import files

from edgebench.extras import need
from edgebench.report.content import Report
from edgebench.report.pictures import picture_address


def as_html(report: Report) -> str:
    """Return the whole page, figures inside.

    Raises:
        MachineError: Jinja2 is not installed.
    """
    need("jinja2")
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_file("report.html"))
    return template.render(report=report, address=picture_address, style=_file("report.css"))


def _file(name: str) -> str:
    return (files("edgebench.report") / "templates" / name).read_text(encoding="utf-8")
