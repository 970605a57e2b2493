"""Storage speeds as people write them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.boards import (
    StorageSpeed,
    format_speed,
    parse_speed,
    parse_storage,
    storage_of,
    storage_words,
)
from edgebench.errors import UsageError
from edgebench.text import AS_IS

_BPS = st.none() | st.integers(10**6, 10**12)
_IOPS = st.none() | st.integers(10, 10**7)


@given(st.builds(StorageSpeed, _BPS, _BPS, _IOPS, _IOPS, st.booleans()))
def test_a_label_means_what_it_was_made_of(speed: StorageSpeed) -> None:
    assert parse_storage(speed.label) == speed


@pytest.mark.parametrize(
    ("text", "bps"),
    [
        ("90MB/s", 90_000_000),
        ("90 MiB/s", 90 << 20),
        ("1.5GB/s", 1_500_000_000),
        ("2000kB/s", 2_000_000),
        ("1048576B/s", 1 << 20),
    ],
)
def test_units_are_powers_of_1000_and_of_1024(text: str, bps: int) -> None:
    assert parse_speed(text) == bps
    assert parse_speed(format_speed(bps)) == bps


def test_all_spellings_have_one_label() -> None:
    """Else two sweeps of the same storage would not be compared."""
    table = storage_of({"read": "90000kB/s", "read_iops": 2000})
    assert table.label == parse_storage(" read_iops=2000 , read=0.09GB/s").label
    assert table.label == "read=90MB/s,read_iops=2000"
    assert parse_storage("as-is").label == StorageSpeed().label == AS_IS


def test_a_disk_in_memory_is_part_of_the_storage() -> None:
    table = storage_of({"disk": "ram", "read": "90MB/s"})
    assert table.label == parse_storage("disk=ram,read=90MB/s").label == "read=90MB/s,disk=ram"
    assert parse_storage("sd-a1,disk=ram") == replace(parse_storage("sd-a1"), ram=True)
    assert table.held == parse_storage("read=90MB/s")
    assert storage_words(table.label) == "storage in memory held to read=90MB/s"
    alone = parse_storage("disk=ram")
    assert (alone.label, alone.as_is, alone.held.as_is) == ("disk=ram", False, True)
    assert storage_words("disk=ram") == "storage in memory"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("read=90", "'90' is not a speed"),
        ("disk=tape", "'tape' is not a disk to choose"),
        ("sd-a1,read=9MB/s", "changes the speed of a storage that has a name"),
        ("sd-a1,fast", "'fast' is not a storage speed"),
        ("read=0MB/s", "is not between 1MB/s and 1000GB/s"),
        ("read=-5MB/s", "is not a speed"),
        ("read_iops=0", "is not between 10 and"),
        ("read_iops=²", "not a whole number"),
        ("reed=90MB/s", "no storage speed 'reed'"),
        ("read=90MB/s,read=80MB/s", "given twice"),
        ("", "is not a storage speed"),
        ("sd-card", "no storage 'sd-card'"),
    ],
)
def test_what_is_no_speed_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        parse_storage(text)
    assert refused.value.remedy


def test_a_table_without_speeds_is_refused() -> None:
    """It would be as-is by accident; so would be a truth for a number."""
    with pytest.raises(UsageError, match="no speed is given"):
        storage_of({})
    with pytest.raises(UsageError, match="not a whole number"):
        storage_of({"read_iops": True})
