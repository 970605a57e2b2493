"""What the table of ``observer_effect.py`` is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import report
from observer.effect_table import Kept, jeffreys, rate_ratio, table
from observer.watched_process import Arm


def row(block: int, arm: str, outcome: str, seconds: float = 1.0) -> dict[str, Any]:
    """A process of 64 MiB."""
    figures = {"major_faults": 10, "refault_anon": 5, "wall_s": 9.0, "round_s": [seconds]}
    return {"block": block, "limit_bytes": 64 << 20, "arm": arm, "outcome": outcome, **figures}


def test_arms_are_named_by_what_they_read() -> None:
    """An interval in the name is how often memory.stat is read."""
    assert [Arm.of(name).stat_s for name in ("nothing", "default", "stat-10ms")] == [
        *(None, None, 0.01)
    ]


def test_rates_have_intervals() -> None:
    """Jeffreys's, as tabled (7 of 10: 0.39 to 0.91); equal rates' ratio holds 1."""
    assert jeffreys(7, 10) == pytest.approx((0.39, 0.91), abs=0.01)
    low, high = map(float, rate_ratio((7, 10), (7, 10)).split(" to "))
    assert low < 1 < high


def test_seconds_are_compared_in_pairs_of_one_block() -> None:
    """A block in which one of the two was killed is no pair; what timed out is no answer."""
    rows = [row(0, "nothing", "ok"), row(0, "default", "ok", 2.0), row(1, "nothing", "ok")]
    rows += [row(1, "default", "ok", 2.0), row(2, "nothing", "killed"), row(2, "default", "ok")]
    rows += [row(3, "nothing", "timeout")]
    nothing, default = table(rows, ["nothing", "default"])[1]
    assert nothing[2:4] == ["1 of 3", "0.33"]
    assert nothing[6] == 1
    assert default[7] == "2.000 (2.000 to 2.000; 2)"


def test_it_goes_on_where_it_was_and_refuses_other_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row is on the disk at once; rows of other options are not mixed in."""
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    path, about = tmp_path / "made.json", {"workload": "made", "seed": 1}
    Kept(path, about).add(row(0, "nothing", "ok"), ["nothing"])
    assert [one["outcome"] for one in Kept(path, about).rows] == ["ok"]
    with pytest.raises(SystemExit):
        Kept(path, {**about, "seed": 2})
