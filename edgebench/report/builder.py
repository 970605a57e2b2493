"""The report of one sweep: as plain data, as one HTML file without scripts, and as Markdown."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.analysis.compare import NAMES, value_text
from edgebench.analysis.layer_costs import LayerCostTable, layer_cost_tables, sorted_layers
from edgebench.answers.limits import (
    WorkloadAnswer,
    advice_headline,
    advice_table,
    answer_headline,
    blame_words,
    layers_table,
    limits_table,
    overview_table,
    workload_answer,
)
from edgebench.answers.models import fits_table
from edgebench.answers.table import GAP, Table
from edgebench.answers.trials import sweep_warnings, warning_lines, warnings_of
from edgebench.errors import ResultsError
from edgebench.installation import need
from edgebench.results.derived import kept_advice, write_derived, write_file
from edgebench.results.facts import WorkloadFacts, sweep_facts
from edgebench.results.results import Results
from edgebench.results.sweep_reader import Sweep
from edgebench.results.times import START
from edgebench.results.workload_key import brief_names
from edgebench.text import THROUGHPUT, format_limit, format_size, printable

if TYPE_CHECKING:
    from edgebench.slowdown.curves import Fit

#: An SVG larger than this is embedded as PNG, which no number of points makes larger.
LARGEST_SVG = 160_000
#: With more workloads than this, only those with limits have a chapter; the overview has all.
_MANY = 12
#: More warnings than these are counted.
_MOST_WARNINGS = 40
#: Of curves: whole rounds, or trials without any, and their throughput.
_WHOLE_PHASES = (START, "total", THROUGHPUT)
#: What Markdown or the HTML in it would take for its own.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~$!&@]|^[-+=]")
#: A number that would begin a list.
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_FENCE = re.compile(r"`{3,}")


@dataclass(frozen=True)
class Chapter:
    """One workload: its headline, its tables, and lines below them.

    ``brief`` is its name without the words that all workloads share.
    """

    brief: str
    headline: str
    tables: list[Table]
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Picture:
    """A figure: its file's name without an ending, what it shows, and its bytes."""

    stem: str
    shows: str
    svg: bytes
    png: bytes


@dataclass(frozen=True)
class Report:
    """The report of one sweep. ``warnings``: what makes numbers uncertain, and what is missing.

    ``overview`` has a row for each workload; None: there is only one. ``about``: the sweep's
    state and machine.
    """

    title: str
    about: list[str]
    overview: Table | None
    chapters: list[Chapter]
    pictures: list[Picture]
    warnings: list[str]
    tables: list[Table]
    scenario: str
    footer: str
    left_out: list[str] = field(default_factory=list)


def make_report(results: Results) -> Report:
    """Make the report of one sweep, complete, running or interrupted.

    Raises:
        ResultsError: these are several sweeps.
        MachineError: pandas is not installed.
    """
    from edgebench.report.figures.gallery import draw_figures
    from edgebench.report.figures.style import figure_bytes, figure_style
    from edgebench.slowdown.curves import curves, fit_all
    from edgebench.version import __version__

    sweep = results.sweeps[0]
    workloads = sweep_facts(sweep).workloads
    layer_costs: list[LayerCostTable] = []
    fits: list[Fit] = []
    lacking: list[str] = []
    try:
        layer_costs, left_out = layer_cost_tables(results)
        lacking += left_out
    except ResultsError as error:
        lacking.append(f"no layer times: {error.what}")
    try:
        fits, skipped = fit_all(curves(results))
        lacking += skipped
    except ResultsError as error:
        lacking.append(f"no fit: {error.what}")
    pictures: list[Picture] = []
    no_picture: list[str] = []
    with figure_style():
        for stem, figure in draw_figures(results, no_picture):
            # The figure's own title and subtitle.
            words = [text.get_text() for text in figure.texts[:2]]
            drawn = figure_bytes(figure)
            shows = ": ".join(filter(None, words)) or stem
            pictures.append(Picture(stem, shows, drawn["svg"], drawn["png"]))
    tables = []
    if advice := kept_advice(sweep.path):
        tables.append(replace(advice_table(advice), title=advice_headline(advice)))
    if whole := [one for one in fits if one.curve.phase in _WHOLE_PHASES]:
        tables.append(replace(fits_table(whole), title="Fits"))
    unfinished = [
        [workload.name, format_limit(point.limits.label, point.limit_bytes), reason]
        for workload in workloads
        for point in workload.points
        for reason in point.reasons
    ]
    if unfinished:
        titles = ("workload", "limit", "reason")
        tables.append(Table(titles, unfinished, titles, "Trials that did not finish"))
    brief = brief_names(one.name for one in workloads)
    answers = [workload_answer(one, brief[one.name]) for one in workloads]
    several = len(workloads) > 1
    doubts = [w for one in workloads for w in warnings_of(one, brief[one.name] if several else "")]
    lines = warning_lines([*doubts, *sweep_warnings(sweep)])
    # Figures and layers may have added to the warnings of results.
    warnings = [*dict.fromkeys([*results.warnings, *lacking]), *lines]
    left = len(warnings) - _MOST_WARNINGS
    more = [f"{left} more: edgebench show --json"] if left > 0 else []
    costs = {table.workload: table for table in layer_costs}
    measured = sweep.environment.get("edgebench") or "?"
    return Report(
        title=f"{sweep.name} on {sweep.device}",
        about=_about(sweep),
        overview=overview_table(answers) if several else None,
        chapters=[
            _chapter(workload, answer, costs.get(workload.key.id))
            # Of many workloads only those with a limit that was tried get a chapter.
            for workload, answer in zip(workloads, answers, strict=True)
            if workload.tried or len(workloads) <= _MANY
        ],
        pictures=pictures,
        warnings=[*warnings[:_MOST_WARNINGS], *more],
        tables=[*tables, environment_table(sweep.environment)],
        scenario=printable(sweep.scenario_text),
        footer=f"measured by edgebench {measured}, reported by edgebench {__version__}",
        left_out=no_picture,
    )


def _about(sweep: Sweep) -> list[str]:
    """Its state, when its trials began, and its machine."""
    state = "running" if sweep.running else "complete" if sweep.complete else "unfinished"
    started = sorted(record.started_utc[:16].replace("T", " ") for record in sweep.records)
    when = [" to ".join(dict.fromkeys((started[0], started[-1]))) + " UTC"] if started else []
    names = ("board", "cpu_model", "os", "kernel")
    machine = ", ".join(str(word) for name in names if (word := sweep.environment.get(name)))
    trials = f"{state}, {len(sweep.records)} of {sweep.planned or '?'} trials"
    return [trials, *when, *([machine] if machine else [])]


def _chapter(
    workload: WorkloadFacts, answer: WorkloadAnswer, layers: LayerCostTable | None
) -> Chapter:
    tables = [replace(limits_table(answer, every=True, peaks=True), title="Limits")]
    lines = [f"knee {answer.knee}"] if answer.knee else []
    cost = layers.slowed(workload) if layers else None
    if layers and cost:
        rows = sorted_layers(layers, "cost", cost.at.label)
        tables.append(replace(layers_table(layers, rows, cost), title=f"Layers at {cost.at.limit}"))
        lines.append(blame_words(layers, cost))
    headline = answer_headline(answer).replace(GAP, " · ")
    return Chapter(answer.name, headline, tables, [*filter(None, lines)])


def environment_table(environment: Mapping[str, Any]) -> Table:
    """Return the machine when the sweep began; what could not be read stands in one row."""
    told = {**NAMES, "captured_utc": "captured"}
    known = {name: environment[key] for key, name in told.items() if key in environment}
    rows = [[name, value_text(value)] for name, value in known.items() if value is not None]
    if isinstance(ram := environment.get("ram_bytes"), int):
        rows.append(["memory", format_size(ram)])
    swaps = environment.get("swap")
    for swap in swaps if isinstance(swaps, list) else []:
        size = swap.get("size_bytes") if isinstance(swap, dict) else None
        if isinstance(size, int):
            rows.append(["swap", f"{swap.get('kind', 'unknown')}, {format_size(size)}"])
    if isinstance(cgroup := environment.get("cgroup"), dict) and cgroup.get("version"):
        rows.append(["cgroup", f"v{cgroup['version']}"])
    if isinstance(git := environment.get("git"), dict) and git.get("commit"):
        changed = ", with changes" if git.get("changed") else ""
        rows.append(["commit", f"{str(git['commit'])[:10]}{changed}"])
    libraries = environment.get("libraries")
    if isinstance(libraries, dict):
        versions = [f"{name} {version}" for name, version in libraries.items() if version]
        rows += [["libraries", ", ".join(versions)]] if versions else []
    unknown = ", ".join(name for name, value in known.items() if value is None)
    rows += [["not known", unknown]] if unknown else []
    return Table(("", ""), rows, ("",), "Environment")


def as_html(report: Report) -> str:
    """Return the whole page, figures inside, all text escaped.

    Raises:
        MachineError: Jinja2 is not installed.
    """
    need("jinja2")
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page, style = (
        (files("edgebench.report") / "templates" / name).read_text(encoding="utf-8")
        for name in ("report.html", "report.css")
    )
    template = environment.from_string(page)
    return template.render(report=report, address=picture_address, style=style)


def picture_address(picture: Picture) -> str:
    """Return a ``data:`` address that holds the whole image."""
    kind, data = "svg+xml", picture.svg
    if len(data) > LARGEST_SVG:
        kind, data = "png", picture.png
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


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
