"""What the kept quick start is printed as."""

from __future__ import annotations

from click.testing import CliRunner

from claims.kept import folder
from edgebench.cli.show import show


def answer() -> list[str]:
    """Return the headline and the table, without the last line, which names the sweep's state."""
    done = CliRunner().invoke(show, [str(folder("quickstart"))], catch_exceptions=False)
    return done.stdout.splitlines()[:-1]
