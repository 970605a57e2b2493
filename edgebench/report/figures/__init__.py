"""Figures of results; one module per kind of figure."""

from __future__ import annotations

import os


def _import_matplotlib() -> None:
    """Import it without ``MPLBACKEND``: figures are files here, and an unknown name is an error.

    It would read a ``matplotlibrc`` of the current folder, where anybody may have left one, or a
    FIFO of that name.
    """
    backend = os.environ.pop("MPLBACKEND", None)
    here = os.open(".", os.O_PATH | os.O_CLOEXEC)
    os.chdir("/")
    try:
        import matplotlib  # noqa: F401
    finally:
        os.fchdir(here)
        os.close(here)
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


_import_matplotlib()
