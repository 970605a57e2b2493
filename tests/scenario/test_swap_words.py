"""Swap as people write it: one reading for command lines, scenarios and the page's form."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from edgebench.errors import UsageError
from edgebench.scenario.limits import LimitAxes
from edgebench.serve.form import FormFiles, check_form
from edgebench.units import parse_swap


@pytest.mark.parametrize(
    "text", ["disk:1G", "lots", "nope", "max", "zram:", "zram:max", "", "-1G", "0%", "0s", True, 3]
)
def test_other_words_are_refused_with_the_choices(text: str | int):
    """What can't be swap is a usage error that lists what can."""
    with pytest.raises(UsageError) as told:
        parse_swap(text)
    for choice in ("2G", "zram:1G", "system", "none"):
        assert choice in str(told.value.remedy)


@pytest.mark.parametrize("word", ["None", 0])
def test_a_scenario_and_the_form_read_it_alike(word: str | int):
    """In short, as a kind of an axis, and as the page sends it."""
    assert LimitAxes.model_validate({"swap": word}).swap.settings() == [("none", None)]
    assert LimitAxes.model_validate({"swap": "zram:1G"}).swap.settings() == [("zram", 1 << 30)]
    axis = LimitAxes.model_validate({"swap": {"kind": [word, "file"], "size": "1G"}})
    assert axis.swap.settings() == [("none", None), ("file", 1 << 30)]
    assert LimitAxes.model_validate({"swap": "2G"}).swap.settings() == [("file", 2 << 30)]
    sent = {
        "scenario": {"name": "x"},
        "workload": {"kind": "inference", "network": ["lenet"]},
        "limits": {"swap": word},
    }
    assert "faults" not in check_form(sent, FormFiles())


@pytest.mark.parametrize("word", ["disk:1G", "much", True, 3])
def test_a_scenario_names_the_choices(word: str | int):
    """Refused by the scenario as by the command line."""
    with pytest.raises(ValidationError, match=r"2G.*zram:1G.*system.*none"):
        LimitAxes.model_validate({"swap": word})
