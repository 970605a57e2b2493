"""The installed edgebench: how it is called, its extras and shipped files.

``uvx`` and ``pipx run`` start it although PATH doesn't have it; so does a script's full path. Which
extra installs what is read from edgebench's own metadata, which ``pyproject.toml`` gave it.
Scenarios and documentation stand at the top of a checkout, and in the package of an installed copy.
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

from edgebench.errors import MachineError, ScenarioError
from edgebench.processes import find_program
from edgebench.safe_files import walk
from edgebench.text import did_you_mean, joined_words

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
_PACKAGE = Path(__file__).resolve().parent
_PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")


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

    installer, about = "", "{}"
    with suppress(PackageNotFoundError):
        files = distribution(_NAME)
        installer = (files.read_text("INSTALLER") or "").strip()
        about = files.read_text("direct_url.json") or about
    python = shutil.which("python3")
    is_on_path = python and Path(python).parent.resolve() == Path(sys.executable).parent.resolve()
    pip = f"{'python3' if is_on_path else shlex.quote(sys.executable)} -m pip install"
    if installer == "uv":
        # Its environments have no pip.
        pip = f"uv pip install --python {shlex.quote(sys.executable)}"
    source = json.loads(about)
    url = urlsplit(source.get("url", ""))
    if url.scheme == "file":
        editable = "-e " if source.get("dir_info", {}).get("editable") else ""
        return f"{pip} {editable}{shlex.quote(unquote(url.path) + parts)}"
    if vcs := source.get("vcs_info", {}).get("vcs"):
        return f"{pip} {shlex.quote(f'{_NAME}{parts} @ {vcs}+{url.geturl()}')}"
    return f"{pip} {shlex.quote(_NAME + parts)}"


def need(*modules: str) -> None:
    """Check that the libraries are there, before work that would be lost without them.

    Raises:
        MachineError: some are not installed; the remedy installs them all.
    """
    if lacking := missing(modules):
        raise _lacking_error(lacking)


def missing(modules: Iterable[str]) -> list[str]:
    """Those of the modules that are not installed, by name; none is imported."""
    return sorted({name for name in modules if not _is_there(name)})


def missing_library_error(error: ModuleNotFoundError) -> MachineError | None:
    """Return the error for a missing library.

    None if no extra installs it: then the import is a bug.
    """
    module = (error.name or "").partition(".")[0]
    if extras_with(module) and not _is_there(module):
        return _lacking_error([module])
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
    least = [extra for extra in smallest if not any(brings[extra] < brings[e] for e in smallest)]
    return install_command(",".join(sorted(filter(None, least))))


@cache
def extras_contents() -> dict[str, frozenset[str]]:
    """Extra → the distributions it installs; the base install is the extra ``""``."""
    from importlib.metadata import PackageNotFoundError, requires

    direct: dict[str, set[str]] = {}
    parts: dict[str, list[str]] = {}
    requirements: Sequence[str] = ()
    with suppress(PackageNotFoundError):
        requirements = requires(_NAME) or ()
    for match in filter(None, map(_REQUIREMENT.match, requirements)):
        extra = match["extra"] or ""
        direct.setdefault(extra, set()).add(_normal(match["name"]))
        if match["name"] == _NAME:
            parts.setdefault(extra, []).extend(match["parts"].split(","))

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


def _lacking_error(modules: Sequence[str]) -> MachineError:
    are = "is" if len(modules) == 1 else "are"
    what = f"this needs {joined_words(modules)}, which {are} not installed"
    return MachineError(what, remedy=install(*modules))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def shipped_folder(name: str) -> Path:
    """Return the folder of that name, as ``scenarios``."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def with_page_paths(text: str) -> str:
    """Return the text with each page of the documentation, as ``docs/boards.md``, where it lies."""

    def place(match: re.Match[str]) -> str:
        page = shipped_folder("docs") / match[0].removeprefix("docs/")
        return str(page) if page.is_file() and not Path(match[0]).is_file() else match[0]

    return _PAGE.sub(place, text)


#: The folder of shipped scenarios; one of the same name below the working folder comes first.
SHIPPED = shipped_folder("scenarios")


def shipped_names() -> list[str]:
    """Return the names that may stand for a file: those of ``./scenarios`` and the shipped ones."""
    return sorted(
        {
            str((top / name).relative_to(folder).with_suffix(""))
            for folder in (Path("scenarios"), SHIPPED)
            for top, names in walk(folder)
            for name in names
            if Path(name).suffix == ".toml"
        }
    )


def find_scenario(source: str | Path) -> Path:
    """Return the file of that path or of that shipped name.

    Raises:
        ScenarioError: there is none; names the nearest that is.
    """
    path = Path(source)
    if path.is_file():
        return path
    # A shipped scenario's name, as ``quickstart`` or ``lowpower/conv``.
    is_path = path.is_absolute() or ".." in path.parts or path.suffix == ".toml"
    if isinstance(source, str) and not is_path:
        for folder in (Path("scenarios"), SHIPPED):
            if (file := folder / f"{source}.toml").is_file():
                return file
    if path.is_dir():
        raise ScenarioError(f"{path} is a folder", remedy="name a .toml file in it")
    beside = [str(file) for file in path.parent.glob("*.toml")] if path.parent.is_dir() else []
    shipped = shipped_names()
    guess = did_you_mean(str(path), [*beside, *shipped])
    listed = f"name a TOML file, or a shipped scenario: {', '.join(shipped) or 'there is none'}"
    remedy = f"did you mean {guess!r}?" if guess else listed
    raise ScenarioError(f"no scenario {str(source)!r}", remedy=remedy)
