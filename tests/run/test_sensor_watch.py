"""Sensors read while trials run: real trials beside a board's files, which change meanwhile."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sensor_trees import Tree, be_patient

from edgebench.cgroups.leftovers import Ownership
from edgebench.cgroups.parent import find_parent
from edgebench.measures.machine.noise import trial_doubts
from edgebench.measures.machine.sensors.places import find_sensors
from edgebench.measures.machine.sensors.sensor import FAN, Sensor, SensorReader, Sensors
from edgebench.records import LimitSetting, TrialRecord
from edgebench.results.layer_frames import sample_table
from edgebench.run import sensor_watch
from edgebench.run.sensor_watch import SensorBank, SensorWatch
from edgebench.run.session import Session, open_session
from edgebench.run.trial import TrialFiles, run_trial
from edgebench.run.trial_record import TrialRequest
from edgebench.words.doubts import doubt_sentences

RAPL = "class/powercap/intel-rapl:0/energy_uj"
DRAM = "class/powercap/intel-rapl:0:2/energy_uj"
ORIN = "class/hwmon/hwmon1/curr1_input"
START_UJ = 41267482910


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sensor is given up because the machine is busy."""
    be_patient(monkeypatch)


def bank_of(tree: Tree) -> SensorBank:
    """The tree's sensors, read often so that a test is short."""
    return SensorBank(find_sensors(tree.machine), interval_s=0.01)


@contextmanager
def changing(change: Callable[[int], object]) -> Iterator[None]:
    """Calls it again and again with a count, from another thread, as a driver would."""
    ended = threading.Event()

    def go_on() -> None:
        count = 0
        while not ended.wait(0.005):
            count += 1
            change(count)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_what_a_counter_did_is_in_the_readings(tmp_path: Path):
    """The first and the last reading are those at the begin and the end."""
    tree = Tree("x86-rapl", tmp_path)
    with SensorWatch(bank_of(tree)) as watch:
        tree.set(RAPL, START_UJ + 2_500_000)
    seen = watch.readings
    assert seen is not None
    package = next(s for s in seen.sensors if s.name == "rapl.package-0")
    values = seen.series(package).values
    assert values[-1] - values[0] == 2_500_000
    assert seen.cpu_s is not None
    assert seen.cpu_s > 0
    assert not seen.lost


def test_without_a_bank_nothing_is_read():
    """Sensors that are turned off cost nothing and leave no table."""
    with SensorWatch(None) as watch:
        pass
    assert watch.readings is None
    assert watch.tables() == {}


def test_a_machine_without_sensors_starts_no_thread():
    """Nothing to read: the reasons are kept, and no thread ran."""
    bank = SensorBank(Sensors(absent={"power": "none"}))
    with SensorWatch(bank) as watch:
        assert "sensors" not in {thread.name for thread in threading.enumerate()}
    assert watch.readings is not None
    assert watch.readings.absent == {"power": "none"}
    assert watch.readings.count == 0


@pytest.mark.own_cgroup
def test_a_sensor_that_vanishes_is_said_and_the_others_go_on():
    """A real file of the kernel's whose device goes away: the readings before it stay."""
    with Ownership() as ownership:
        cgroup = find_parent(ownership).create(f"{os.getpid()}-sensors-gone")
        try:
            names = ("pids.current", "notify_on_release", "cgroup.freeze")
            file = next(path for name in names if (path := cgroup.path / name).exists())
            sensor = Sensor("gone", FAN, (file,))
            with SensorWatch(SensorBank(Sensors((sensor,)), interval_s=0.01)) as watch:
                cgroup.remove()
        finally:
            cgroup.remove()
    assert watch.readings is not None
    assert "gone" in watch.readings.lost
    assert watch.readings.count >= 2


def test_a_sensor_that_blocks_ends_with_its_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The trial waits a moment, keeps what was read, and never asks that sensor again."""
    tree, never = Tree("jetson-orin-nano", tmp_path), threading.Event()
    bank, read, turns = bank_of(tree), SensorReader.read, []

    def stuck(self: SensorReader) -> int:
        if self.sensor.name == "ina3221.VDD_SOC":
            turns.append(1)
            if len(turns) > 3:
                never.wait()
        return read(self)

    monkeypatch.setattr(SensorReader, "read", stuck)
    try:
        with monkeypatch.context() as hurried, SensorWatch(bank) as watch:
            # However long, it does not answer.
            hurried.setattr(sensor_watch, "_LAST_PATIENCE_S", 0.1)
            while len(turns) <= 3:
                time.sleep(0.01)
        assert watch.readings is not None
        assert "did not answer" in watch.readings.lost["ina3221.VDD_SOC"]
        assert watch.readings.cpu_s is None
        # A reading that took long has pauses after it, in rows without it.
        assert watch.readings.count >= 3
        with SensorWatch(bank) as again:
            pass
        assert again.readings is not None
        assert "ina3221.VDD_SOC" not in {s.name for s in again.readings.sensors}
        assert again.readings.cpu_s is not None
        assert "did not answer" in again.readings.lost["ina3221.VDD_SOC"]
    finally:
        never.set()


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """The real setup, without this machine's sensors."""
    with open_session() as session:
        yield session


def trial(
    session: Session,
    tree: Tree,
    files: TrialFiles,
    seconds: float = 0.3,
    began: Path | None = None,
) -> TrialRecord:
    """A trial of a program that sleeps, beside the tree's sensors; it makes the file ``began``."""
    setup = replace(session.setup, sensors=bank_of(tree))
    code = f"import time; time.sleep({seconds})"
    if began is not None:
        code = f"open({str(began)!r}, 'w').close(); {code}"
    settings = {"kind": "command", "command": [sys.executable, "-I", "-S", "-c", code]}
    return run_trial(setup, TrialRequest("0001", "p", 0, 0, settings, LimitSetting()), files)


@pytest.mark.own_cgroup
def test_a_trial_s_energy_is_what_its_counter_rose_by(session: Session, tmp_path: Path):
    """Package and DRAM rise beside each other: their sum is the trial's, within its error."""
    tree, files = Tree("x86-rapl", tmp_path / "tree"), TrialFiles.scratch(tmp_path)
    rises: list[tuple[int, int]] = []

    def rise(count: int) -> None:
        tree.set(RAPL, START_UJ + count * 20_000)
        tree.set(DRAM, 9120773040 + count * 5_000)
        rises.append((time.monotonic_ns(), count * 25_000))

    with changing(rise):
        record = trial(session, tree, files)
    assert record.outcome == "ok"
    assert record.energy_domain == "package + dram"
    assert record.energy is not None
    assert record.energy.j is not None
    assert record.energy.error_j is not None
    assert 0 < record.energy.j < rises[-1][1] / 1e6
    table = sample_table(files.samples, "sensors", -(2**63))
    assert {"rapl.package-0_uj", "rapl.package-0.dram_uj"} <= set(table.columns)
    # The true rise between the readings next to the trial's ends bounds what it can be.
    assert record.sensors is not None
    assert record.sensors.readings == len(table)
    total = (table["rapl.package-0_uj"] + table["rapl.package-0.dram_uj"]).iloc[[0, -1]]
    assert record.energy.j - record.energy.error_j <= (total.iloc[1] - total.iloc[0]) / 1e6
    assert {one["domain"] for one in record.energy.domains} >= {"package + dram", "platform"}
    assert TrialRecord.from_json(record.to_json()) == record


@pytest.mark.own_cgroup
def test_a_rail_s_power_becomes_energy(session: Session, tmp_path: Path):
    """Constant power of VDD_IN times the trial's time; nothing is added by other rails."""
    tree = Tree("jetson-orin-nano", tmp_path / "tree")
    record = trial(session, tree, TrialFiles.scratch(tmp_path))
    assert record.energy_domain == "module"
    assert record.energy is not None
    assert record.wall_s is not None
    assert record.energy.j == pytest.approx(4984 * 1224 / 1e6 * record.wall_s, rel=1e-6)
    assert record.energy.error_j == pytest.approx(0)
    assert record.sensors is not None
    assert record.sensors.temperature_max_c == pytest.approx(48.781)
    assert record.sensors.clock_least_hz == 729_600_000
    assert not [one for one in trial_doubts(record) if one.kind.startswith("throttle")]


@pytest.mark.own_cgroup
def test_causes_of_throttling_are_in_the_record_and_warn(session: Session, tmp_path: Path):
    """A Pi's bits and alarm, named by their cause with how long; once a cause."""
    tree = Tree("raspberry-pi-4", tmp_path / "tree")
    tree.set("devices/platform/soc/soc:firmware/get_throttled", "50005")
    tree.set("class/hwmon/hwmon1/in0_lcrit_alarm", 1)
    record = trial(session, tree, TrialFiles.scratch(tmp_path))
    assert record.energy is None
    assert "no battery" in record.missing["energy"]
    assert record.sensors is not None
    assert set(record.sensors.throttled_s) == {"under-voltage", "the firmware throttles"}
    assert all(seconds > 0 for seconds in record.sensors.throttled_s.values())
    causes = [one.names for one in trial_doubts(record) if one.kind == "throttled_for"]
    assert causes.count(["under-voltage"]) == 1


@pytest.mark.own_cgroup
def test_throttling_too_short_to_time_is_still_said(session: Session, tmp_path: Path):
    """A bit of what happened since the last reading is enough."""
    tree = Tree("raspberry-pi-4", tmp_path / "tree")
    file = "devices/platform/soc/soc:firmware/get_throttled"
    tree.set(file, "0")
    began = tmp_path / "began"
    with changing(lambda _: tree.set(file, "80000" if began.exists() else "0")):
        record = trial(session, tree, TrialFiles.scratch(tmp_path), 0.6, began)
    assert record.sensors is not None
    assert record.sensors.throttled_s == {"the firmware's soft limit of temperature": 0.0}
    assert any("briefly" in words for words in doubt_sentences(trial_doubts(record)))


@pytest.mark.own_cgroup
def test_events_of_throttling_are_counted(session: Session, tmp_path: Path):
    """Only what is counted during the trial: Orin's over-current, x86's temperature."""
    tree = Tree("jetson-orin-nano", tmp_path / "orin")
    file = "class/hwmon/hwmon3/oc3_event_cnt"
    tree.set(file, 100)
    began = tmp_path / "began"
    with changing(lambda _: tree.set(file, 107 if began.exists() else 100)):
        record = trial(session, tree, TrialFiles.scratch(tmp_path), began=began)
    assert record.sensors is not None
    assert record.sensors.throttle_events == {"over-current": 7}
    quiet = trial(session, Tree("x86-rapl", tmp_path / "x86"), TrialFiles.scratch(tmp_path))
    assert quiet.sensors is not None
    assert quiet.sensors.throttle_events == {}


@pytest.mark.own_cgroup
def test_a_trial_of_which_sensors_were_not_read_says_so(session: Session, tmp_path: Path):
    """No bank: no table, no energy, and the reason."""
    files = TrialFiles.scratch(tmp_path)
    settings = {"kind": "command", "command": ["true"]}
    request = TrialRequest("0001", "p", 0, 0, settings, LimitSetting())
    record = run_trial(session.setup, request, files)
    assert record.sensors is None
    assert record.energy is None
    assert record.missing["energy"] == "the sensors were not read"
