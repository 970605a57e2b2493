"""docs/reference/results.md is the contract: every key and column stands in it; tables are made."""

from __future__ import annotations

import runpy
from pathlib import Path

import msgspec

from edgebench import records
from edgebench.results.columns import LIMITS, PARTS, SETTINGS, TRIAL_COLUMNS
from edgebench.results.frames import CARRIED, LAYER_COLUMNS, NETWORK_COLUMNS, PHASE_COLUMNS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "results.md").read_text()
REFERENCE = runpy.run_path(str(ROOT / "scripts" / "reference.py"))


def test_the_tables_are_made_from_the_code():
    for page in REFERENCE["PAGES"]:
        assert page.read_text() == REFERENCE["filled"](page.read_text()), (
            "python scripts/reference.py"
        )


def test_every_key_of_a_record_is_described():
    for part in vars(records).values():
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and part.__struct_fields__:
            REFERENCE["check_fields"](part, set(part.__struct_fields__))


def test_every_column_is_explained():
    derived = {*SETTINGS, *LIMITS, *CARRIED}
    derived |= {f"{part}_{name}" for part, names in PARTS.items() for name in names}
    columns = {*TRIAL_COLUMNS, *PHASE_COLUMNS, *LAYER_COLUMNS, *NETWORK_COLUMNS} - derived
    assert {name for name in columns if f"`{name}`" not in TEXT} == set()
