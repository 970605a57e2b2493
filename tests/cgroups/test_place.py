"""Where a cgroup may be made, and one precise cause with a remedy where none may."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.cgroups import place as place_module
from edgebench.cgroups.hierarchy import Hierarchy
from edgebench.cgroups.identity import Identity
from edgebench.cgroups.interface import Cgroup
from edgebench.cgroups.place import Place, find_place, survey
from edgebench.errors import CgroupError
from tests.cgroups.conftest import Run

REPOSITORY = Path(__file__).resolve().parents[2]


def machine(monkeypatch: pytest.MonkeyPatch, *found: Hierarchy) -> None:
    """A machine with these hierarchies."""
    monkeypatch.setattr(place_module, "hierarchies", lambda: list(found))


def v1(folder: Path | None, *controllers: str, read_only: bool = False) -> Hierarchy:
    """A version 1 hierarchy."""
    mount = folder or Path("/sys/fs/cgroup/x")
    return Hierarchy(1, frozenset(controllers), mount, folder, read_only)


def refused() -> CgroupError:
    """Why there is no place."""
    with pytest.raises(CgroupError) as caught:
        find_place()
    return caught.value


def test_nothing_is_mounted(monkeypatch: pytest.MonkeyPatch):
    """The remedy mounts it."""
    machine(monkeypatch)
    assert "mount -t cgroup2" in str(refused().remedy)


def test_memory_control_is_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As Raspberry Pi OS boots: the remedy is the kernel's command line."""
    (tmp_path / "cgroup.controllers").write_text("cpu io pids\n")
    unified = Hierarchy(2, frozenset({"cpu", "io", "pids"}), tmp_path, tmp_path, False)
    machine(monkeypatch, v1(tmp_path, "cpu"), unified)
    assert "cgroup_enable=memory" in str(refused().remedy)


def test_our_own_cgroup_is_not_visible(monkeypatch: pytest.MonkeyPatch):
    """As in a container that shows another part of the hierarchy."""
    machine(monkeypatch, v1(None, "memory"))
    assert "not visible" in refused().what


def test_the_mount_is_read_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """As in a plain container."""
    machine(monkeypatch, v1(tmp_path, "memory", read_only=True))
    assert "--privileged" in str(refused().remedy)


def test_only_what_can_be_written_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Memory is enough; a hierarchy that is read-only or not visible is left out."""
    machine(
        monkeypatch,
        v1(tmp_path, "memory"),
        v1(tmp_path, "cpu", read_only=True),
        v1(None, "cpuset"),
    )
    assert find_place().bases == {"memory": tmp_path}


def test_the_survey_words_the_refusal(monkeypatch: pytest.MonkeyPatch):
    """For doctor it is a finding, not an exception."""
    machine(monkeypatch)
    (finding,) = survey()
    assert finding.ok is False
    assert "mounted" in finding.says
    assert finding.remedy


@pytest.mark.cgroup
def test_the_survey_of_a_real_place(place: Place):
    """Nothing fails where a cgroup can be made, and nothing is left behind."""
    found = {finding.name: finding for finding in survey()}
    assert found["cgroup"].ok
    assert all(finding.ok is not False for finding in found.values())
    assert not list(place.path.glob(f"edgebench-{os.getpid()}-look"))


@pytest.mark.cgroup
def test_the_ceiling_is_the_tightest_limit_above(cgroup: Cgroup, python: Run):
    """Seen from inside a limited cgroup, that limit is the ceiling."""
    from edgebench.cgroups.interface import Limits

    cgroup.apply(Limits(256 << 20))
    kind = Place(cgroup.version, {"memory": cgroup.path})
    assert kind.ceiling_bytes == 256 << 20


@pytest.fixture
def nobody(cgroup: Cgroup) -> Iterator[Identity]:
    """A user to whom the memory cgroup was given, as an administrator does it by chown."""
    for path in (cgroup.path, *cgroup.path.iterdir()):
        if path.name in (cgroup.path.name, "cgroup.procs", "tasks", "cgroup.subtree_control"):
            os.chown(path, 65534, 65534)
    yield Identity(65534, 65534, (65534,), Path("/"))
    assert not [inner for inner in cgroup.path.iterdir() if inner.is_dir()]


@pytest.fixture
def public_python() -> str:
    """A Python that any user can run."""
    for path in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if path and all(parent.stat().st_mode & 0o001 for parent in Path(path).resolve().parents):
            return path
    pytest.skip("no Python here that another user can run")


_SWEEP_IN_SMALL = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.place import find_place
from edgebench.cgroups.proof import prove_limit
with Ownership(Path(sys.argv[2])) as ownership:
    place = find_place(ownership)
    proof = prove_limit(place)
    made = place.create("inner")
    print(json.dumps([str(place.path), sorted(place.bases), proof.outcome, made.missing().reasons]))
    made.remove()
"""


@pytest.mark.cgroup
@pytest.mark.root
def test_a_user_with_a_cgroup_of_their_own(
    cgroup: Cgroup, run: Run, nobody: Identity, public_python: str, tmp_path: Path
):
    """Without root, in a cgroup that was given away: found, limited, proved, removed."""
    state = tmp_path / "nobody"
    state.mkdir()
    os.chown(state, nobody.uid, nobody.gid)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    words = (json.dumps([str(REPOSITORY), *sys.path]), str(state))
    done = run(public_python, "-c", _SWEEP_IN_SMALL, *words, identity=nobody)
    assert done.returncode == 0, done.stderr
    path, bases, outcome, missing = json.loads(done.stdout)
    assert path == str(cgroup.path)
    assert "memory" in bases
    assert outcome == "oom-killed"
    if cgroup.version == 1:
        assert missing["cpu_ns"] == "the cpuacct controller can't be had here"


@pytest.mark.cgroup
@pytest.mark.root
def test_a_user_in_root_s_cgroup(run: Run, public_python: str, tmp_path: Path):
    """Without root in root's cgroup the answer is a clear refusal with the way out."""
    nobody = Identity(65534, 65534, (65534,), Path("/"))
    words = (json.dumps([str(REPOSITORY), *sys.path]), str(tmp_path))
    code = _SWEEP_IN_SMALL.replace("Ownership(Path(sys.argv[2]))", "__import__('io').StringIO()")
    done = run(public_python, "-c", code.replace("(ownership)", "()"), *words, identity=nobody)
    assert "it is not ours" in done.stderr
    assert "remedy: " in done.stderr
