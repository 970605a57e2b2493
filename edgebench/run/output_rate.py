"""What a program gets done in a second, read from what it prints."""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from edgebench.records import PhaseSum, is_number
from edgebench.throughput import generates_text, reads_throughput

#: Why a throughput is missing.
NO_LINE = "it printed nothing; output that is held back in a buffer shows too late"
UNBUFFERED = "let it print at once: python3 -u, or stdbuf -oL"
NO_NUMBER = "no line of its output has a number where the pattern looks for one"
NO_JSON = "its output has no JSON with a number at the path"
#: No more of a line is searched: a pattern can take time that grows far faster than the line.
_LONGEST_LINE = 1000
#: So many places that look like the start of JSON may turn out not to be.
_MOST_FALSE_STARTS = 1000
#: In a path: every entry of a list.
_EVERY = "*"
_LINE_OF_JSON = re.compile(r"^[ \t]*([\[{])", re.MULTILINE)


def why_no_rate(settings: Mapping[str, Any]) -> str:
    """Why a program's output gave no rate."""
    if settings.get("throughput_pattern"):
        return NO_NUMBER
    return NO_JSON if settings.get("throughput_json") else NO_LINE


def trial_throughput(
    settings: Mapping[str, Any], from_output: float | None, phases: Sequence[PhaseSum]
) -> float | None:
    """What a program's output says; of text generation, tokens a second while decoding."""
    if reads_throughput(settings):
        return from_output
    rates = [
        settings["batch"] * phase.passes / phase.wall_s
        for phase in phases
        if phase.phase == "decode" and phase.wall_s > 0 and generates_text(settings)
    ]
    return statistics.median(rates) if rates else None


class OutputRate:
    """Counts lines of output as they come.

    Args:
        pattern: a regular expression with one group, a number that is a rate by itself, as
            ``([\\d.]+) tokens/s``; searched in each line.
        path: where such a number stands in JSON that it prints: ``results.0.tokens_per_s``, or
            ``*`` for all entries of a list. Without either, lines are counted.
    """

    def __init__(self, pattern: str | None = None, path: str | None = None) -> None:
        self._pattern = re.compile(pattern) if pattern else None
        self._path = path
        self._began = time.monotonic()
        self._first_s: float | None = None
        self._first_lines = self._lines = 0

    def _feed(self, data: bytes) -> None:
        count = data.count(b"\n")
        if self._first_s is None and count:
            self._first_s, self._first_lines = time.monotonic() - self._began, count
        self._lines += count

    def beside(self, echo: Callable[[bytes], None] | None) -> Callable[[bytes], None]:
        """What is called with output as it comes: it is counted, and echoed."""

        def both(data: bytes) -> None:
            self._feed(data)
            if echo:
                echo(data)

        return both

    def per_second(self, wall_s: float, output: str) -> float | None:
        """The median of the numbers that pattern or path find; else lines per second.

        Lines count from the first on: until then the program starts. None: nothing was printed,
        or no number is found.

        Args:
            wall_s: how long the program ran.
            output: what it printed, as far as it was kept.
        """
        if self._pattern:
            lines = (line[:_LONGEST_LINE] for line in output.splitlines())
            found = (one[1] for line in lines for one in self._pattern.finditer(line))
            numbers = [number for text in found if (number := _number(text))]
            return statistics.median(numbers) if numbers else None
        if self._path:
            found_at = (number for one in _json_in(output) for number in _at(one, self._path))
            rates = [float(number) for number in found_at if number > 0]
            return statistics.median(rates) if rates else None
        if self._first_s is None:
            return None
        later = self._lines - self._first_lines
        if later and wall_s > self._first_s:
            return later / (wall_s - self._first_s)
        # All came at once: only the whole time tells anything.
        return self._lines / wall_s if wall_s > 0 else None


def _json_in(output: str) -> Iterator[Any]:
    """Every object and list of JSON that begins a line of the output."""
    decoder, place, false_starts = json.JSONDecoder(), 0, 0
    while (begin := _LINE_OF_JSON.search(output, place)) and false_starts < _MOST_FALSE_STARTS:
        try:
            value, place = decoder.raw_decode(output, begin.start(1))
        except (ValueError, RecursionError):
            place, false_starts = begin.end(), false_starts + 1
            continue
        yield value


def _at(value: Any, path: str) -> Iterator[float]:
    """The numbers at a path of names, places in lists, and ``*``."""
    values = [value]
    for step in path.split("."):
        values = [inner for one in values for inner in _inside(one, step)]
    yield from filter(is_number, values)


def _inside(value: Any, step: str) -> list[Any]:
    if isinstance(value, Mapping):
        return [value[step]] if step in value else []
    if not isinstance(value, list):
        return []
    if step == _EVERY:
        return value
    place = int(step) if re.fullmatch(r"-?\d{1,9}", step) else len(value)
    return [value[place]] if -len(value) <= place < len(value) else []


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None
