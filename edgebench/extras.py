"""Libraries that an extra installs: which one is missing, and the command that installs it.

Which extra installs what is read from edgebench's own metadata, which ``pyproject.toml`` gave it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Iterable, Sequence
from functools import cache

from edgebench.errors import MachineError
from edgebench.invocation import install_command
from edgebench.text import joined_words

#: Modules whose distribution has another name, or comes with another one.
_DISTRIBUTIONS = {
    "_pytest": "pytest",
    "PIL": "seaborn",
    "keras": "tensorflow",
    "matplotlib": "seaborn",
    "numpy": "pandas",
    "pynvml": "nvidia-ml-py",
    "pydantic_core": "pydantic",
    "typing_extensions": "pydantic",
}
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(\[(?P<parts>[\w,]+)\])?.*?(;.*\bextra == ['\"](?P<extra>\w+)['\"])?$"
)


def need(*modules: str) -> None:
    """Check that the libraries are there, before work that would be lost without them.

    Raises:
        MachineError: some are not installed; the remedy installs them all.
    """
    if lacking := missing(modules):
        raise MachineError(_said(lacking), remedy=install(*lacking))


def missing(modules: Iterable[str]) -> list[str]:
    """Those of the modules that are not installed, by name; none is imported."""
    return sorted({name for name in modules if not _is_there(name)})


def missing_library_error(error: ModuleNotFoundError) -> MachineError | None:
    """Return the error for a missing library.

    None if no extra installs it: then the import is a bug.
    """
    module = (error.name or "").partition(".")[0]
    if extras_with(module) and not _is_there(module):
        return MachineError(_said([module]), remedy=install(module))
    return None


def no_figure(error: ModuleNotFoundError) -> str:
    """Why a verb leaves out the figure that it draws beside its answer.

    Raises:
        ModuleNotFoundError: the error itself, where it is a bug.
    """
    if (lacking := missing_library_error(error)) is None:
        raise error
    return f"no figure: {lacking.what}: {lacking.remedy}"


def install(*modules: str) -> str:
    """Return the command that installs the extras which bring these modules, as few as possible."""
    smallest = {extras[0] for module in modules if (extras := extras_with(module))}
    brings = extras_contents()
    least = [one for one in smallest if not any(brings[one] < brings[other] for other in smallest)]
    chosen = ",".join(sorted(filter(None, least)))
    return install_command(chosen)


@cache
def extras_contents() -> dict[str, frozenset[str]]:
    """Extra → the distributions it installs; the base install is the extra ``""``."""
    from importlib.metadata import PackageNotFoundError, requires

    direct: dict[str, set[str]] = {}
    parts: dict[str, list[str]] = {}
    requirements: Sequence[str] = ()
    with contextlib.suppress(PackageNotFoundError):
        requirements = requires("edgebench") or ()
    for found in filter(None, map(_REQUIREMENT.match, requirements)):
        extra = found["extra"] or ""
        direct.setdefault(extra, set()).add(_normal(found["name"]))
        if found["name"] == "edgebench":
            parts.setdefault(extra, []).extend(found["parts"].split(","))

    def whole(extra: str) -> frozenset[str]:
        return frozenset(direct.get(extra, ())).union(*map(whole, parts.get(extra, ())))

    return {extra: whole(extra) for extra in direct}


def extras_with(module: str) -> list[str]:
    """Return the extras that install a module, the one with the fewest libraries first."""
    wanted = _normal(_DISTRIBUTIONS.get(module, module))
    brings = extras_contents()
    return sorted((e for e in brings if wanted in brings[e]), key=lambda e: (len(brings[e]), e))


def _is_there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _said(modules: Sequence[str]) -> str:
    are = "is" if len(modules) == 1 else "are"
    return f"this needs {joined_words(modules)}, which {are} not installed"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
