"""Where the counts of rounds come from, by the swap that a trial has, and why one is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.cgroups.swap import SwapState
from edgebench.measures.machine.system_files import SystemFiles
from edgebench.records import RoundCounts
from edgebench.run.trial.launch import KINDS, GoneError, check_start, launch
from edgebench.run.trial.record import RoundSources, round_sources
from edgebench.workloads.events import ONLY_SWAP, VMSTAT
from edgebench.workloads.recorder import NO_DESCRIPTORS

HEAD = "Filename\tType\tSize\tUsed\tPriority\n"
OWN, OTHER = Path("/var/tmp/own/edgebench-swap"), Path("/swap.img")


def machine(root: Path, *areas: Path) -> SystemFiles:
    (root / "proc").mkdir(parents=True)
    lines = "".join(f"{area} file 1024 0 -2\n" for area in areas)
    (root / "proc/swaps").write_text(HEAD + lines)
    return SystemFiles(root)


def event(**counts: int | None) -> dict[str, object]:
    kept = {"in_bytes": None, "swap_in_bytes": None, "out_bytes": None, "major_faults": 3}
    return {"event": "counts", "t_ns": 1, "round": 0, **kept, **counts}


def test_zram_tells_what_is_swapped(tmp_path: Path) -> None:
    """Nothing but swap lies in it, whatever other areas there are."""
    swap = SwapState("zram", Path("/dev/zram3"), 1 << 20)
    found = round_sources(machine(tmp_path, OTHER), swap, "zram")
    assert (found.kind, found.file) == (ONLY_SWAP, tmp_path / "sys/block/zram3/stat")
    assert found.missing == {}
    assert found.counts([event(in_bytes=9000, swap_in_bytes=8000, out_bytes=5)]) == [
        RoundCounts(0, 9000, 8000, 1000, 5, 3)
    ]
    # All that was read may be swap.
    assert found.counts([event(in_bytes=8000, swap_in_bytes=8000, out_bytes=5)]) == [
        RoundCounts(0, 8000, 8000, 0, 5, 3)
    ]


@pytest.mark.parametrize(("kind", "device"), [("file", OWN), ("system", None)])
def test_a_single_swap_area_leaves_the_machines_counters(
    tmp_path: Path, kind: str, device: Path | None
) -> None:
    """They are of the whole machine, which the record says."""
    areas = [OWN] if device else [OWN, OTHER]
    found = round_sources(machine(tmp_path, *areas), SwapState(kind, device, 1), kind)
    assert (found.kind, found.file) == (VMSTAT, tmp_path / "proc/vmstat")
    assert "of the whole machine" in found.sources["swap_in_bytes"]


def test_a_round_in_which_others_swapped_says_why_it_has_no_swap(tmp_path: Path) -> None:
    """The machine swapped in 9001 bytes, the process read 9000 in all: one count is missing."""
    found = round_sources(machine(tmp_path, OWN), SwapState("file", OWN, 1), "file")
    counts = found.counts([event(in_bytes=9000, swap_in_bytes=size) for size in (9001, 8000)])
    assert [one.swap_in_bytes for one in counts] == [None, 8000]
    missing = found.recorded(counts, 0).missing
    assert set(missing) == {"round_swap_in_bytes", "round_file_in_bytes"}
    assert "others did, too" in missing["round_swap_in_bytes"]
    assert found.recorded(counts[1:], 0).missing == {}


def test_with_other_areas_the_sum_alone_is_known(tmp_path: Path) -> None:
    found = round_sources(machine(tmp_path, OWN, OTHER), SwapState("file", OWN, 1), "file")
    counts = found.counts([event(in_bytes=9000)])
    assert counts == [RoundCounts(0, 9000, None, None, None, 3)]
    missing = found.recorded(counts, 0).missing
    assert set(missing) == {"round_swap_in_bytes", "round_file_in_bytes", "round_out_bytes"}
    assert "other swap areas" in missing["round_swap_in_bytes"]
    assert found.recorded([], 0).missing == {}


def test_without_swap_nothing_is_read_from_it(tmp_path: Path) -> None:
    found = round_sources(machine(tmp_path, OTHER), SwapState("none"), "none")
    assert found.file is None
    assert found.counts([event(in_bytes=9000)]) == [RoundCounts(0, 9000, 0, 9000, 0, 3)]


def test_swap_of_others_during_a_trial_leaves_the_sum(tmp_path: Path) -> None:
    """An area that was put on meanwhile: the machine's counters count its pages too."""
    found = round_sources(machine(tmp_path, OWN), SwapState("file", OWN, 1), "file")
    counts = found.counts([event(in_bytes=9000, swap_in_bytes=8000, out_bytes=5)])
    alone = found.recorded(counts, 0)
    assert (alone.known(counts), alone.sources, alone.missing) == (counts, found.sources, {})
    shared = found.recorded(counts, 4096)
    assert shared.known(counts) == [RoundCounts(0, 9000, major_faults=3)]
    assert set(shared.sources) == {"in_bytes", "major_faults"}
    assert "other swap areas" in shared.missing["round_out_bytes"]


def test_a_worker_may_write_anything(tmp_path: Path) -> None:
    broken = [{"event": "counts"}, {"event": "counts", "round": "x"}, {"event": "note"}]
    assert RoundSources().counts(broken) == []
    assert RoundSources().counts([event(in_bytes=-4)]) == [RoundCounts(0, None, major_faults=3)]
    missing = RoundSources().recorded([RoundCounts(0)], 0).missing
    assert "/proc/PID/io" in missing["round_in_bytes"]


@pytest.mark.promise("A scenario's variables are on no command line, which all users can read.")
@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"function"}))
def test_variables_are_on_no_command_line(kind: str) -> None:
    settings = {"kind": kind, "command": ["true"], "networks": ["lenet"], "env": {"TOKEN": "s3cr"}}
    start = launch(settings, NO_DESCRIPTORS)
    assert start.env == {"TOKEN": "s3cr"}
    assert not any("s3cr" in word or "TOKEN" in word for word in start.argv)


def test_what_is_gone_fails_the_trial_in_words(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    for more in ({"files": [gone]}, {"cwd": gone}):
        with pytest.raises(GoneError, match="gone is gone"):
            check_start(launch({"kind": "command", "command": ["true"], **more}, NO_DESCRIPTORS))
