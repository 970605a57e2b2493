"""What belongs to edgebench beside its code: scenarios, found by name, and documentation.

They stand at the top of a checkout; in an installed copy they are part of the package.
"""

from __future__ import annotations

import re
from pathlib import Path

from edgebench.errors import ScenarioError
from edgebench.safe_files import walk
from edgebench.text import did_you_mean

_PACKAGE = Path(__file__).resolve().parent
_PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")


def shipped_folder(name: str) -> Path:
    """Return the folder of that name, as ``scenarios``."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def with_page_paths(text: str) -> str:
    """Return the text with each page of the documentation, as ``docs/boards.md``, where it lies."""

    def place(match: re.Match[str]) -> str:
        page = shipped_folder("docs") / match[0].removeprefix("docs/")
        return str(page) if page.is_file() and not Path(match[0]).is_file() else match[0]

    return _PAGE.sub(place, text)


#: Their folder; a scenario of that name below the working folder comes first.
SHIPPED = shipped_folder("scenarios")


def shipped_names() -> list[str]:
    """Return the names that may stand for a file: those of ``./scenarios`` and the shipped ones."""
    folders = (Path("scenarios"), SHIPPED)
    found = ((at, top / name) for at in folders for top, names in walk(at) for name in names)
    own = ((folder, file) for folder, file in found if file.suffix == ".toml")
    return sorted({str(file.relative_to(folder).with_suffix("")) for folder, file in own})


def find_scenario(source: str | Path) -> Path:
    """Return the file of that path or of that shipped name.

    Raises:
        ScenarioError: there is none; names the nearest that is.
    """
    path = Path(source)
    if path.is_file():
        return path
    # A shipped scenario's name, as ``quickstart`` or ``lowpower/conv``.
    is_path = path.is_absolute() or ".." in path.parts or path.suffix == ".toml"
    if isinstance(source, str) and not is_path:
        for folder in (Path("scenarios"), SHIPPED):
            if (file := folder / f"{source}.toml").is_file():
                return file
    if path.is_dir():
        raise ScenarioError(f"{path} is a folder", remedy="name a .toml file in it")
    beside = [str(file) for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    shipped = shipped_names()
    guess = did_you_mean(str(path), [*beside, *shipped])
    listed = f"name a TOML file, or a shipped scenario: {', '.join(shipped) or 'there is none'}"
    remedy = f"did you mean {guess!r}?" if guess else listed
    raise ScenarioError(f"no scenario {str(source)!r}", remedy=remedy)
