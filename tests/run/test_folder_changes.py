"""Which changes of a program's folder are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.run.search.folder_changes import FolderChanges
from edgebench.run.trial.session import scratch_folder


def test_what_is_made_changed_or_removed_is_named(tmp_path: Path) -> None:
    for name in ("changed", "removed", "same"):
        (tmp_path / name).write_text("x")
    changes = FolderChanges(tmp_path, tmp_path / "results" / "vm")
    (tmp_path / "results" / "vm").mkdir(parents=True)
    (tmp_path / "made").mkdir()
    (tmp_path / "changed").write_text("xx")
    (tmp_path / "removed").unlink()
    assert changes.names() == ["changed", "made", "removed"]


def test_temporary_folders_of_edgebench_are_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program may run in /tmp itself, or where the swap lies."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    changes = FolderChanges(tmp_path, tmp_path / "results")
    (tmp_path / "edgebench-swap-0123456789ab").mkdir()
    with scratch_folder():
        assert len(list(tmp_path.iterdir())) > 1
        assert changes.names() == []
        (tmp_path / "edgebench-mine").mkdir()
        assert changes.names() == ["edgebench-mine"]


def test_a_link_to_itself_is_looked_at_as_any_other(tmp_path: Path):
    (tmp_path / "loop").symlink_to("loop")
    changes = FolderChanges(tmp_path, tmp_path / "results")
    (tmp_path / "more").touch()
    assert changes.names() == ["more"]
