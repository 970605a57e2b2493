"""A report as Markdown, its figures beside it; a sweep's points as JUnit XML, for CI servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from edgebench.answers.table import Table
from edgebench.results.derived import write_derived, write_file
from edgebench.results.point_facts import PointFacts
from edgebench.results.rounds import START, STEADY
from edgebench.results.sweep_reader import Sweep

if TYPE_CHECKING:
    from edgebench.report.builder import Report

#: What Markdown or the HTML in it would take for its own.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~$!&@]|^[-+=]")
#: A number that would begin a list.
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_FENCE = re.compile(r"`{3,}")


def write_markdown(target: Path, report: Report) -> list[Path]:
    """Write the text, and its figures into the folder ``figures`` beside it; their paths.

    Raises:
        ResultsError: a folder can't be written.
    """
    figures = "figures"
    paths = [write_file(target, as_markdown(report, figures).encode())]
    folder = target.parent / figures
    return paths + [write_derived(folder, f"{p.stem}.png", p.png) for p in report.pictures]


def as_markdown(report: Report, figures: str) -> str:
    """Return the whole text. ``figures`` is the folder of the figures, as seen from the file."""
    return "\n".join(_lines(report, figures)) + "\n"


def escaped(text: str) -> str:
    """Return the text such that Markdown shows just that, on one line."""
    line = " ".join(text.split())
    return _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(lambda match: f"\\{match[0]}", line))


def _lines(report: Report, figures: str) -> Iterator[str]:
    yield from (f"# {escaped(report.title)}", "")
    yield from _listed(report.about)
    if report.overview:
        yield from table_lines(report.overview)
    for chapter in report.chapters:
        yield from (f"## {escaped(chapter.brief)}", "", escaped(chapter.headline), "")
        for table in chapter.tables:
            yield from table_lines(table, "###")
        yield from _listed(chapter.lines)
    if report.pictures:
        yield from ("## Figures", "")
    for picture in report.pictures:
        yield from (f"![{escaped(picture.shows)}]({figures}/{picture.stem}.png)", "")
    if report.warnings:
        yield from ("## Warnings", "")
        yield from _listed(report.warnings)
    for table in report.tables:
        yield from table_lines(table, "##")
    if report.scenario:
        fence = "`" * (1 + max((len(run) for run in _FENCE.findall(report.scenario)), default=2))
        yield from ("## The scenario", "", f"{fence}toml", report.scenario.rstrip(), fence, "")
    yield from _listed(report.left_out)
    yield escaped(report.footer)


def _listed(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"- {escaped(line)}"
    if lines:
        yield ""


def table_lines(table: Table, level: str = "") -> Iterator[str]:
    """Render one table, below its title where there is a level of headings (``##``)."""
    if level and table.title:
        yield from (f"{level} {escaped(table.title)}", "")
    ruler = ["---" if title in table.left else "---:" for title in table.columns]
    for cells in (list(map(escaped, table.columns)), ruler):
        yield f"| {' | '.join(cells)} |"
    for row in table.rows:
        yield f"| {' | '.join(map(escaped, row))} |"
    yield ""
    if table.note:
        yield from (f"*{escaped(table.note)}*", "")


def junit_xml(sweep: Sweep, points: Sequence[PointFacts]) -> str:
    """Make a test case of each point, with properties; a failure where no trial finished.

    A kill at a limit is a result where its workload finished at another one, and so is a trial
    that a search stopped.
    """
    suite = ElementTree.Element("testsuite", name=f"edgebench.{sweep.name}", tests=str(len(points)))
    failures = 0
    finishing = {point.key for point in points if point.finished and not point.is_unlimited}
    for point in points:
        steady = point.times_s.get(STEADY) or point.times_s.get("total")
        start = point.times_s.get(START)
        finished = point.outcomes.get("ok", 0)
        measures = {
            "demand_bytes": point.demand_bytes,
            "peak_bytes": point.peak_bytes.median if point.peak_bytes else None,
            "start_s": start.median if start else None,
            "steady_s": steady.median if steady else None,
            "slowdown": point.slowdown,
            "finished": finished / sum(point.outcomes.values()),
        }
        swap = point.limits.swap_kind
        name = f"{point.workload} at {point.limits.label}"
        name += "" if swap == "none" else f", {swap} swap"
        # XML can't hold control characters.
        name = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "?", name)
        seconds = f"{steady.median if steady else 0.0:.6f}"
        case = ElementTree.SubElement(
            suite, "testcase", classname="edgebench", name=name, time=seconds
        )
        properties = ElementTree.SubElement(case, "properties")
        for key, value in measures.items():
            if value is not None:
                ElementTree.SubElement(properties, "property", name=key, value=f"{value:.17g}")
        planned = {"oom-killed", *(("timeout",) if not point.planned else ())}
        expected = point.key in finishing and planned.issuperset(point.outcomes)
        expected = expected and not point.is_unlimited
        if not finished and not expected:
            failures += 1
            outcomes = ", ".join(f"{count} {name}" for name, count in point.outcomes.items())
            ElementTree.SubElement(case, "failure", message=outcomes)
    suite.set("failures", str(failures))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
