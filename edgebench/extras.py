"""How this edgebench was called and installed: what to type to call it again, or to add an extra.

``uvx`` and ``pipx run`` start it although PATH doesn't have it; so does a script's full path. Which
extra installs what is read from edgebench's own metadata, which ``pyproject.toml`` gave it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from edgebench.errors import MachineError
from edgebench.processes import find_program
from edgebench.text import joined_words

_NAME = "edgebench"
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


def leave_tool_path() -> None:
    """Take off ``PATH`` what ``uvx`` put there: a measured ``python3`` is the caller's own."""
    first, _, others = os.environ.get("PATH", "").partition(os.pathsep)
    if uvx_words() and Path(first) == Path(sys.argv[0]).parent:
        os.environ["PATH"] = others


@cache
def uvx_words() -> tuple[str, ...]:
    """Return what was typed before edgebench's words, where ``uvx`` or ``uv tool run`` did it."""
    if "UV" not in os.environ:
        return ()
    words: list[str] = []
    with suppress(OSError):
        parent = Path("/proc", str(os.getppid()), "cmdline").read_bytes()
        words = os.fsdecode(parent).split("\0")[:-1]
    own = len(words) - len(sys.argv) + 1
    if words[1:2] != ["tool"] or Path(words[0]).name != "uv" or words[own:] != sys.argv[1:]:
        return ()
    # uvx itself becomes `uv tool uvx`.
    name = "uvx" if shutil.which("uvx") else shlex.quote(f"{os.environ['UV']}x")
    return (name, *words[3:own])


@cache
def program() -> str:
    """Return what a shell takes for this edgebench: its name, if that finds it."""
    if words := uvx_words():
        return shlex.join(words)
    script = Path(sys.argv[0])
    if script.name != _NAME or "/" not in sys.argv[0]:
        return _NAME
    if "UV_RUN_RECURSION_DEPTH" in os.environ:
        return f"uv run {_NAME}"
    found = find_program(_NAME)
    return _NAME if found and found.samefile(script) else shlex.quote(sys.argv[0])


def install_command(extras: str) -> str:
    """Return the command that adds these extras (``"plot,torch"``; ``""``: all that lacks).

    The name alone would be asked for at the public index, where anybody could own it.
    """
    parts = f"[{extras}]" if extras else ""
    if words := uvx_words():
        # It keeps no environment: the same call again, with more in it.
        return shlex.join([*words[:-1], "--with", f"{_NAME}{parts}", words[-1], *sys.argv[1:]])
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(PackageNotFoundError):
        about = json.loads(distribution(_NAME).read_text("direct_url.json") or "{}")
        url = urlsplit(about.get("url", ""))
        if url.scheme == "file":
            editable = "-e " if about.get("dir_info", {}).get("editable") else ""
            return f"{_installer()} {editable}{shlex.quote(unquote(url.path) + parts)}"
        if vcs := about.get("vcs_info", {}).get("vcs"):
            return f"{_installer()} {shlex.quote(f'{_NAME}{parts} @ {vcs}+{url.geturl()}')}"
    return f"{_installer()} {shlex.quote(_NAME + parts)}"


def _installer() -> str:
    installer = None
    from importlib.metadata import PackageNotFoundError, distribution

    with suppress(PackageNotFoundError):
        installer = distribution(_NAME).read_text("INSTALLER")
    if installer and installer.strip() == "uv":
        # Its environments have no pip.
        return f"uv pip install --python {shlex.quote(sys.executable)}"
    found = shutil.which("python3")
    here = Path(sys.executable)
    same = found and Path(found).parent.resolve() == here.parent.resolve()
    return f"{'python3' if same else shlex.quote(sys.executable)} -m pip install"


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
    with suppress(PackageNotFoundError):
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
