"""A fleet of three machines with real trials in real cgroups, whatever is killed or frozen."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from functools import partial

import psutil
import pytest

from tests.fleet.conftest import NAMES, Fleet, Gate, is_alive, once_each, wait_until

pytestmark = [pytest.mark.own_cgroup, pytest.mark.timeout(900)]


def test_each_machine_runs_the_whole_sweep_with_the_files_that_it_names(fleet: Fleet):
    (fleet.folder / "work.py").write_text("b = bytearray(20 << 20)\n")
    name = fleet.scenario("each", 1, [sys.executable, "-I", "-S", "work.py"])
    summary = json.loads(fleet.ask(name, "--json").stdout)
    assert [one["trials"] for one in summary["devices"]] == [3, 3, 3]
    for device in NAMES:
        lines = fleet.lines(device, "each")
        assert once_each(lines, 3)
        assert {line["outcome"] for line in lines} == {"ok"}
        assert lines[0]["settings"]["command"][-1] == "work.py"
        (folder,) = fleet.folder.glob(f"results/{device}/*-each-*")
        assert (folder / "complete.json").exists()
        assert len(list(folder.glob("samples/*.npz"))) == 3
    (stored,) = fleet.machines.glob("one/cache/fleet/content/*/work.py")
    before = stored.stat().st_mtime_ns
    fleet.ask(name, "--host", "one")
    assert stored.stat().st_mtime_ns == before


def test_a_controller_that_ends_leaves_nothing_and_goes_on(fleet: Fleet, gate: Gate):
    name, log = fleet.scenario("resumed", 3, gate.command), fleet.folder / "controller.log"
    for number, code in ((signal.SIGHUP, 129), (signal.SIGKILL, -9)):
        running = fleet.start(name)
        gate.let_through(4)
        wait_until(partial(has_recorded, fleet, 4 if number == signal.SIGHUP else 8))
        wait_until(lambda: all(fleet.is_making(device, gate) for device in NAMES))
        machines = [fleet.pid(device) for device in NAMES]
        running.send_signal(number)
        assert running.wait(240) == code
        wait_until(lambda own=machines: not any(map(is_alive, own)))
        assert "Traceback" not in log.read_text()
    assert log.read_text().count("edgebench: interrupted; all finished trials are kept") == 1
    before = {device: fleet.lines(device, "resumed") for device in NAMES}
    gate.let_through()
    fleet.ask(name)
    for device in NAMES:
        lines = fleet.lines(device, "resumed")
        assert once_each(lines, 9)
        assert lines[: len(before[device])] == before[device]


def has_recorded(fleet: Fleet, count: int) -> bool:
    return sum(len(fleet.lines(one, "resumed")) for one in NAMES) == count


def test_a_second_controller_waits_for_the_first(fleet: Fleet, gate: Gate):
    """Two trials at once on a machine would disturb each other; it says what it waits for."""
    first = fleet.start(fleet.scenario("first", 1, gate.command), "--host", "one")
    wait_until(lambda: fleet.is_making("one", gate))
    second = fleet.start(fleet.scenario("second", 1), "--host", "one")
    log = fleet.folder / "controller.log"
    wait_until(lambda: "one: another fleet run makes trials there" in log.read_text())
    assert fleet.lines("one", "second") == []
    gate.let_through()
    assert [first.wait(240), second.wait(240)] == [0, 0]
    assert once_each(fleet.lines("one", "second"), 3)


def test_a_killed_and_a_frozen_machine_make_their_trials_again(fleet: Fleet, gate: Gate):
    fleet.lost_after = "10s"
    fleet.write()
    running, log = fleet.start(fleet.scenario("lost", 2, gate.command)), "controller.log"
    wait_until(lambda: all(fleet.is_making(name, gate) for name in NAMES))
    killed, frozen = fleet.pid("one"), fleet.pid("two")
    os.kill(killed, signal.SIGKILL)
    os.kill(frozen, signal.SIGSTOP)
    for name, before in (("one", killed), ("two", frozen)):
        wait_until(lambda n=name, b=before: fleet.pid(n) != b and fleet.is_making(n, gate))
    gate.let_through()
    assert running.wait(300) == 0, (fleet.folder / log).read_text()
    for name in NAMES:
        lines = fleet.lines(name, "lost")
        assert once_each(lines, 6)
        assert {line["outcome"] for line in lines} == {"ok"}
    assert "one: lost: " in (fleet.folder / log).read_text()


def test_a_machine_whose_controller_is_silent_ends_its_trial(fleet: Fleet, gate: Gate):
    fleet.lost_after = "8s"
    fleet.write()
    running = fleet.start(fleet.scenario("silent", 1, gate.command), "--host", "one")
    wait_until(lambda: fleet.is_making("one", gate))
    own = [fleet.pid("one"), *(one.pid for one in psutil.Process(fleet.pid("one")).children(True))]
    running.send_signal(signal.SIGSTOP)
    wait_until(lambda: not any(map(is_alive, own)))
    running.send_signal(signal.SIGCONT)
    gate.let_through()
    assert running.wait(240) == 0
    assert once_each(fleet.lines("one", "silent"), 3)


@pytest.mark.root
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare (util-linux)")
def test_machines_that_take_no_part_are_named_with_the_fix(fleet: Fleet):
    bare = f'umount -R -l /sys/fs/cgroup; exec {sys.executable} "$@"'
    fleet.add("bare", f"unshare --mount sh -c '{bare}' sh")
    fleet.add("empty", f"env -u PYTHONPATH {sys.executable} -S")
    fleet.add("none", "/nowhere/python")
    fleet.add("far")
    name = fleet.scenario("lacking", 1)
    said = fleet.ask(name, code=3)
    problems = said.left_out
    assert once_each(fleet.lines("one", "lacking"), 3)
    assert set(problems) == {"bare", "empty", "none", "far"}
    assert problems["bare"].startswith("no cgroups are mounted; ")
    assert "mount -t cgroup2" in problems["bare"]
    assert "No module named 'edgebench'; install edgebench there" in problems["empty"]
    assert "/nowhere/python: not found; install edgebench there" in problems["none"]
    assert "Connection refused; try it by hand: ssh far true" in problems["far"]
    assert "not complete: bare, empty, far, none" in said.stderr
    fleet.ask(name, "--host", "far", code=1)
