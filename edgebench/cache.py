"""The user's cache folder, and answers kept in it that take long to work out again."""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from edgebench.errors import EdgebenchError
from edgebench.identity import Identity, caller_identity
from edgebench.safe_files import make_folder, read_file, remove_file, write_whole

#: Part of what each name is a hash of: to be raised when the form of the files changes.
_FORM = "1"
_DIGEST_BYTES = hashlib.sha256().digest_size
_PACKAGE = Path(__file__).parent


def cache_folder(identity: Identity | None) -> Path:
    """Where weights are kept between sweeps: ``EDGEBENCH_CACHE``, else the caller's cache."""
    if named := os.environ.get("EDGEBENCH_CACHE"):
        return Path(named).resolve()
    home = Path(identity.home) if identity else Path.home()
    return home / ".cache" / "edgebench"


class KeptAnswers:
    """Answers of one kind on disk, each under all that it follows from.

    A file's name is a hash of the question, of the code that answers it and of the libraries that
    this code uses. An answer that is damaged, or can't be read or written, is as one that was never
    kept. Under sudo the files belong to the caller.

    Args:
        kind: the folder's name in the cache.
        code: the packages and modules of edgebench that answer, as ``layers``.
        libraries: the distributions whose versions change an answer.
        most_bytes: what all files may take together; the oldest go first.
    """

    def __init__(
        self,
        kind: str,
        code: Sequence[str],
        libraries: Sequence[str] = (),
        most_bytes: int = 64 << 20,
    ) -> None:
        self._kind, self._code, self._libraries = kind, code, libraries
        self._most_bytes = most_bytes

    def find(self, question: bytes) -> bytes | None:
        """Return the answer; None if none is kept, or it is damaged."""
        try:
            data = read_file(self._file(question), self._most_bytes)
            digest, packed = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
            if hashlib.sha256(packed).digest() != digest:
                return None
            return zlib.decompress(packed)
        except (OSError, EdgebenchError, RuntimeError, zlib.error):
            return None

    def keep(self, question: bytes, answer: bytes) -> None:
        """Keep an answer, if that can be done."""
        packed = zlib.compress(answer, 1)
        try:
            file = self._file(question)
            make_folder(file.parent, parents=True)
            write_whole(file, hashlib.sha256(packed).digest() + packed, 0o644)
            self._remove_oldest(file.parent)
        except (OSError, EdgebenchError, RuntimeError):
            # The next call works it out again.
            return

    def _file(self, question: bytes) -> Path:
        name = hashlib.sha256(self._made_by + question).hexdigest()
        # Without a home there is a RuntimeError.
        return cache_folder(caller_identity()) / "answers" / self._kind / name

    @cached_property
    def _made_by(self) -> bytes:
        """A hash of the code and the libraries' versions."""
        found = hashlib.sha256(_FORM.encode())
        for part in self._code:
            place = _PACKAGE / part
            for file in sorted(place.rglob("*.py")) or [place.with_suffix(".py")]:
                found.update(file.relative_to(_PACKAGE).as_posix().encode() + file.read_bytes())
        for name in self._libraries:
            found.update(f"{name} {_version(name)}\n".encode())
        return found.digest()

    def _remove_oldest(self, folder: Path) -> None:
        files = sorted(_sizes(folder))
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self._most_bytes:
                return
            remove_file(path)
            total -= size


def _sizes(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """When each file was written, and its bytes; what another process removes is left out."""
    for path in folder.iterdir():
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISREG(found.st_mode):
            yield found.st_mtime, found.st_size, path


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
