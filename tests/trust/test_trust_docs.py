"""The page of promises is made from the tests that prove them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROMISES = runpy.run_path(str(ROOT / "scripts" / "promises.py"))


def test_the_page_of_promises_is_made_from_the_tests() -> None:
    page = ROOT / "tests" / "PROMISES.md"
    assert page.read_text() == PROMISES["render_page"](ROOT / "tests"), "python scripts/promises.py"


def test_a_promise_is_found_with_its_tests(tmp_path: Path) -> None:
    file = tmp_path / "test_made.py"
    mark = "@pytest.mark.promise(\n    'Nothing '\n    'is lost.'\n)\n"
    file.write_text(f"{mark}def test_one(): ...\ndef test_two(): ...\n")
    assert list(PROMISES["promises_in"](file)) == [("Nothing is lost.", "test_one")]
    file.write_text("@pytest.mark.promise(1)\ndef test_one(): ...\n")
    with pytest.raises(ValueError, match="one string"):
        list(PROMISES["promises_in"](file))
