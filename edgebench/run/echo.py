"""A workload's output shown while it runs."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import TextIO

from edgebench.text import printable


def echo_to(stream: TextIO) -> Callable[[bytes], None]:
    """Return what writes a workload's output to the stream as it comes.

    A pipe or a file gets the same bytes. A terminal would obey the control codes in them: it gets
    those as ``\\x1b``, but for newlines, tabs, and the carriage returns of progress bars.
    """
    if not stream.isatty():
        return lambda data: _write(stream, data)
    # A character may come in two pieces.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def show(data: bytes) -> None:
        stream.write("\r".join(map(printable, decoder.decode(data).split("\r"))))
        stream.flush()

    return show


def _write(stream: TextIO, data: bytes) -> None:
    stream.flush()
    if (binary := getattr(stream, "buffer", None)) is None:
        # A notebook's has none: text it is.
        stream.write(data.decode(errors="replace"))
        stream.flush()
        return
    binary.write(data)
    binary.flush()
