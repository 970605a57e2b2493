"""Prints the test files that a change touches, one a line: for ``scripts/test --changed``.

Changed is what differs from the commit in common with ``origin/main``, committed or not. A test
file is touched if it changed; if it, or a helper that it imports, imports a changed module; or if
it tests the changed module's package: ``edgebench/run/x.py`` has its tests in ``tests/run``.

This is by package, with no record of what each test ran: such a record (pytest-testmon) misses
the processes that tests start, where most of edgebench runs, and slows each test down.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"


def changed_files() -> set[str]:
    """Paths in the repository."""
    base = git("merge-base", "HEAD", "origin/main") or git("rev-parse", "HEAD")
    tracked = git("diff", "--name-only", base).splitlines()
    return {*tracked, *git("ls-files", "--others", "--exclude-standard").splitlines()}


def git(*words: str) -> str:
    """What git prints; nothing if it fails."""
    command = ["git", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def imports(path: Path) -> set[str]:
    """The dotted names that it imports anywhere, and each name that it imports from them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def with_helpers(name: str, known: dict[str, set[str]]) -> set[str]:
    """What a file of tests imports, itself and by helpers in ``tests``."""
    found: set[str] = set()
    todo = {name}
    while todo:
        one = todo.pop()
        found.add(one)
        todo |= known.get(one, set()) - found
    return found


def touched(changed: set[str]) -> list[str]:
    """The test files that those changes touch."""
    known = {path.stem: imports(path) for path in TESTS.rglob("*.py")}
    modules = {Path(name).with_suffix("").as_posix().replace("/", ".") for name in changed}
    helpers = {Path(name).stem for name in changed if name.startswith("tests/")}
    packages = {Path(name).parent.name for name in changed if name.startswith("edgebench/")}
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        place = path.relative_to(ROOT).as_posix()
        below = set(path.relative_to(TESTS).parts[:-1])
        imported = with_helpers(path.stem, known)
        if place in changed or below & packages or imported & (modules | helpers):
            found.append(place)
    if any(name.endswith(".md") for name in changed):
        found += ["tests/test_docs.py", "tests/test_headlines.py"]
    return sorted(set(found))


def main() -> None:
    """Print them."""
    sys.stdout.writelines(f"{name}\n" for name in touched(changed_files()))


if __name__ == "__main__":
    main()
