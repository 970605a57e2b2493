"""How processes of our own Python code are started."""

from __future__ import annotations

import sys
from pathlib import Path

#: A program for ``python -c``: its first word is the folder of this package or nothing, the second
#: the module to run. ``-c`` and ``-m`` put the current folder on ``sys.path``, where anybody may
#: have left a ``json.py``; Python 3.10 has no ``-P``. The package's folder moves to the end once
#: edgebench is found in it: other packages in it must not hide the standard library.
_RUN_MODULE = (
    "import sys; folder, module = sys.argv[1:3]; del sys.argv[1:3]; "
    "sys.path[:] = filter(None, [folder, *sys.path]); import edgebench; "
    "folder and sys.path.append(sys.path.pop(0)); import runpy; "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)


def own_program(module: str, *words: str) -> list[str]:
    """The command that runs a module as a program, with this Python and this edgebench."""
    folder = str(Path(__file__).resolve().parents[1])
    return [sys.executable, "-c", _RUN_MODULE, folder, module, *words]


def installed_program(module: str, *words: str) -> list[str]:
    """The same for another machine: the words after its Python, which has edgebench installed."""
    return ["-c", _RUN_MODULE, "", module, *words]
