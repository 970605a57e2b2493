"""A report as one HTML file without scripts or external files; all text is escaped."""

from __future__ import annotations

from importlib.resources import files

from edgebench.extras import need
from edgebench.report.content import Report
from edgebench.report.pictures import embedded_pictures


def as_html(report: Report) -> str:
    """The whole page, figures inside.

    Raises:
        MachineError: Jinja2 is not installed.
    """
    need("jinja2")
    from jinja2 import Environment, StrictUndefined

    pictures, too_large = embedded_pictures(report.pictures)
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
