"""Prints a hash of all that the docs' site is built from: its pages and the docstrings in them."""

from __future__ import annotations

import hashlib
import inspect
import pydoc
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def sources() -> list[Path]:
    """The files, in order."""
    pages = [path for path in (ROOT / "docs").rglob("*") if path.is_file()]
    text = "".join(path.read_text() for path in pages if path.suffix == ".md")
    names = re.findall(r"^\.\. auto\w+:: (\S+)", text, re.MULTILINE)
    modules = {inspect.getsourcefile(pydoc.locate(name)) for name in names}  # type: ignore[arg-type]
    found = {*pages, *(Path(name) for name in modules if name)}
    found |= {ROOT / "constraints.txt", ROOT / "edgebench" / "__init__.py"}
    return sorted(path for path in found if "__pycache__" not in path.parts)


def main() -> None:
    """Print it."""
    whole = hashlib.sha256()
    for path in sources():
        whole.update(f"{path}\0".encode() + path.read_bytes() + b"\0")
    sys.stdout.write(f"{whole.hexdigest()}\n")


if __name__ == "__main__":
    main()
