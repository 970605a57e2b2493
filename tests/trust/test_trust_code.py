"""What the source may never do: run data as code, or measure with a clock that jumps."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.source_modules import dotted_name

pytestmark = pytest.mark.xdist_group("source")
PACKAGE = Path(__file__).parents[2] / "edgebench"
_UNSAFE_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
_UNSAFE_CALLS = {
    *("eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "yaml.load"),
    "pandas.read_pickle",
}
#: Calls that unpickle unless this keyword has this value.
_MUST_SAY = {"torch.load": ("weights_only", True), "np.load": ("allow_pickle", False)}
#: Keywords whose values are read.
_WORDS = {"shell", *(key for key, _ in _MUST_SAY.values())}
#: The time of day; intervals are the monotonic clock's.
_JUMPING = {"time.time", "time.time_ns", "time.gmtime", "time.localtime"}
#: Where a file's own time is compared with another, or placed on the monotonic line.
_MAY_READ_THE_WALL = {"measures/strategies/__init__.py", "run/sweep/sweep.py"}

SOURCES = sorted(PACKAGE.rglob("*.py"))


@dataclass(frozen=True)
class MadeCall:
    name: str
    line: int
    words: dict[str | None, str]


@functools.cache
def read(path: Path) -> tuple[tuple[MadeCall, ...], frozenset[str]]:
    found, imported = [], set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        imported |= {name.split(".")[0] for name in names}
        if isinstance(node, ast.Call) and not _is_constant_text(node):
            words = {w.arg: ast.unparse(w.value) for w in node.keywords if w.arg in _WORDS}
            name = dotted_name(node.func) or ast.unparse(node.func)
            found.append(MadeCall(name, node.lineno, words))
    return tuple(found), frozenset(imported)


def _is_constant_text(call: ast.Call) -> bool:
    texts = [word.value for word in call.args if isinstance(word, ast.Constant)]
    return dotted_name(call.func) == "eval" and texts == ["0"] and len(call.args) == 1


@pytest.mark.promise("No eval, no shell; nothing is unpickled.")
def test_data_is_never_run() -> None:
    for path in SOURCES:
        name = str(path.relative_to(PACKAGE))
        calls, imported = read(path)
        assert not _UNSAFE_MODULES & imported, name
        for call in calls:
            place = f"{name}:{call.line}"
            assert call.name not in _UNSAFE_CALLS, place
            assert call.words.get("shell", "False") == "False", place
            if call.name in _MUST_SAY:
                key, value = _MUST_SAY[call.name]
                assert call.words.get(key) == str(value), place


@pytest.mark.promise(
    "A change of the system clock has no effect: intervals use the monotonic clock, and a "
    "sweep is resumed by its fingerprint, not its date."
)
def test_intervals_are_of_a_clock_that_can_not_jump() -> None:
    """The time of day names things for people; nothing is measured or timed out with it."""
    names = {str(path.relative_to(PACKAGE)): path for path in SOURCES}
    assert not [
        f"{name}:{call.line}"
        for name, path in names.items()
        for call in read(path)[0]
        if call.name in _JUMPING and name not in _MAY_READ_THE_WALL
    ]
