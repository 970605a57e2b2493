"""Adding a strategy, a figure, a model, a remedy or a check takes one new file, no other edit.

Some can be in a package of its own, which names them in entry points.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from edgebench.errors import MachineError
from edgebench.remedies.known import all_remedies

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HOW_TO = Path(__file__).parents[1] / "docs" / "how-to" / "extend.md"

#: What is added → the package it goes into, its file, and the question that must answer "yes".
ADDED = {
    "strategy": (
        "edgebench.measures.strategies",
        """
        from edgebench.measures.strategies import ErrorBar, Reading
        from edgebench.measures.strategies import Strategy, registered_strategy


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
}


@pytest.mark.process
def test_one_new_file_is_enough(tmp_path: Path):
    code = []
    for what, (package, module, question) in ADDED.items():
        folder = tmp_path / what
        folder.mkdir()
        (folder / "nothing.py").write_text(textwrap.dedent(module))
        code += [f"import {package} as package; package.__path__ += [{str(folder)!r}]", question]
    words = [sys.executable, "-c", "\n".join(code)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * len(ADDED)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (about, module) = re.findall(r"```(?:toml|python)\n(.+?)```", HOW_TO.read_text(), re.DOTALL)
    project = tomllib.loads(about)["project"]
    folder = tmp_path / "my_edgebench-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    (tmp_path / "my_edgebench.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_edgebench", raising=False)
    return tmp_path


def test_a_package_adds_a_remedy(installed: Path):
    (found,) = (one for one in all_remedies() if one.name == "openblas-one-thread")
    assert found.costs == "slower where cores are idle"


@pytest.mark.process
def test_a_package_adds_a_strategy(installed: Path):
    code = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\n"
        "from edgebench.measures.strategies import in_every_trial\n"
        "print([one.title for one in in_every_trial() if one.name == 'resident'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['largest resident set']\n"


def test_a_package_that_is_broken_is_named(installed: Path):
    (installed / "my_edgebench.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(MachineError, match="openblas-one-thread can't be imported") as raised:
        all_remedies()
    assert str(raised.value.remedy).endswith("pip uninstall my-edgebench")
