"""A program's output: shown while it runs, and what it gets done in a second, read from it."""

from __future__ import annotations

import codecs
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

from edgebench.records import PhaseSum
from edgebench.text import generates_text, printable, reads_throughput

#: Why a throughput is missing.
NO_LINE = "it printed nothing; output that is held back in a buffer shows too late"
UNBUFFERED = "let it print at once: python3 -u, or stdbuf -oL"
NO_NUMBER = "no line of its output has a number where the pattern looks for one"
#: Of a longer line only the beginning is searched.
_LINE_LENGTH = 1000


def trial_throughput(
    settings: Mapping[str, Any], from_output: float | None, phases: Sequence[PhaseSum]
) -> float | None:
    """Return what a program's output says; of text generation, tokens a second while decoding."""
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
            ``([\\d.]+) tokens/s``. Without it, lines are counted.
    """

    def __init__(self, pattern: str | None = None) -> None:
        self._pattern = pattern
        self._began = time.monotonic()
        self._first_s: float | None = None
        self._first_lines = self._lines = 0

    def beside(self, echo: Callable[[bytes], None] | None) -> Callable[[bytes], None]:
        """Return what is called with output as it comes: it is counted, and echoed."""

        def both(data: bytes) -> None:
            count = data.count(b"\n")
            if self._first_s is None and count:
                self._first_s, self._first_lines = time.monotonic() - self._began, count
            self._lines += count
            if echo:
                echo(data)

        return both

    def per_second(self, wall_s: float, output: str) -> tuple[float | None, str]:
        """Return the median of the numbers that the pattern finds, or lines per second; or why not.

        Lines count from the first on: until then the program starts.

        Args:
            wall_s: how long the program ran.
            output: what it printed, as far as it was kept.
        """
        if self._pattern:
            rates = []
            for line in output.splitlines():
                for match in re.finditer(self._pattern, line[:_LINE_LENGTH]):
                    with suppress(ValueError):
                        rates.append(float((match[1] or "").replace(",", "")))
            known = [rate for rate in rates if rate]
            return (statistics.median(known), "") if known else (None, NO_NUMBER)
        if self._first_s is None:
            return None, NO_LINE
        later = self._lines - self._first_lines
        if later and wall_s > self._first_s:
            return later / (wall_s - self._first_s), ""
        # All came at once: only the whole time tells anything.
        return (self._lines / wall_s, "") if wall_s > 0 else (None, NO_LINE)


def echo_to(stream: TextIO) -> Callable[[bytes], None]:
    """Return what writes a workload's output to the stream as it comes.

    A pipe or a file gets the same bytes. A terminal would obey the control codes in them: it gets
    those as ``\\x1b``, but for newlines, tabs, and the carriage returns of progress bars.
    """
    # A character may come in two pieces.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    binary = getattr(stream, "buffer", None)

    def show(data: bytes) -> None:
        if stream.isatty():
            stream.write("\r".join(map(printable, decoder.decode(data).split("\r"))))
        elif binary is None:
            # A notebook's stream has none: text it is.
            stream.write(decoder.decode(data))
        else:
            stream.flush()
            binary.write(data)
            binary.flush()
        stream.flush()

    return show
