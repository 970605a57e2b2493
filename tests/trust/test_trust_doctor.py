"""Machines that are odd: ``doctor`` says which oddity it is, and what to type.

Where root can have swap, the doctor tries it for a moment: one at a time.

Real where this machine can be made so: mount namespaces of our own, cgroups in cgroups. What it
can't be made into is told from made files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgebench.cgroups.interface import Cgroup, Limits
from edgebench.cgroups.join import join_command
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import find_parent, hierarchies, support_findings
from tests.own_path import python_path

MIB = 1 << 20
#: What a place without any oddity says of itself.
SOUND: dict[str, Any] = {
    "version": 2,
    "path": "/sys/fs/cgroup",
    "hybrid": False,
    "throttle_bytes": None,
    "throttle_file": None,
    "cpu_quota": None,
    "cores": 4,
    "controllers": ["cpu", "cpuset", "io", "memory", "pids"],
    "ceiling_bytes": None,
    "peak": True,
    "peak_resets": True,
    "swap_accounting": True,
    "pressure": True,
}


def doctor(*before: str) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [*before, sys.executable, "-m", "edgebench", "doctor", "--json"],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 5), done.stderr
    told = json.loads(done.stdout)
    assert told["fit"] == (done.returncode == 0)
    assert all(row["remedy"] for row in told["checks"] if row["status"] in ("warn", "fail"))
    return {row["check"]: row for row in told["checks"]}


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Cgroup]:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    with Ownership(folder) as ownership:
        made = find_parent(ownership).create(f"{os.getpid()}-odd")
        yield made
        made.remove()


def unmounted(controller: str) -> str:
    folder = next((one for one in hierarchies() if controller in one.controllers), None)
    if folder is None or folder.version == 2:
        pytest.skip("version 2 has one mount for all controllers")
    return f"umount {folder.mount}"


def read_only() -> str:
    folder = next(one for one in hierarchies() if "memory" in one.controllers)
    return f"mount -o remount,bind,ro {folder.mount}"


def all_unmounted() -> str:
    return f"umount {' '.join(str(folder.mount) for folder in hierarchies())}"


@pytest.mark.promise("`edgebench doctor` reports and says what to type: cgroups read-only.")
@pytest.mark.promise("`edgebench doctor` reports and says what to type: no memory controller.")
@pytest.mark.promise("`edgebench doctor` reports and says what to type: no cgroups.")
@pytest.mark.promise("`edgebench doctor` reports and says what to type: a controller missing.")
@pytest.mark.own_cgroup
@pytest.mark.exclusive
@pytest.mark.root
@pytest.mark.parametrize(
    ("script", "row", "says", "remedy"),
    [
        (read_only, "cgroup", "read-only", "docker run --privileged"),
        (partial(unmounted, "memory"), "cgroup", "controller is off", "cgroup_enable=memory"),
        (all_unmounted, "cgroup", "", "mount -t cgroup2"),
        (partial(unmounted, "pids"), "controllers", "not pids", ""),
    ],
)
def test_odd_mounts(script: Callable[[], str], row: str, says: str, remedy: str) -> None:
    in_place = ["unshare", "--mount", "--propagation", "private", "sh", "-ec"]
    check = doctor(*in_place, f'{script()}; exec "$@"', "sh")[row]
    assert check["status"] == ("fail" if row == "cgroup" else "warn")
    assert says in check["says"]
    assert remedy in (check["remedy"] or "")


@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: a limit or a CPU quota on a parent cgroup."
)
@pytest.mark.own_cgroup
@pytest.mark.exclusive
def test_limits_above_us(cgroup: Cgroup) -> None:
    cgroup.set_limits(Limits(memory_bytes=512 * MIB, cpu_quota=0.5))
    rows = doctor(*join_command(cgroup, [], None, None))
    assert rows["limit above"]["status"] == "warn"
    assert rows["limit above"]["says"].startswith("512.0 MiB")
    assert rows["CPUs"]["status"] == "warn"
    assert "no more than 0.5" in rows["CPUs"]["says"]


@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: no pressure, no peak, no swap accounting."
)
@pytest.mark.promise("`edgebench doctor` reports and says what to type: a cpuset of one core.")
@pytest.mark.promise(
    "`edgebench doctor` reports and says what to type: `memory.high` set on a parent cgroup."
)
@pytest.mark.parametrize(
    ("odd", "name", "says", "remedy"),
    [
        ({"pressure": False}, "pressure", "not measured", "psi=1"),
        ({"throttle_bytes": MIB, "throttle_file": "/f"}, "throttle above", "1.0 MiB", "> /f"),
        ({"controllers": ["memory"]}, "controllers", "not cpu", "sudo"),
        ({"swap_accounting": False}, "swap accounting", "off", "swapaccount=1"),
        ({"peak": False, "peak_resets": False}, "kernel's peak", "not kept", "5.19"),
        ({"peak_resets": False}, "kernel's peak", "can't be reset", "6.12"),
        ({"cores": 1}, "CPUs", "1 core", "cpuset"),
        ({"cpu_quota": 1.9}, "CPUs", "no more than 1.9", "cpuset"),
        ({"version": 1}, "controllers", "not blkio, cpuacct", "sudo"),
        ({"ceiling_bytes": 512 * MIB}, "limit above", "512.0 MiB", "below it"),
    ],
)
def test_each_oddity_of_a_place_is_said(
    odd: dict[str, Any], name: str, says: str, remedy: str
) -> None:
    found = {finding.name: finding for finding in support_findings({**SOUND, **odd})}
    assert found[name].ok is None
    assert says in found[name].says
    assert remedy in (found[name].remedy or "")
    assert [f.name for f in found.values() if not f.ok] == [name]


@pytest.mark.parametrize("place", [{}, {"hybrid": True}, {"cores": 2}, {"cpu_quota": 2.0}])
def test_nothing_is_said_of_a_sound_place(place: dict[str, Any]) -> None:
    assert [finding.ok for finding in support_findings({**SOUND, **place})] == [True] * 8


@pytest.mark.promise("`edgebench doctor` reports and says what to type: both versions mounted.")
def test_a_hybrid_machine_is_recognised() -> None:
    """Memory on version 1 with version 2 beside it: no fault, but told."""
    (first, *_) = support_findings({**SOUND, "version": 1, "hybrid": True})
    assert first.ok
    assert "hybrid" in first.says
