"""A workload's output on a terminal: shown, but never obeyed."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterable

import pytest
from terminal import Terminal

from edgebench.run.trial.process import echo_to

#: A title, colours, a control character of one byte in a character of two, and what is harmless.
HOSTILE = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b31m\r\x9b\tbar\n\xe2\x80\xaeend\n"


class _Stream(io.TextIOWrapper):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def echoed(pieces: Iterable[bytes], *, terminal: bool) -> bytes:
    stream = _Stream(terminal)
    echo = echo_to(stream)
    for piece in pieces:
        echo(piece)
    binary = stream.detach()
    assert isinstance(binary, io.BytesIO)
    return binary.getvalue()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_terminal_gets_no_control_codes(size: int) -> None:
    """However the output is cut into pieces; newlines, tabs and carriage returns stay."""
    pieces = [HOSTILE[n : n + size] for n in range(0, len(HOSTILE), size)]
    shown = echoed(pieces, terminal=True).decode()
    expected = "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\r\ufffd\tbar\n\\u202eend\n"
    assert shown == expected


def test_a_pipe_gets_the_same_bytes() -> None:
    assert echoed([HOSTILE[:5], HOSTILE[5:]], terminal=False) == HOSTILE


@pytest.mark.own_cgroup
@pytest.mark.promise("No text of a workload or of a file can send control codes to the terminal.")
def test_a_measured_command_can_not_command_the_terminal() -> None:
    words = ["measure", "--", "printf", r"\033]0;owned\007 50%%\r100%%\n"]
    terminal = Terminal(words, 80)
    assert terminal.close() == 0
    assert "\\x1b]0;owned\\x07 50%\r100%" in terminal.text
    assert "\x1b]" not in terminal.text
    command = [sys.executable, "-m", "edgebench", *words]
    piped = subprocess.run(command, capture_output=True, check=True)
    assert b"\x1b]0;owned\x07 50%\r100%\n" in piped.stderr
