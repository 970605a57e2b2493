"""Figures of results; one module per kind of figure."""

from __future__ import annotations

import os


def _import_matplotlib() -> None:
    """Import it without ``MPLBACKEND``: figures are files here, and an unknown name is an error."""
    backend = os.environ.pop("MPLBACKEND", None)
    try:
        import matplotlib  # noqa: F401
    finally:
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


_import_matplotlib()
