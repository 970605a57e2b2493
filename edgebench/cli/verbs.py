"""The verbs, in groups, and where each is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

#: Group → verb → its line in the help, which is shown without importing the verb's module.
GROUPS = {
    "Measure": {
        "doctor": "Check this machine, with the fix for each problem.",
        "measure": "Run one command under a memory limit and measure it.",
        "minimum": "Find the least memory that a program or network needs.",
        "advise": "Find what makes it faster under a limit, by trying it.",
        "layers": "Find which layers are slow under a memory limit.",
        "init": "Write a commented scenario for a network or a command.",
        "run": "Run a scenario's sweep, or resume an interrupted one.",
        "calibrate": "Measure the speed of this device's memory, swap and disk.",
        "boards": "List the boards that --board can emulate, with sources.",
        "data": "List the data sets to train on, or download one.",
        "fleet": "Run a scenario on several machines.",
    },
    "Look": {
        "show": "Show a sweep's results as a table, or a study's tables.",
        "serve": "Start, follow and compare sweeps in a browser.",
        "plot": "Draw a sweep's figures.",
        "compare": "Compare two sweeps; exit code 4 on a regression.",
        "reconcile": "Explain why memory measurements differ.",
    },
    "Predict": {
        "predict": "Predict time, slowdown and kills at any limit.",
        "fit": "Fit models of the slowdown to a sweep.",
    },
    "Share": {
        "report": "Write a self-contained report.",
        "export": "Write a sweep's data as CSV, Parquet, JSON or a trace.",
    },
}
VERBS = {verb: line for verbs in GROUPS.values() for verb, line in verbs.items()}
#: Verb → its module, where that is named after another verb.
_MODULES = {
    **dict.fromkeys(("boards", "data"), "doctor"),
    "advise": "minimum",
    **dict.fromkeys(("init", "fleet"), "run"),
    **dict.fromkeys(("plot", "serve"), "report"),
    "reconcile": "compare",
    **dict.fromkeys(("fit", "calibrate"), "predict"),
    "export": "show",
}


def load_verb(verb: str) -> click.Command:
    """Import a verb's module; its command."""
    module = importlib.import_module(f"edgebench.cli.{_MODULES.get(verb, verb)}")
    command: click.Command = getattr(module, verb)
    return command
