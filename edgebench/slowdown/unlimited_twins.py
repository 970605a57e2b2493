"""The unlimited times that belong to times below limits; and those that belong to none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd


class UnlimitedTwins:
    """Unlimited times of the same workload as limited ones: with the same swap if there are some.

    Args:
        times: one row per trial, network and phase.
        keys: the columns that make two rows comparable; one is ``workload``.
        any_swap: a workload's id → that of all that differ from it in their swap alone.
    """

    def __init__(
        self, times: pd.DataFrame, keys: Sequence[str], any_swap: Mapping[str, str]
    ) -> None:
        self._keys = list(keys)
        self._unlimited = times[times["memory_bytes"].isna()]
        self._limited = times[times["memory_bytes"].notna()]
        alike = times.assign(workload=times["workload"].map(any_swap))
        self._numbers = [pd.Series(numbered(rows, keys), rows.index) for rows in (times, alike)]

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Those of limited rows that are alike in all keys."""
        alike = unlimited = self._unlimited
        for numbers in self._numbers:
            own = numbers.loc[rows.index[0]]
            alike = unlimited[numbers.loc[unlimited.index] == own]
            if len(alike):
                break
        return alike

    def alone(self) -> Iterator[pd.DataFrame]:
        """Those that no limited row is alike to, whatever the swap; alike ones together."""
        numbers = self._numbers[-1]
        own = numbers.loc[self._unlimited.index]
        rest = self._unlimited[~own.isin(numbers.loc[self._limited.index])]
        for _, rows in rest.groupby(self._keys, dropna=False, sort=False):
            yield rows


def numbered(frame: pd.DataFrame, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """The same number for rows that are alike in these columns, where missing is a value too."""
    groups = frame.groupby(list(columns), dropna=False, sort=False)
    return np.asarray(groups.ngroup(), dtype=np.int64)
