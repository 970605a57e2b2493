"""What trials of a program do not tell: facts from records, and what is said of them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from edgebench.need import need_of
from edgebench.records import GrowthReport, LeftFile, LimitSetting, OutsideReport, TrialRecord
from edgebench.results.unmeasured import client_name, unmeasured
from edgebench.units import MIB
from edgebench.words.unmeasured import growth_words, program_need_words, unmeasured_parts


def trial(
    *command: str,
    growth: GrowthReport | None = None,
    ends: dict[str, Any] | None = None,
    **seen: Any,
) -> TrialRecord:
    """A trial of a second that waited for most of it, and held little itself."""
    made = {"outcome": "ok", "exit_code": 0, "wall_s": 1.0, "cpu_s": 0.1, **(ends or {})}
    return TrialRecord(
        *("0001", "p001", 0, 0, {"kind": "command", "command": list(command)}, LimitSetting()),
        started_utc="",
        demand_bytes=MIB // 2,
        outside=OutsideReport(**seen),
        growth=growth,
        **made,
    )


def said(*records: TrialRecord, repeats: bool = False) -> str:
    """All that is said of them."""
    return "; ".join(unmeasured_parts(unmeasured(records), repeats=repeats))


def test_a_process_that_outlives_the_command():
    """Its memory is in no answer: it is named, with what measures it."""
    assert said(trial("sh", "spawn.sh", processes=1, names=["python3"])) == (
        "1 process outlived the command and was ended (python3): what it needs from then "
        "on is not in the answer, --for 20s measures it too"
    )
    many = said(trial("sh", processes=3, names=["redis-server", "sh"]))
    assert many.startswith("3 processes outlived the command and were ended (redis-server and sh)")


@pytest.mark.parametrize(
    ("name", "removal"),
    [("/dev/shm/a cache", "rm -f '/dev/shm/a cache'"), ("segment 32770", "ipcrm -m 32770")],
)
def test_what_stays_in_memory_is_named_with_its_removal(name: str, removal: str):
    """A file of a tmpfs and a shared segment."""
    left = trial("sh", left_bytes=200 * MIB, files=[LeftFile(name, 200 * MIB)])
    assert said(left).endswith(f": `{removal}` removes it")
    assert said(left).startswith("200 MiB stay in memory when it has ended (")
    assert "removes it before each trial" in said(left, repeats=True)
    assert said(trial("sh", left_bytes=4096, files=[])) == ""


def test_what_each_run_leaves_anew_is_removed_by_no_fixed_command():
    """A segment has another number in each run, so a ``--reset`` with one would not remove it."""
    names = ("segment 2", "segment 3")
    left = [trial("sh", left_bytes=60 * MIB, files=[LeftFile(name, 60 * MIB)]) for name in names]
    (words,) = unmeasured_parts(unmeasured(left), repeats=True)
    assert words.startswith("60 MiB stay in memory when it has ended (shared segment 2), and each")
    assert words.endswith("`ipcrm -m 2` removes it, `ipcs -m` lists all")


def test_a_segment_that_was_removed_needs_no_command():
    """It is said that it stayed; what else stayed is still to be removed."""
    gone = LeftFile("segment 2", 60 * MIB, removed=True)
    assert said(trial("sh", left_bytes=60 * MIB, files=[gone])) == (
        "60 MiB stay in memory when it has ended, in a shared segment that no other run can find: "
        "it was removed here"
    )
    both = trial("sh", left_bytes=61 * MIB, files=[gone, LeftFile("/dev/shm/a", MIB)])
    assert said(both).endswith("(/dev/shm/a): `rm -f /dev/shm/a` removes it")


@pytest.mark.parametrize(
    ("command", "seen", "words"),
    [
        (
            ("./docker", "run", "--rm", "image"),
            {"grown_bytes": 300 * MIB, "grown_cgroup": "/docker/1"},
            "the client docker only waits for work that is done elsewhere (the cgroup /docker/1 "
            "grew by 300 MiB meanwhile): run edgebench inside the container",
        ),
        (("ssh", "board", "./infer"), {}, "run edgebench on that machine"),
        (("sudo", "-n", "podman", "run", "x"), {}, "the client podman only waits"),
        (
            ("./submit",),
            {"grown_bytes": 90 * MIB, "grown_cgroup": "/jobs/7", "grown_is_new": True},
            "it only waits for work that is done elsewhere (the cgroup /jobs/7 grew by 90 MiB",
        ),
    ],
)
def test_a_client_has_no_need_of_its_own(
    command: tuple[str, ...], seen: dict[str, Any], words: str
):
    """By what grows beside it, whatever it is called; by its name alone where nothing shows."""
    record = trial(*command, **seen)
    assert words in said(record)
    assert unmeasured([record]).hides_need
    words = program_need_words("it", need_of(record), unmeasured([record]))
    assert words.startswith("it uses 512 KiB itself; ")


def test_growth_beside_a_program_may_be_chance():
    """A cgroup that was there before: only a hint, and none if one trial doesn't show it."""
    beside = {"grown_bytes": 90 * MIB, "grown_cgroup": "/system.slice"}
    hint = unmeasured([trial("./wait", **beside)])
    assert not hint.hides_need
    assert "if its work is done there" in said(trial("./wait", **beside))
    assert said(trial("./wait", **beside), trial("./wait", grown_bytes=0)) == ""
    busy = trial("./count", ends={"cpu_s": 0.9}, **beside, grown_is_new=True)
    assert said(busy) == ""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("docker run x", "docker"),
        ("/usr/bin/timeout 5 env A=1 kubectl exec pod", "kubectl"),
        ("ollama run llama", "ollama"),
        ("ollama serve", None),
        ("python3 docker.py", None),
        ("dockerd", None),
    ],
)
def test_known_clients(command: str, name: str | None):
    """Through wrappers too; a server with the same name is none."""
    assert client_name(command.split()) == name
    assert client_name(["sh", "-c", command]) == name


GROWS = GrowthReport(True, MIB, 500 * MIB, None, 60.0)


def test_a_program_that_is_stopped_while_it_grows_has_no_need():
    """By --for or by its time limit: its pace, and when a limit is reached."""
    for ends in ({"exit_code": None}, {"outcome": "timeout", "exit_code": None}):
        found = unmeasured([trial("server", growth=GROWS, ends=ends)])
        assert found.hides_need
        assert growth_words(found, 1100 * MIB) == (
            "still growing by 60 MiB/min after 1 min 00 s: no need can be told; 1.07 GiB is "
            "reached after about 11 minutes"
        )


def test_a_program_that_ends_while_it_grows_has_a_need():
    """What it needed is what it needs; a longer run needs more."""
    record = trial("train", growth=GROWS)
    assert not unmeasured([record]).hides_need
    assert said(trial("start", growth=structs.replace(GROWS, lasted_s=1.2))) == ""
    assert said(record) == (
        "still growing by 60 MiB/min when it ended after 1 min 00 s: a longer run needs more"
    )


def test_locked_memory_is_named():
    """What mlock holds is in RAM, whatever swap there is."""
    assert said(trial("rt", locked_bytes=200 * MIB)) == (
        "200 MiB are locked in memory (mlock), which no swap can hold"
    )


def test_records_of_networks_leave_nothing_open():
    """They have no such report."""
    plain = TrialRecord(
        *("0001", "p001", 0, 0, {"kind": "inference"}, LimitSetting(), "ok"), started_utc=""
    )
    assert not unmeasured([plain]).hides_need
    assert said(plain) == ""
