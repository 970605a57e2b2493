"""Writes tests/PROMISES.md from the tests that are marked with a promise.

``python scripts/promises.py`` writes it; ``--check`` only tells whether it is up to date. A test
states its promise as ``@pytest.mark.promise("One sentence.")``; tests of the same sentence prove it
together.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests" / "PROMISES.md"
HEAD = """# Promises and their tests

Each promise is proved by tests of the files above it, which are marked with its words.
What is not promised is in [Trust](../docs/explanation/trust.md).
"""
#: Folder below tests/ → its heading; promises of other folders come last.
HEADINGS = {
    "trust": "Hostile and broken surroundings",
    "cgroups": "Control groups, swap and storage",
    "run": "Trials and sweeps",
    "results": "Results folders",
    "serve": "The page",
    "fleet": "Fleets",
}


def promises_in(file: Path) -> Iterator[tuple[str, str]]:
    """Each marked test of a file: its promise and its name.

    Raises:
        ValueError: a mark's sentence is not a literal string.
    """
    for node in ast.walk(ast.parse(file.read_text())):
        for mark in getattr(node, "decorator_list", ()):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.promise":
                sentence = ast.literal_eval(mark.args[0])
                if not isinstance(sentence, str):
                    raise ValueError(f"{file}:{mark.lineno}: a promise is one string")
                yield sentence, getattr(node, "name", "")


def rows_of(tests: Path) -> dict[str, dict[str, list[str]]]:
    """Heading → promise → the files of its tests; a promise stands where it is found first."""
    found: dict[str, dict[str, list[str]]] = {}
    headings: dict[str, str] = {}
    order = list(HEADINGS)

    def place(file: Path) -> tuple[int, str]:
        folder = file.relative_to(tests).parts[0]
        return order.index(folder) if folder in order else len(order), str(file)

    for file in sorted(tests.rglob("test_*.py"), key=place):
        own = HEADINGS.get(file.relative_to(tests).parts[0], "Answers")
        for sentence, _ in promises_in(file):
            heading = headings.setdefault(sentence, own)
            files = found.setdefault(heading, {}).setdefault(sentence, [])
            name = str(file.relative_to(ROOT))
            if name not in files:
                files.append(name)
    return found


def merged(promises: dict[str, list[str]]) -> dict[str, list[str]]:
    """Promises of one file with the same words before a colon are one: their ends in a row."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for sentence, files in promises.items():
        start, colon, end = sentence.partition(": ")
        key = (start, *files) if colon else (sentence, *files)
        groups.setdefault(key, []).append(end)
    return {
        (f"{start}: {'; '.join(end.rstrip('.') for end in ends)}." if any(ends) else start): files
        for (start, *files), ends in groups.items()
    }


def render_page(tests: Path) -> str:
    """The whole page: below each file, or files, what their tests prove."""
    lines = [HEAD]
    for heading, promises in rows_of(tests).items():
        lines += [f"## {heading}", ""]
        by_files: dict[tuple[str, ...], list[str]] = {}
        for sentence, files in merged(promises).items():
            by_files.setdefault(tuple(files), []).append(sentence)
        for files, sentences in by_files.items():
            lines += [", ".join(f"`{file}`" for file in files) + ":", ""]
            lines += [*(f"* {sentence}" for sentence in sentences), ""]
    return "\n".join(lines)


def main() -> int | str:
    """Write the page, or check it; an error's text if it is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only tell whether it is up to date")
    text = render_page(ROOT / "tests")
    if parser.parse_args().check:
        current = PAGE.exists() and PAGE.read_text() == text
        return 0 if current else f"{PAGE.name} is out of date: python scripts/promises.py"
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
