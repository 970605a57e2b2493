"""What ``compare --devices`` prints: seconds and slowdown of each device, and which is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.cli.output import (
    figures_or_reason,
    print_answer,
    print_figures,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_title,
    print_warnings,
    typed_path,
)
from edgebench.errors import UsageError
from edgebench.units import format_duration, parse_duration

if TYPE_CHECKING:
    from edgebench.analysis.devices import DevicePoint, DevicesRow, EnoughAnswer
    from edgebench.results.results import Sweep


def compare_devices(
    paths: Sequence[Path],
    within: str | None,
    prices: Sequence[str],
    figure: Path | None,
    as_json: bool,
) -> None:
    """Compare the newest sweep of each device; see ``docs/verbs/compare.md``."""
    from edgebench.analysis.devices import device_rows, enough_answers

    sweeps = _newest(paths)
    rows = device_rows(sweeps)
    within_s = parse_duration(within) if within else None
    answers = enough_answers(rows, within_s, _prices(prices)) if within_s is not None else []
    if as_json:
        folders = {sweep.device: sweep.path for sweep in sweeps}
        print_json(
            {
                "sweeps": folders,
                "rows": [asdict(row) for row in rows],
                "enough": [asdict(one) for one in answers],
            }
        )
        return
    print_answer(_sentences(rows, answers, within_s))
    print_lines(f"{sweep.device}: {sweep.name}" for sweep in sweeps)
    _print_rows(rows, [sweep.device for sweep in sweeps])
    if answers:
        _print_answers(answers)
    if figure is not None:
        drawn, notes = figures_or_reason(lambda: _drawn(rows, figure))
        print_figures(drawn)
        print_warnings(notes)
    print_next(f"edgebench show {typed_path(sweeps[0].path)}")


def _newest(paths: Sequence[Path]) -> list[Sweep]:
    """Each device's newest sweep of one scenario: the newest that several devices ran."""
    from edgebench.results.results import load
    from edgebench.results.sweep_reader import sweep_folders

    folders = [folder for path in paths for folder in sweep_folders(path)]
    sweeps = [load(folder).sweeps[0] for folder in dict.fromkeys(folders)]
    scenarios: dict[str, dict[str, Sweep]] = {}
    for sweep in sorted(sweeps, key=lambda one: one.name):
        name = str(sweep.resolved.get("scenario", {}).get("name"))
        # The last in the dictionary is the scenario whose newest sweep is the newest.
        own = scenarios[name] = scenarios.pop(name, {})
        own[sweep.device] = sweep
    every = list(scenarios.values())
    found = next((own for own in reversed(every) if len(own) > 1), every[-1])
    return [found[device] for device in sorted(found)]


def _prices(given: Sequence[str]) -> dict[str, float]:
    prices = {}
    for text in given:
        device, equals, price = text.partition("=")
        try:
            prices[device] = float(price)
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"{text!r} is no price", where="--price", remedy="--price pi-1=35")
    return prices


def _sentences(
    rows: Sequence[DevicesRow], answers: Sequence[EnoughAnswer], within_s: float | None
) -> list[str]:
    if within_s is None:
        devices = len({point.device for row in rows for point in row.points})
        return [f"{devices} devices, {len(rows)} points that at least two of them have."]
    sentences = []
    for workload in dict.fromkeys(one.workload for one in answers):
        fast = [one for one in answers if one.workload == workload and one.seconds is not None]
        words = f"within {format_duration(within_s)}"
        if not fast:
            sentences.append(f"{workload}: no device is fast enough ({words}).")
        elif fast[0].price is None:
            names = ", ".join(one.device for one in fast)
            sentences.append(f"{workload}: fast enough ({words}): {names}.")
        else:
            sentences.append(
                f"{workload}: the cheapest that is fast enough ({words}) is {fast[0].device}, "
                f"{fast[0].price:g}, down to {fast[0].limit_label}."
            )
    return sentences


def _print_rows(rows: Sequence[DevicesRow], devices: Sequence[str]) -> None:
    titles = ["limit", *(title for device in devices for title in (f"{device}\ns", "slow-\ndown"))]
    for workload in dict.fromkeys(row.workload for row in rows):
        print_title(workload)
        cells = []
        for row in rows:
            if row.workload == workload:
                own = [cell for device in devices for cell in _cells(row.of(device))]
                cells.append([row.limit_label, *own])
        print_table(titles, cells, words=("limit",))


def _cells(point: DevicePoint | None) -> tuple[str, str]:
    if point is None:
        return "", ""
    if point.seconds is None or not point.finished:
        ended = ", ".join(f"{n} {name}" for name, n in sorted(point.outcomes.items()))
        return ended or "none", ""
    slowdown = "" if point.slowdown is None else f"{point.slowdown:.2f}"
    return format_duration(point.seconds.median), slowdown


def _print_answers(answers: Sequence[EnoughAnswer]) -> None:
    print_title("fast enough")
    titles = ["device", "price", "down to", "takes", "workload"]
    rows = [
        [
            one.device,
            "" if one.price is None else f"{one.price:g}",
            one.limit_label or "not at any limit",
            "" if one.seconds is None else format_duration(one.seconds),
            one.workload,
        ]
        for one in answers
    ]
    print_table(titles, rows, words=("device", "down to", "workload"))


def _drawn(rows: Sequence[DevicesRow], folder: Path) -> list[Path]:
    from edgebench.report.figures.devices import draw_devices

    return draw_devices(rows, folder)
