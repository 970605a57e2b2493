"""What DAMON pages out while a trial runs: read from its statistics, with a doubt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from edgebench.measures.machine.damon import KDAMONDS, schemes
from edgebench.measures.machine.system_files import SystemFiles
from edgebench.records import Doubt, LimitSetting, TrialRecord
from edgebench.run.checks import CheckTarget
from edgebench.run.checks.reclaim import damon_check
from edgebench.run.damon_watch import KEY, DamonWatch

pytestmark = pytest.mark.pure
MIB = 1 << 20
_SCHEME = f"{KDAMONDS}/0/contexts/0/schemes/0"
_FILES = {
    "proc/77/comm": "kdamond.0\n",
    f"{KDAMONDS}/0/state": "on\n",
    f"{KDAMONDS}/0/contexts/0/monitoring_attrs/intervals/aggr_us": "5000000\n",
    f"{_SCHEME}/action": "pageout\n",
    f"{_SCHEME}/access_pattern/age/min": "12\n",
    f"{_SCHEME}/ops_filters/0/type": "anon\n",
    f"{_SCHEME}/ops_filters/0/matching": "Y\n",
    f"{_SCHEME}/ops_filters/0/allow": "N\n",
    f"{_SCHEME}/stats/sz_applied": f"{7 * MIB}\n",
}


@pytest.fixture
def machine(tmp_path: Path) -> Callable[[dict[str, str]], SystemFiles]:
    """Makes a machine of these files."""

    def make(files: dict[str, str]) -> SystemFiles:
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return SystemFiles(tmp_path)

    return make


def record() -> TrialRecord:
    """A trial's record."""
    return TrialRecord("0", "p0", 0, 0, {}, LimitSetting(), "ok", "2026-01-02T03:04:05.678+00:00")


def watched(machine: SystemFiles, after: dict[str, str | None]) -> TrialRecord:
    """The record of a trial in which these files change; None: the file goes."""
    watch = DamonWatch(machine, least_s=0)
    with watch:
        if watch._thread.is_alive() or watch._before is not None:
            watch._thread.join()
        for name, text in after.items():
            if text is None:
                (machine.root / name).unlink()
            else:
                (machine.root / name).write_text(text)
        # The kernel's file says "on" again, whatever was written to it.
        (machine.root / KDAMONDS / "0/state").write_text("on\n")
    return watch.told(record())


def test_what_was_paged_out_is_recorded_with_the_time_it_was_idle(machine) -> None:
    """The difference of both readings, a doubt, and what doctor says of the scheme."""
    found = machine(_FILES)
    assert [(one.idle_s, one.filters) for one in schemes(found)] == [(60.0, ("no anon",))]
    says = damon_check.result(CheckTarget(found)).says
    assert says == "kdamond.0 runs, with pageout of what was idle for 60 s (no anon)"
    made = watched(found, {f"{_SCHEME}/stats/sz_applied": f"{50 * MIB}\n"})
    assert made.damon_paged_out_bytes == 43 * MIB
    numbers = {"paged_out_bytes": 43.0 * MIB, "idle_s": 60.0}
    assert made.doubts == [Doubt("damon_paged_out", numbers)]


def test_nothing_paged_out_is_no_doubt(machine) -> None:
    """It is recorded as 0."""
    made = watched(machine(_FILES), {})
    assert (made.damon_paged_out_bytes, made.doubts) == (0, [])


def test_a_long_trial_without_statistics_is_marked(machine) -> None:
    """None with the reason; a doubt only past the time after which it pages out."""
    unread = {name: text for name, text in _FILES.items() if "stats" not in name}
    made = watched(machine(unread), {})
    assert made.damon_paged_out_bytes is None
    assert "sz_applied" in made.missing[KEY]
    assert made.doubts == []
    soon = machine({**unread, f"{_SCHEME}/access_pattern/age/min": "0\n"})
    assert watched(soon, {}).doubts == [Doubt("damon_unread", {"idle_s": 0.0})]


@pytest.mark.parametrize(
    "other", [{f"{KDAMONDS}/0/state": "off\n"}, {f"{_SCHEME}/action": "stat\n"}]
)
def test_what_pages_nothing_out_is_not_read(machine, other: dict[str, str]) -> None:
    """A monitor that is off, or only counts."""
    found = machine({**_FILES, **other})
    watch = DamonWatch(found, least_s=0)
    with watch:
        pass
    made = watch.told(record())
    assert (made.damon_paged_out_bytes, made.doubts) == (None, [])
    assert KEY not in made.missing


def test_a_short_trial_is_not_kept_waiting(machine) -> None:
    """A reading takes half a second: of a trial of less than 5 s the reason stands instead."""
    watch = DamonWatch(machine(_FILES))
    with watch:
        pass
    assert "less than 5 s" in watch.told(record()).missing[KEY]
