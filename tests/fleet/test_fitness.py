"""Which machines may take part, and which are equal enough to share a sweep."""

from __future__ import annotations

import platform
from typing import Any

import pytest

from edgebench import __version__
from edgebench.fleet.groups import equal_machines, failing_reason, same_machines, unfit_reason
from edgebench.fleet.messages import told_reason

FIT: dict[str, Any] = {
    "edgebench": __version__,
    "python": platform.python_version(),
    "clock_off_s": 0.2,
    "boot_id": "a",
    "free_bytes": 1 << 33,
}


def test_a_fit_machine_has_no_reason():
    """Equal versions, a right clock and free disk are enough."""
    assert unfit_reason(FIT, shared=True) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edgebench": "0.0.1"}, "git pull in its clone, scripts/setup"),
        ({"python": "3.9.1"}, "shared only among equal versions"),
        ({"clock_off_s": -240.0}, "4 min behind"),
        ({"clock_off_s": 240.0}, "timedatectl"),
        ({"free_bytes": 1 << 20}, "1.0 MiB of its disk are free"),
    ],
)
def test_what_is_wrong_is_said_with_its_fix(change: dict[str, Any], words: str):
    """Each kind of unfit machine gets its own sentence."""
    assert words in str(unfit_reason({**FIT, **change}, shared=True))


def test_another_python_may_run_a_sweep_of_its_own():
    """Only trials that are compared within one sweep need the same Python."""
    assert unfit_reason({**FIT, "python": "3.9.1"}, shared=False) is None


def test_a_worker_without_this_edgebench_says_what_to_install():
    """A worker that can't even describe itself is told apart from a broken one."""
    reason = str(unfit_reason("ModuleNotFoundError: edgebench", shared=False))
    assert f"install edgebench {__version__} there" in reason
    assert "scripts/setup" in reason


def test_the_same_machine_under_two_names_is_found():
    """Two names with one boot are one machine, however they are reached."""
    assert same_machines({"a": FIT, "b": {**FIT, "boot_id": "b"}, "c": FIT}) == {"c": "a"}


def test_machines_within_their_own_spread_are_equal():
    """A difference that a machine's own repeats show too tells nothing."""
    probes = {"a": {"max": [1.0, 1.01, 1.02]}, "b": {"max": [1.0, 1.1, 1.3]}}
    assert equal_machines(probes) == {}


def test_a_slower_machine_is_told_apart_by_how_much():
    """The odd one of three is left out, and its factor is said."""
    probes = {
        "odd": {"max": [2.0, 2.0, 2.01]},
        "b": {"max": [1.0, 1.0, 1.01]},
        "c": {"max": [1.0, 1.02, 1.01]},
    }
    found = equal_machines(probes)
    assert set(found) == {"odd"}
    assert "2.00 times as long" in found["odd"]


def test_a_limit_that_only_one_survives_tells_machines_apart():
    """A machine on which the probe is killed is no equal of one on which it finishes."""
    probes = {"a": {"50%": [1.0, 1.0]}, "b": {"50%": [1.0, 1.0]}, "c": {"50%": []}}
    assert "finishes on one of them only" in equal_machines(probes)["c"]


def test_a_failing_machine_is_told_with_what_to_ask_it():
    """The system's own words alone name neither the place nor the fix."""
    said = failing_reason("pi-1", 3, "[Errno 28] No space left on device")
    assert "could not make 3 trials in a row" in said
    assert "No space left on device; edgebench fleet doctor --host pi-1" in said


def test_a_machine_s_error_keeps_its_fix():
    """A remedy of several lines becomes one; without a remedy there is only what happened."""
    said = {"what": "no cgroups are mounted", "remedy": "As root:\n    mount it"}
    assert told_reason(said) == "no cgroups are mounted; As root: mount it"
    assert told_reason({"what": "another sweep began there"}) == "another sweep began there"
