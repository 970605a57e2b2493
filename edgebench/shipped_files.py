"""Folders that belong to edgebench beside its code: its scenarios and its documentation.

They stand at the top of a checkout; in an installed copy they are part of the package.
"""

from __future__ import annotations

import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")


def shipped_folder(name: str) -> Path:
    """Return the folder of that name, as ``scenarios``."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def with_page_paths(text: str) -> str:
    """Return the text with each page of the documentation, as ``docs/boards.md``, where it lies.

    Pages below the current folder are named from there.
    """
    return _PAGE.sub(_place, text)


def _place(match: re.Match[str]) -> str:
    page = shipped_folder("docs") / match[0].removeprefix("docs/")
    if not page.is_file():
        return match[0]
    try:
        return str(page.relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):
        return str(page)
