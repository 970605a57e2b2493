"""A folder of another user's, what that user plants in it, and what lies outside of it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import Any

#: A user that no database knows.
STRANGER = 12345
#: What is put in the place of what the verb would make.
PLANTS = ("folder link", "file link", "dangling link", "fifo", "hard link")


class World:
    """A folder of the stranger's, and one beside it that nothing may be written to."""

    def __init__(self, top: Path) -> None:
        self.own, self.outside, self._kept = top / "own", top / "outside", top / "kept"
        self.said, self.log, self.imported = top / "said", top / "log", top / "imported"
        (self.outside / "folder").mkdir(parents=True)
        for file in (self.outside / "file", self.outside / "folder" / "file"):
            file.write_text("precious")
        # Anybody's rights would do: only not following can save these.
        for path in (self.outside, *self.outside.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        self._kept.mkdir()
        top.chmod(0o755)

    def keep(self) -> None:
        """What the stranger's folder holds now is what each run finds."""
        give(self.own)
        shutil.rmtree(self._kept)
        shutil.copytree(self.own, self._kept, symlinks=True)

    def reset(self) -> None:
        """The stranger's folder as it was kept."""
        shutil.rmtree(self.own, ignore_errors=True)
        shutil.copytree(self._kept, self.own, symlinks=True)
        give(self.own)

    def plant(self, kind: str, path: Path) -> None:
        """Put it there, as the stranger would."""
        missing = [one for one in (path, *path.parents) if not os.path.lexists(one)]
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(path, 0o666)
        elif kind == "hard link":
            os.link(self.outside / "file", path)
        else:
            name = {"folder link": "folder", "file link": "file"}.get(kind, "none")
            path.symlink_to(self.outside / name)
        for one in missing if kind != "hard link" else missing[1:]:
            os.chown(one, STRANGER, STRANGER, follow_symlinks=False)

    def seen_outside(self) -> dict[str, Any]:
        """Owner, mode, names, times and content of all that is not the stranger's."""
        return {str(path): _seen(path) for path in (self.outside, *self.outside.rglob("*"))}


def _seen(path: Path) -> tuple[Any, ...]:
    found = path.lstat()
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) else None
    # Not ctime: that changes too when the stranger's own name of it, a hard link, is taken away.
    return (found.st_uid, found.st_gid, found.st_mode, found.st_mtime_ns, content)


def give(folder: Path) -> None:
    """All of it becomes the stranger's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
