"""A package's modules as syntax trees: what each defines at its top, and what uses it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_KINDS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class SourceModule:
    name: str
    path: Path
    tree: ast.Module

    def definitions(self) -> dict[str, Definition]:
        return {node.name: node for node in _top(self.tree) if isinstance(node, _KINDS)}

    def constants(self) -> set[str]:
        found = set()
        for node in _top(self.tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
            found |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        return found

    def nodes(self, *kinds: type[ast.AST]) -> list[Any]:
        return [node for node in ast.walk(self.tree) if isinstance(node, kinds)]

    def registered(self) -> set[str]:
        """Its classes and functions with a decorator, which may hand them to a registry."""
        return {name for name, node in self.definitions().items() if node.decorator_list}


def read_modules(package: Path) -> list[SourceModule]:
    return [
        SourceModule(_dotted(path.relative_to(package.parent)), path, ast.parse(path.read_text()))
        for path in sorted(package.rglob("*.py"))
    ]


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def dotted_name(node: ast.expr) -> str:
    """``a.b.c`` of a name and its attributes; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (above := dotted_name(node.value)):
        return f"{above}.{node.attr}"
    return ""


def _top(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements at the top, those below an ``if`` or ``try`` included."""
    waiting = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.If | ast.Try):
            waiting += [*node.body, *node.orelse]
        yield node


def unused_names(modules: list[SourceModule]) -> list[str]:
    """``module.NAME`` of classes, functions and constants that no module of them uses."""
    used = {name for module in modules for name in _used_by(module, {m.name for m in modules})}
    found = []
    for module in modules:
        left_out = module.registered() | {"main"}
        names = (module.definitions().keys() | module.constants()) - left_out
        found += [f"{module.name}.{name}" for name in sorted(names) if not name.startswith("__")]
    return [name for name in found if name not in used]


def _used_by(module: SourceModule, known: set[str]) -> Iterator[str]:
    """``module.NAME`` of all that the module reads: its own names, imported ones, attributes."""
    bound = _bindings(module, known)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield bound.get(node.id, f"{module.name}.{node.id}")
        elif isinstance(node, ast.Attribute):
            yield f"{bound.get(dotted_name(node.value), '')}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and module.path.name == "__init__.py":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # A quoted annotation, or what an import by name is given.
            yield bound.get(node.value, f"{module.name}.{node.value}")
            yield node.value.replace(":", ".")


def _bindings(module: SourceModule, known: set[str]) -> dict[str, str]:
    bound = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            bound |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
        elif isinstance(node, ast.Import):
            bound |= {
                alias.asname or alias.name: alias.name
                for alias in node.names
                if alias.name in known
            }
    return bound
