"""How this edgebench was called: what to type to call it again, or to add an extra to it.

``uvx`` and ``pipx run`` start it although PATH doesn't have it; so does a script's full path.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from edgebench.processes import find_program

_NAME = "edgebench"


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
