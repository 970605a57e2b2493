"""Which tests go to one worker of xdist, one after the other.

xdist's ``loadgroup`` appends a group to a test's name, which pytest from 9.2 on does not notice:
each test would be a group of its own. So workers write down the groups, for a scheduler of ours.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from needs import is_pure

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

#: What these tests look at, or change, exists only once: never two of them at a time.
ONE_AT_A_TIME = ("exclusive", "gpu", "swap")


def group_of(item: pytest.Item) -> str | None:
    """Tests of one group run on one worker, one after the other; None: on any, alone.

    Pure tests take milliseconds: a file of them is one piece of work. Others go one by one, except
    where they share a costly fixture of their file or package.
    """
    if any(map(item.get_closest_marker, ONE_AT_A_TIME)):
        return "exclusive"
    if item.get_closest_marker("browser"):
        return "browser"
    if named := item.get_closest_marker("xdist_group"):
        return str(named.args[0])
    file = item.nodeid.split("::")[0]
    if is_pure(item):
        return f"{file} pure"
    found: dict[str, Sequence[pytest.FixtureDef[Any]]] = item._fixtureinfo.name2fixturedefs
    shared = (
        each.scope in ("module", "class", "package") for defs in found.values() for each in defs
    )
    return file if any(shared) else None


def write_groups(groups: Mapping[str, str], file: Path) -> None:
    """Write down the tests that have a group. Each worker does, with the same content."""
    with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False) as made:
        json.dump(groups, made)
    Path(made.name).replace(file)


def make_scheduler(config: pytest.Config, log: Any, file: Path) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        groups: dict[str, str] | None = None

        def _split_scope(self, nodeid: str) -> str:
            if self.groups is None:
                self.groups = json.loads(file.read_text())
            return self.groups.get(nodeid, nodeid)

    return Scheduling(config, log)
