"""Record what a command really shows in a terminal, as an animated SVG without scripts.

``python scripts/record.py -o docs/figures/minimum.svg -- edgebench minimum -- python3 prog.py``

The command runs in a pseudo-terminal; pyte (``edgebench[dev]``) keeps its screen. Each picture of
the screen becomes one frame of a film strip that CSS moves, so it plays wherever SVG images do.
Pauses are shortened evenly to ``--seconds``; the title says by how much.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import shlex
import struct
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from pathlib import Path

import pyte

_CELL, _LINE, _SIZE, _MARGIN, _BAR = 8.4, 18, 14, 14, 30
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
_BACK, _FORE, _DIM = "#0d1117", "#e6edf3", "#9198a1"
#: pyte's names of the sixteen colours, as GitHub's dark theme has them.
_COLOURS = {
    "black": "#484f58",
    "red": "#ff7b72",
    "green": "#3fb950",
    "brown": "#d29922",
    "blue": "#58a6ff",
    "magenta": "#bc8cff",
    "cyan": "#39c5cf",
    "white": "#b1bac4",
}
#: Seconds: between two pictures, a typed letter, the last picture.
_LEAST_S, _KEY_S, _HOLD_S = 0.2, 0.05, 5.0


@dataclass(frozen=True)
class Frame:
    """What the screen showed, as one SVG text a line, and for how long."""

    lines: tuple[str, ...]
    seconds: float


class DimScreen(pyte.Screen):
    """A screen that keeps faint text (SGR 2), which pyte leaves out: as its own colour."""

    def select_graphic_rendition(self, *attrs: int, **kwargs: bool) -> None:
        """Turn faint into a colour, and its end (22) into the default one."""
        super().select_graphic_rendition(*attrs, **kwargs)
        if 2 in attrs and 38 not in attrs and 48 not in attrs:
            self.cursor.attrs = self.cursor.attrs._replace(fg=_DIM[1:])


def record(command: list[str], columns: int, rows: int) -> Iterator[tuple[float, tuple[str, ...]]]:
    """Run the command; each picture of its screen with the seconds since its start."""
    screen = DimScreen(columns, rows)
    stream = pyte.ByteStream(screen)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)}
        os.execvp(command[0], command)  # noqa: S606
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    began, shown = time.monotonic(), None
    due = began
    while True:
        ready, _, _ = select.select([terminal], [], [], _LEAST_S)
        try:
            data = os.read(terminal, 1 << 16) if ready else b""
        except OSError:
            break
        if ready and not data:
            break
        stream.feed(data)
        now = time.monotonic()
        if now >= due and (lines := _lines(screen)) != shown:
            shown, due = lines, now + _LEAST_S
            yield now - began, lines
    os.waitpid(pid, 0)
    yield time.monotonic() - began, _lines(screen)


def _lines(screen: pyte.Screen) -> tuple[str, ...]:
    return tuple(_line(screen, row) for row in range(screen.lines))


def _line(screen: pyte.Screen, row: int) -> str:
    """One line as SVG: a tspan for each stretch of one style, each at its column."""
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    parts, column = [], 0
    for (fore, bold), stretch in groupby(cells, key=lambda cell: (cell.fg, cell.bold)):
        text = "".join(cell.data for cell in stretch)
        if text.strip():
            style = f' fill="{_colour(fore)}"' if fore != "default" else ""
            style += ' font-weight="bold"' if bold else ""
            lead = len(text) - len(text.lstrip())
            kept = text.strip()
            width = len(kept) * _CELL
            parts.append(
                f'<tspan x="{_MARGIN + (column + lead) * _CELL:.1f}" textLength="{width:.1f}" '
                f'lengthAdjust="spacingAndGlyphs"{style}>{escape(kept)}</tspan>'
            )
        column += len(text)
    return "".join(parts)


def _colour(name: str) -> str:
    plain = name.removeprefix("bright")
    return _COLOURS.get(plain) or (f"#{name}" if len(name) == 6 else _FORE)


def typed(words: str, rows: int) -> list[Frame]:
    """The prompt, as the command is typed."""

    def line(text: str) -> str:
        return (
            f'<tspan x="{_MARGIN}" fill="{_COLOURS["green"]}">$</tspan>'
            f'<tspan x="{_MARGIN + 2 * _CELL:.1f}" textLength="{max(1, len(text)) * _CELL:.1f}" '
            f'lengthAdjust="spacingAndGlyphs">{escape(text)}</tspan>'
        )

    rest = ("",) * (rows - 1)
    ends = range(2, len(words) + 2, 2)
    return [Frame((line(words[:end]), *rest), 2 * _KEY_S) for end in ends]


def frames_of(
    command: list[str], words: str, columns: int, rows: int, seconds: float
) -> tuple[list[Frame], float]:
    """All frames, the prompt on the first line, and how many times faster they play."""
    shown = list(record(command, columns, rows - 1))
    factor = max(1.0, shown[-1][0] / seconds)
    start = typed(words, rows)
    prompt = start[-1].lines[0]
    times = [at / factor for at, _ in shown]
    pauses = [b - a for a, b in pairwise(times)] + [_HOLD_S]
    body = [Frame((prompt, *lines), pause) for (_, lines), pause in zip(shown, pauses, strict=True)]
    return [*start, Frame(start[-1].lines, max(0.1, times[0])), *body], factor


def svg(frames: list[Frame], columns: int, words: str, factor: float) -> str:
    """The film strip: each different line once, each frame a group of uses, moved in steps."""
    rows = max(row for frame in frames for row, line in enumerate(frame.lines, 1) if line)
    width, height = columns * _CELL + 2 * _MARGIN, rows * _LINE + 2 * _MARGIN
    whole = sum(frame.seconds for frame in frames)
    names: dict[str, str] = {}
    strip, steps, at = [], [], 0.0
    for number, frame in enumerate(frames):
        top = number * height
        for row, line in enumerate(frame.lines):
            if line:
                name = names.setdefault(line, f"l{len(names)}")
                y = top + _MARGIN + (row + 0.8) * _LINE
                strip.append(f'<use href="#{name}" y="{y:.1f}"/>')
        steps.append(f"{100 * at / whole:.3f}%{{transform:translateY(-{top:.1f}px)}}")
        at += frame.seconds
    last = (len(frames) - 1) * height
    defined = "".join(f'<text id="{name}">{line}</text>' for line, name in names.items())
    defined += f'<clipPath id="screen"><rect width="{width:.0f}" height="{height:.0f}"/></clipPath>'
    faster = f" · played {factor:.1f} times faster" if factor > 1.05 else ""
    title = escape(words + faster)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height + _BAR:.0f}" \
width="{width:.0f}" height="{height + _BAR:.0f}" role="img" aria-label="{title}">
<title>{title}</title>
<style>
text{{font:{_SIZE}px {_FONT};fill:{_FORE};white-space:pre}}
.film{{transform:translateY(-{last:.1f}px);animation:film {whole:.2f}s step-end infinite}}
@keyframes film{{{"".join(steps)}}}
@media (prefers-reduced-motion:reduce){{.film{{animation:none}}}}
</style>
<defs>{defined}</defs>
<rect width="100%" height="100%" rx="8" fill="{_BACK}"/>
<text x="{width / 2:.0f}" y="20" text-anchor="middle" fill-opacity="0.7">{title}</text>
<g transform="translate(0 {_BAR})" clip-path="url(#screen)"><g class="film">{"".join(strip)}</g></g>
</svg>
"""


def main() -> None:
    """Record the command and write the SVG."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True, help="the SVG to write")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long it plays at most")
    parser.add_argument("--columns", type=int, default=80, help="width of the terminal")
    parser.add_argument("--rows", type=int, default=24, help="its height, with the prompt's line")
    parser.add_argument("--shown", help="the command as the prompt shows it")
    parser.add_argument("command", nargs="+", help="the command to run")
    given = parser.parse_args()
    words = given.shown or shlex.join(given.command)
    frames, factor = frames_of(given.command, words, given.columns, given.rows, given.seconds)
    given.output.write_text(svg(frames, given.columns, words, factor))
    sys.stderr.write(f"{given.output}: {len(frames)} frames, {given.output.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
