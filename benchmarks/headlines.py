"""Recomputes every measured number of README and docs from the files in this repository.

``python benchmarks/headlines.py`` prints each claim and its numbers; ``--check`` fails where a page
says something else or has a number that no claim holds; ``--write`` writes the numbers anew. Words
of pages name the page, as ``docs/studies/edgecaffe.md``; without any all pages are meant.

A page's claims are a module in ``claims/pages``: ``PAGE``, and ``claims()``, which yields them.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from claims import allowed, definitions, examples, pages
from claims.texts import NUMBER, Box, Claim, Edit, Table, UnheldError, blanked, spaced, written

from edgebench.cli.verbs import VERBS

ROOT = Path(__file__).parents[1]
Claims = Callable[[], Iterator[Claim]]


def main() -> int:
    """Print, check or write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "pages", nargs="*", help="as README.md docs/explanation/trust.md; default all"
    )
    parser.add_argument("--check", action="store_true", help="fail where pages differ")
    parser.add_argument("--write", action="store_true", help="write the numbers anew")
    options = parser.parse_args()
    known = claims_by_page()
    wanted = options.pages or sorted({*known, *all_pages()})
    faults = [
        fault
        for page in wanted
        for fault in look(page, known.get(page, []), options.write, options.check)
    ]
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return 1 if faults else 0


def claims_by_page() -> dict[str, list[Claims]]:
    """What makes the claims of each page."""
    found = {page: [claims] for page, claims in definitions.CLAIMS.items()}
    for name in sorted(module.name for module in pkgutil.iter_modules(pages.__path__)):
        module = importlib.import_module(f"{pages.__name__}.{name}")
        found.setdefault(module.PAGE, []).append(module.claims)
    for verb in VERBS:
        found.setdefault(f"docs/verbs/{verb}.md", []).append(partial(examples.claims, verb))
    return found


def all_pages() -> list[str]:
    """The READMEs and docs."""
    return [
        "README.md",
        "results/README.md",
        *(str(p.relative_to(ROOT)) for p in sorted(ROOT.glob("docs/**/*.md"))),
    ]


def look(page: str, makers: Iterable[Claims], write: bool, check: bool) -> list[str]:
    """Do what is asked with one page; what is wrong with it comes back in words."""
    path, faults, edits = ROOT / page, [], list[Edit]()
    text = path.read_text()
    for claims in makers:
        for claim in claims():
            try:
                edits += claim.found(text)
            except UnheldError as error:
                faults.append(f"{page}: {error}")
                continue
            if not (write or check):
                print(f"{page}: {told(claim)}")
    made = written(text, edits)
    if write:
        path.write_text(made)
    elif check:
        faults += differences(page, text, made) + unheld(page, text, edits)
    return faults


def told(claim: Claim) -> str:
    """A claim in words, its numbers in place."""
    if isinstance(claim, Table):
        return f"after {claim.after!r}:\n" + "\n".join(" | ".join(row) for row in claim.rows)
    if isinstance(claim, Box):
        return f"after {claim.after!r}:\n{claim.text}"
    return claim.words.format(*claim.numbers)


def differences(page: str, text: str, made: str) -> list[str]:
    """Lines of the page that its claims would change."""
    lines = difflib.unified_diff(
        text.splitlines(), made.splitlines(), page, "recomputed", "", "", 0
    )
    return list(lines)


def unheld(page: str, text: str, edits: Iterable[Edit]) -> list[str]:
    """Numbers of the page that no claim holds and that are none of those allowed."""
    own = {words: spaced(words) for words in allowed.PAGES.get(page, ())}
    wanted = NUMBER + allowed.UNITS if page.startswith(allowed.REFERENCE) else NUMBER
    stale = [
        f"{page}: allowed, but not there: {words}"
        for words, pattern in own.items()
        if not re.search(pattern, text)
    ]
    left = blanked(text, edits, [*own.values(), *allowed.patterns()])
    return stale + [
        f"{page}:{number}: no claim holds {', '.join(found)}: {line.strip()}"
        for number, (line, rest) in enumerate(
            zip(text.splitlines(), left.splitlines(), strict=True), 1
        )
        if (found := re.findall(wanted, rest))
    ]


if __name__ == "__main__":
    sys.exit(main())
