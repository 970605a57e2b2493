"""The scenarios that come with edgebench. Importing this imports no reader of scenarios."""

from __future__ import annotations

from pathlib import Path

#: Their folder; a scenario of that name below the working folder comes first.
SHIPPED = Path(__file__).resolve().parents[2] / "scenarios"


def shipped_names() -> list[str]:
    """The names that may stand for a file: those of ``./scenarios`` and the shipped ones."""
    folders = (Path("scenarios"), SHIPPED)
    return sorted({file.stem for folder in folders for file in folder.glob("*.toml")})
