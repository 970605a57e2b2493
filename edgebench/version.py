"""The version of edgebench that runs, in a module that imports nothing else of it."""

from __future__ import annotations

__all__ = ["__version__"]

try:
    from edgebench._version import version as __version__
except ImportError:
    # A checkout that was never installed.
    __version__ = "0+unknown"
