"""Sizes, shares and durations as people write them, and as they are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from edgebench.errors import UsageError
from edgebench.text import (
    DURATION_HELP,
    MIB,
    SIZE_HELP,
    SWAP_HELP,
    format_duration,
    format_limit,
    format_size,
    parse_duration,
    parse_share,
    parse_size,
    parse_swap,
    swap_words,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        (5, 5),
        ("7", 7),
        ("7B", 7),
        (" 2 K ", 2 << 10),
        ("2M", 2 << 20),
        ("2G", 2 << 30),
        ("2T", 2 << 40),
        ("3KiB", 3 << 10),
        ("3MiB", 3 << 20),
        ("1.5GiB", 3 << 29),
        ("3TiB", 3 << 40),
        ("4kB", 4_000),
        ("4MB", 4_000_000),
        ("4GB", 4_000_000_000),
        ("4TB", 4_000_000_000_000),
        ("1.6", 2),
        ("1", 1),
        (" max ", None),
    ],
)
def test_a_size_is_so_many_bytes(text: str | int, size_bytes: int | None):
    """Units alone and with iB are powers of 1024, with B powers of 1000."""
    assert parse_size(text) == size_bytes


def test_a_share_is_of_something():
    assert parse_share("75%") == 0.75
    assert parse_share("0.5 %") == 0.005
    assert parse_share("75") is parse_share("75M") is parse_share("x%") is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7us", 7e-6),
        ("500ms", 0.5),
        ("90", 90.0),
        (2, 2.0),
        (0.25, 0.25),
        ("90s", 90.0),
        ("10m", 600.0),
        ("10 min", 600.0),
        ("2h", 7200.0),
    ],
)
def test_a_duration_is_so_many_seconds(text: str | float, seconds: float):
    assert parse_duration(text) == pytest.approx(seconds)


_NO_SWAP = ["disk:1G", "lots", "max", "zram:", "zram:max", "", "-1G", "0%", "0s", True, 3]


@pytest.mark.parametrize(
    ("parse", "texts", "what", "remedy"),
    [
        (parse_size, ["0.5B", "0"], "{!r} is less than one byte", SIZE_HELP),
        (
            parse_size,
            ["", "M", "1 2", "1e3", "5X", "5KB", "5mib", "-1", "75%", "Max", "1."],
            "{!r} is not a size",
            SIZE_HELP,
        ),
        (parse_share, ["0%"], "{!r} is not a share above 0%", 'write a share as "75%"'),
        (
            parse_duration,
            ["", "soon", "5d", "0", "0s", "-3s", "3S"],
            "{!r} is not a duration",
            DURATION_HELP,
        ),
        (parse_swap, _NO_SWAP, None, SWAP_HELP),
    ],
)
def test_what_is_no_quantity_is_refused_with_what_is_one(
    parse: Callable[[Any], object], texts: list[Any], what: str | None, remedy: str
):
    for text in texts:
        with pytest.raises(UsageError) as refused:
            parse(text)
        assert what is None or refused.value.what == what.format(text)
        assert refused.value.remedy == remedy


@pytest.mark.parametrize(
    ("text", "kind", "size_bytes"),
    [
        ("3M", "file", 3 << 20),
        (" ZRAM:5G ", "zram", 5 << 30),
        ("file:7K", "file", 7 << 10),
        ("System", "system", None),
        ("0M", "none", None),
        *((word, "none", None) for word in (" off ", "OFF", "None", "no", "0", "0 GiB", "0.0", 0)),
        (False, "none", None),
    ],
)
def test_swap_is_a_kind_and_a_size(text: str | bool, kind: str, size_bytes: int | None):
    assert parse_swap(text) == (kind, size_bytes)


#: By whom, of what → the words.
WORDS: dict[Callable[..., str], list[tuple[Any, str]]] = {
    # In the largest unit of which there is one, GiB at most.
    format_size: [
        *((None, "max"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (-2048, "-2.0 KiB")),
        *((1024**2 - 1024, "1023.0 KiB"), (1024**2, "1.0 MiB"), (157_286_400, "150.0 MiB")),
        *((1024**3, "1.00 GiB"), (5 * 1024**4 // 2, "2560.00 GiB")),
    ],
    format_duration: [
        *((0, "0 s"), (850e-6, "850 µs"), (1e-3, "1.0 ms"), (0.0123, "12.3 ms"), (1, "1.0 s")),
        *((4.24, "4.2 s"), (60, "1 min 00 s"), (200.4, "3 min 20 s"), (3599, "59 min 59 s")),
        *((3600, "1 h 00 min"), (3900, "1 h 05 min"), (90_000, "25 h 00 min")),
    ],
    # With its bytes; where they are not known yet, the label.
    format_limit: [
        *((("max", None), "unlimited"), (("75%", None), "75%")),
        *((("150M", 150 << 20), "150.0 MiB"), (("75%", 150 << 20), "75% (150.0 MiB)")),
    ],
    # With how much of it may be used, where that is limited.
    swap_words: [
        *((("none", None), "no swap"), (("none", 5), "no swap")),
        *(
            (("file", 2 << 30), "2.00 GiB of swap (file)"),
            (("zram", MIB), "1.0 MiB of swap (zram)"),
        ),
        *((("system", None), "the machine's own swap"),),
        (("system", MIB), "1.0 MiB of the machine's own swap"),
    ],
}


@pytest.mark.parametrize("render", WORDS, ids=lambda render: render.__name__)
def test_a_quantity_is_told_with_the_digits_that_matter(render: Callable[..., str]):
    for value, words in WORDS[render]:
        assert render(*(value if isinstance(value, tuple) else (value,))) == words
