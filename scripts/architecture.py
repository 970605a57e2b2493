"""Draws ARCHITECTURE.md's picture of the packages from the imports in their modules.

``python scripts/architecture.py`` writes it; ``--check`` only tells whether it is up to date.
Imports inside functions count; those for type checking alone don't.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- packages: made by scripts/architecture.py -->", "<!-- end -->"
Graph = dict[str, set[str]]


def read_graph(package: Path) -> Graph:
    """Which subpackages each subpackage imports; modules at the package's top are left out."""
    names = {path.parent.name for path in package.glob("*/__init__.py")}
    graph: Graph = {}
    for name in sorted(names):
        trees = (ast.parse(path.read_text()) for path in (package / name).rglob("*.py"))
        imported = {word for tree in trees for word in _imports(tree.body, package.name)}
        graph[name] = (imported & names) - {name}
    return graph


def _imports(body: list[ast.stmt], package: str) -> Iterator[str]:
    """The subpackages that statements import, those inside functions too."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(node.orelse, package)
        elif isinstance(node, ast.ImportFrom):
            dotted = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from _below(dotted, package)
        elif isinstance(node, ast.Import):
            yield from _below([alias.name for alias in node.names], package)
        else:
            inner = [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt)]
            handlers = getattr(node, "handlers", []) + getattr(node, "cases", [])
            yield from _imports([*inner, *(s for one in handlers for s in one.body)], package)


def _below(dotted: list[str], package: str) -> Iterator[str]:
    for name in dotted:
        first, *rest = name.split(".")
        if first == package and rest:
            yield rest[0]


def ordered(graph: Graph) -> list[str]:
    """The packages, each after all that it imports.

    Raises:
        graphlib.CycleError: packages import each other.
    """
    return [*TopologicalSorter({name: sorted(graph[name]) for name in graph}).static_order()]


def reduced(graph: Graph) -> Graph:
    """The graph without arrows that a longer way of other arrows implies."""
    reached: Graph = {}
    for name in ordered(graph):
        reached[name] = graph[name].union(*(reached[one] for one in graph[name]))
    return {
        name: ones - set().union(*(reached[one] for one in ones)) for name, ones in graph.items()
    }


def mermaid(graph: Graph) -> str:
    """The picture: an arrow goes from a package to one that it imports; users stand above."""
    order = ordered(graph)[::-1]
    boxes = [f'  {name}["{name}/"]' for name in order]
    arrows = [f"  {name} --> {one}" for name in order for one in sorted(graph[name])]
    return "\n".join(["```mermaid", "flowchart TD", *boxes, *arrows, "```"])


def page_with(picture: str, page: str) -> str:
    """The page with the picture between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{picture}\n{END}{after}"


def main() -> None:
    """Write the picture, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 if the page is out of date")
    page = PAGE.read_text()
    made = page_with(mermaid(reduced(read_graph(ROOT / "edgebench"))), page)
    if not parser.parse_args().check:
        PAGE.write_text(made)
    elif made != page:
        sys.exit("ARCHITECTURE.md's picture is out of date: python scripts/architecture.py")


if __name__ == "__main__":
    main()
