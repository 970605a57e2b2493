"""Adding a strategy, a figure, a model, a remedy or a check takes one new file, no other edit."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

#: What is added → the package it goes into, its file, and the question that must answer "yes".
ADDED = {
    "strategy": (
        "edgebench.measures.strategies",
        """
        from edgebench.measures.strategy import ErrorBar, Reading
        from edgebench.measures.strategy import Strategy, registered_strategy


        @registered_strategy
        class Nothing(Strategy):
            name = "nothing"
            title = "nothing at all"
            counts = "no page"
            blind_to = "every page"
            own_trial = True

            def read(self, trial):
                return Reading(self.name, None, "not looked at", ErrorBar(None, "none"))
        """,
        "from edgebench.measures.strategies import with_own_trial;"
        " print('nothing' in with_own_trial())",
    ),
    "figure": (
        "edgebench.report.figures",
        """
        from edgebench.report.figures import naming


        @naming.figure_kind("nothing")
        def figures(results):
            yield from ()
        """,
        "from edgebench.report.figures.gallery import STUDIES; print('nothing' in STUDIES)",
    ),
    "model": (
        "edgebench.slowdown.models",
        """
        from edgebench.slowdown.models.base import registered_model
        from edgebench.slowdown.models.interpolated import Interpolated


        @registered_model
        class Nothing(Interpolated):
            name = "nothing"
        """,
        "from edgebench.slowdown.models.base import all_models;"
        " print('nothing' in [model.name for model in all_models()])",
    ),
    "remedy": (
        "edgebench.remedies",
        """
        from edgebench.remedies.base import Remedy, with_settings

        REMEDIES = (
            Remedy(
                name="nothing",
                group="runtime",
                title="does nothing",
                costs="nothing",
                source="nowhere",
                unfit=lambda target: None,
                setting=with_settings("pass", gc="default"),
            ),
        )
        """,
        "from edgebench.remedies import all_remedies;"
        " print('nothing' in [remedy.name for remedy in all_remedies()])",
    ),
    "check": (
        "edgebench.run.checks",
        """
        from edgebench.run.checks.base import registered_check


        @registered_check("nothing")
        def nothing_check(target):
            return "nothing"
        """,
        "from edgebench.run.checks import all_checks;"
        " print('nothing' in [check.name for check in all_checks()])",
    ),
}


@pytest.mark.process
def test_one_new_file_is_enough(tmp_path: Path):
    """A module put into the package's folder is found and registered."""
    code = []
    for what, (package, module, question) in ADDED.items():
        folder = tmp_path / what
        folder.mkdir()
        (folder / "nothing.py").write_text(textwrap.dedent(module))
        code += [f"import {package} as package; package.__path__ += [{str(folder)!r}]", question]
    words = [sys.executable, "-c", "\n".join(code)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * len(ADDED)
