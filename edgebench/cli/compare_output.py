"""What ``edgebench compare`` prints: of two sweeps, and of several devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.cli.output import (
    print_answer,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_title,
    typed_path,
)
from edgebench.results.workload_key import brief_names
from edgebench.throughput import THROUGHPUT, throughput_words
from edgebench.units import format_duration, format_size, parse_duration

if TYPE_CHECKING:
    from rich.text import Text

    from edgebench.analysis.comparison import (
        OverallComparison,
        PointComparison,
        SweepComparison,
    )
    from edgebench.analysis.devices import DevicePoint, DevicesRow, EnoughAnswer
    from edgebench.results.results import Sweep

_COLOURS = {"slower": "red", "more": "red", "lost": "red", "unsure": "yellow"}
_COLOURS |= {"faster": "green", "less": "green", "gained": "green"}
#: Verdicts that are listed with --all only.
_UNCHANGED = ("same", "unsure")
#: How the sentence about all times ends.
_OVERALL = {"same": "no change above the threshold", "unsure": "too uncertain to call a change"}
#: More points of one sweep alone are counted.
_MOST_POINTS = 4
#: The smallest changes that users usually want to detect.
_WANTED = (0.1, 0.05)


def print_comparisons(
    sweeps: Sequence[Sweep], compared: SweepComparison, all_rows: bool, verbose: bool
) -> None:
    """The answer over all times, the answer of single ones, then tables of what changed."""
    in_turn, overall = compared.in_turn, compared.overall
    first = [] if overall is None else [overall_sentence(overall, in_turn)]
    answer = _answer(compared)
    print_answer([*first, answer] if first or not in_turn else [_in_turn(answer)])
    print_lines(
        f"{n}: {sweep.name} on {sweep.device}" for n, sweep in zip("ab", sweeps, strict=True)
    )
    groups: dict[str, list[PointComparison]] = {}
    for row in compared.rows:
        if all_rows or row.verdict not in _UNCHANGED:
            groups.setdefault(row.workload, []).append(row)
    titles = ["limit", "swap", "of", "a", "b", "b / a", "verdict", "95 %", "p"]
    titles = titles if verbose else titles[:-2]
    for workload, rows in groups.items():
        print_title(workload)
        cells = [_row(row, compared.rows)[: len(titles)] for row in rows]
        print_table(titles, cells, words=("limit", "swap", "of", "verdict"), gap=1, keys=3)
    print_lines(_summary(compared, verbose))


def _in_turn(sentence: str) -> str:
    """The same sentence, of two sweeps whose trials were made in turn."""
    start = sentence[0] if sentence.startswith("b ") else sentence[0].lower()
    return f"Made in turn: {start}{sentence[1:]}"


def overall_sentence(overall: OverallComparison, in_turn: bool) -> str:
    """How many times as long b takes as a whole, with the interval."""
    verdict = _OVERALL.get(overall.verdict, overall.verdict)
    sentence = (
        f"Over all {overall.times} times compared, b takes {overall.ratio:.2f} times as long as "
        f"a ({overall.ratio_low:.2f} to {overall.ratio_high:.2f}): {verdict}."
    )
    return _in_turn(sentence) if in_turn else sentence


def _answer(compared: SweepComparison) -> str:
    """What got worse and the worst of it; else that nothing did, and how much can't be told."""
    counts = Counter(row.verdict for row in compared.rows)
    total, worse = len(compared.rows), compared.regressions
    if worse:
        found = max(worse, key=lambda row: row.factor)
        factor = f", {found.ratio:.3g}×" if found.ratio else ""
        name = brief_names(row.workload for row in compared.rows)[found.workload]
        what = f"{_quantity(found, compared.rows)} {found.verdict}"
        where = f"{name} at {found.limits.label}: {what}{factor}"
        return f"b is worse than a in {len(worse)} of {total} comparisons; most: {where}."
    unsure = f"; {counts['unsure']} can't be told: repeats differ too much"
    better = total - counts["same"] - counts["unsure"]
    nothing = "No single one got worse" if compared.is_slower_overall else "Nothing got worse"
    words = f"{nothing} in {total} comparisons: {counts['same']} same, {better} better"
    return f"{words}{unsure if counts['unsure'] else ''}."


def _row(row: PointComparison, among: Sequence[PointComparison]) -> list[str | Text]:
    from rich.text import Text

    verdict = Text(row.verdict, style=_COLOURS.get(row.verdict, ""))
    a, b, ratio, *statistics = _numbers(row)
    about = [row.limits.label, row.limits.swap_kind, _quantity(row, among)]
    return [*about, a, b, ratio, verdict, *statistics]


def _quantity(row: PointComparison, among: Sequence[PointComparison]) -> str:
    """``total`` as ``steady`` where there is a start beside it."""
    starts = {(one.workload, one.limits) for one in among if one.quantity == "start"}
    is_steady = row.quantity == "total" and (row.workload, row.limits) in starts
    return "steady" if is_steady else row.quantity


def _numbers(row: PointComparison) -> tuple[str, ...]:
    if row.quantity == "viable":
        ends = ((row.a, row.repeats_a), (row.b, row.repeats_b))
        return (*(f"{share * count:.0f}/{count}" for share, count in ends), "", "", "")
    a, b = (_value(row, number) for number in (row.a, row.b))
    interval = "" if row.ratio_low is None else f"{row.ratio_low:.2f}–{row.ratio_high:.2f}"
    chance = "" if row.p is None else f"{row.p:.2g}"
    return (a, b, f"{row.ratio:.2f}", interval, chance)


def _value(row: PointComparison, number: float) -> str:
    """Bytes, seconds, or what is done in a second."""
    if row.quantity == THROUGHPUT:
        return throughput_words(number, row.unit)
    return format_size(number) if row.quantity == "demand" else format_duration(number)


def _summary(compared: SweepComparison, verbose: bool) -> list[str]:
    counts = Counter(row.verdict for row in compared.rows)
    lines = ["", ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))]
    if counts["unsure"]:
        lines.append("unsure: the repeats differ too much to tell; raise `repeats` in the scenario")
    if verbose:
        lines += _smallest_change(compared)
    for name, points in (("a", compared.only_a), ("b", compared.only_b)):
        if points and (verbose or len(points) <= _MOST_POINTS):
            lines.append(f"only in {name}: {'; '.join(points)}")
        elif points:
            lines.append(f"only in {name}: {len(points)} points (--verbose lists them)")
    return lines + [f"the machines differ: {words}" for words in compared.machine]


def _smallest_change(compared: SweepComparison) -> list[str]:
    """The smallest change that these repeats can show, so that "same" isn't overrated."""
    lines, overall = [], compared.overall
    if overall is not None:
        lines.append(
            f"with these repeats, all times together would show a change of "
            f"{overall.least_ratio - 1:.0%}"
        )
        lines += _needed(" of all times", overall.least_ratio, compared.repeats_for_all)
    if (least := compared.least_times_ratio) is not None:
        lines.append(
            f"with these repeats, half of the times would show a change of {least - 1:.0%}"
        )
        lines += _needed("", least, compared.repeats_for)
    return lines


def _needed(of: str, least: float, repeats_for: Callable[[float], int | None]) -> Iterator[str]:
    """How many repeats it takes to find the smallest changes that users want to detect."""
    for wanted in _WANTED:
        if least > 1 + wanted:
            repeats = repeats_for(1 + wanted)
            yield f"to show a change{of} of {wanted:.0%}, about {repeats} repeats are needed"


def compare_devices(paths: Sequence[Path], within: str | None, as_json: bool) -> None:
    """Compare the newest sweep of each device; see ``docs/verbs/compare.md``."""
    from edgebench.analysis.devices import device_rows, enough_answers

    sweeps = _newest(paths)
    rows = device_rows(sweeps)
    within_s = parse_duration(within) if within else None
    answers = enough_answers(rows, within_s) if within_s is not None else []
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
        names = ", ".join(one.device for one in fast)
        enough = (
            f"fast enough ({words}): {names}" if fast else f"no device is fast enough ({words})"
        )
        sentences.append(f"{workload}: {enough}.")
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
    titles = ["device", "down to", "takes", "workload"]
    rows = [
        [
            one.device,
            one.limit_label or "not at any limit",
            "" if one.seconds is None else format_duration(one.seconds),
            one.workload,
        ]
        for one in answers
    ]
    print_table(titles, rows, words=("device", "down to", "workload"))
