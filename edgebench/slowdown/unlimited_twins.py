"""The unlimited times that belong to times below limits; and those that belong to none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd


class UnlimitedTwins:
    """Unlimited times, by what they have in common with limited ones: with the swap if they can.

    ``keys`` are the columns that make two trials comparable, ``swap`` those of them that may differ
    where no unlimited trial has the same.
    """

    def __init__(self, times: pd.DataFrame, keys: Sequence[str], swap: Sequence[str]) -> None:
        self._keys = list(keys)
        self._unlimited = times[times["memory_bytes"].isna()]
        self._limited = times[times["memory_bytes"].notna()]
        self._numbers = [
            pd.Series(numbered(times, columns), times.index)
            for columns in (keys, [key for key in keys if key not in swap])
        ]

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Those of limited rows that are alike in all keys."""
        alike = unlimited = self._unlimited
        for numbers in self._numbers:
            own = numbers.loc[rows.index[0]]
            alike = unlimited[numbers.loc[unlimited.index] == own]
            if len(alike):
                break
        return alike

    def alone(self) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
        """Those that no limited row is alike to, whatever the swap; by the values of all keys."""
        numbers = self._numbers[-1]
        own = numbers.loc[self._unlimited.index]
        rest = self._unlimited[~own.isin(numbers.loc[self._limited.index])]
        for values, rows in rest.groupby(self._keys, dropna=False, sort=False):
            yield cast("tuple[Any, ...]", values), rows


def numbered(frame: pd.DataFrame, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """The same number for rows that are alike in these columns, where missing is a value too."""
    groups = frame.groupby(list(columns), dropna=False, sort=False)
    return np.asarray(groups.ngroup(), dtype=np.int64)
