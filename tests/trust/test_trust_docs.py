"""The page of promises is made from the tests that prove them."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROMISES = runpy.run_path(str(ROOT / "scripts" / "promises.py"))


def test_the_page_of_promises_is_made_from_the_tests() -> None:
    page = ROOT / "tests" / "PROMISES.md"
    assert page.read_text() == PROMISES["render_page"](ROOT / "tests"), "python scripts/promises.py"
