"""Installations as pip would make them: an interpreter that sees the chosen extras alone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
EXTRAS = ("torch", "plot", "parquet", "report", "serve", "heap")


def closure(extras: Iterable[str]) -> set[str]:
    """Every distribution that pip would install for edgebench with these extras."""
    seen: set[tuple[str, str]] = set()
    ahead = [("edgebench", extra) for extra in ("", *extras)]
    while ahead:
        one = name, extra = ahead.pop()
        if one in seen:
            continue
        seen.add(one)
        try:
            lines = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        for wanted in map(Requirement, lines):
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                ahead += [(_normal(wanted.name), part) for part in ("", *wanted.extras)]
    return {name for name, _ in seen}


def install_lightly(folder: Path, extras: Iterable[str], wheel: Path | None = None) -> Path:
    """An environment with these distributions, and this checkout or a wheel; its Python."""
    venv.EnvBuilder(symlinks=True).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in closure(extras) - ({"edgebench"} if wheel else set()):
        try:
            found = distribution(name)
        except PackageNotFoundError:  # for another Python or platform
            continue
        tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "/")}
        for top in tops - {"__pycache__"}:
            if not top.startswith("_editable_") and not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))))
    python = folder / "bin" / "python"
    if wheel is None:
        (site / "edgebench-checkout.pth").write_text(f"{ROOT}\n")
    else:
        words = ["--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True, capture_output=True)
    return python


def copy_source(folder: Path) -> Path:
    """What a build reads of this checkout, in a folder of its own: building writes beside it."""
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "man_page.py", folder / "scripts")
    for name in ("edgebench", "scenarios"):
        no = shutil.ignore_patterns("__pycache__", "_version.py")
        shutil.copytree(ROOT / name, folder / name, ignore=no)
    for page in (ROOT / "docs").rglob("*.md"):
        copy = folder / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)
    return folder


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
