"""What is made of odd files: of their names, their content, and of those that don't answer."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from sensor_trees import Tree, numbers_of, power_of

from edgebench.measures.machine.sensors.places import find_sensors
from edgebench.measures.machine.sensors.sensor import MISSING, SensorGoneError, SensorReader


@pytest.mark.parametrize(
    "label", ["../../../etc/passwd", "/etc/passwd", "a b\nc", "\x1b[2J", "..", "", "x" * 300]
)
def test_a_label_never_becomes_a_path(label: str, tmp_path: Path):
    """Whatever a rail is called, its name is plain and short, and the same file is read."""
    tree = Tree("jetson-orin-nano", tmp_path)
    tree.set("class/hwmon/hwmon1/in1_label", label)
    tree.set("class/hwmon/hwmon1/name", "ina3221")
    found = find_sensors(tree.machine)
    [name] = [s.name for s in found.sensors if s.files[0].name == "in1_input"]
    assert name.isascii()
    assert name.isprintable()
    assert not set(name) & {"/", " ", "\n"}
    assert len(name) < 60
    assert all(file.is_relative_to(tree.root) for s in found.sensors for file in s.files)


@pytest.mark.parametrize("name", ["hwmon1x", "hwmon", "hwmon1;rm"])
def test_a_folder_with_an_odd_name_is_passed_over(name: str, tmp_path: Path):
    """Names of folders have the kernel's shape, or nothing below them is opened."""
    tree = Tree("raspberry-pi-4", tmp_path)
    tree.set(f"class/hwmon/{name}/name", "ina226")
    tree.set(f"class/hwmon/{name}/power1_input", 1)
    assert not power_of(find_sensors(tree.machine))


def test_a_link_or_a_pipe_in_place_of_a_file_is_not_opened(tmp_path: Path):
    """A link leads elsewhere and a pipe would block: both are absent with a reason."""
    tree = Tree("jetson-orin-nano", tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("5000\n")
    linked, piped = (tree.path(f"class/hwmon/hwmon1/in{n}_input") for n in (1, 2))
    for path in (linked, piped):
        path.unlink()
    linked.symlink_to(secret)
    os.mkfifo(piped)
    found = find_sensors(tree.machine)
    assert set(power_of(found)) == {"ina3221.VDD_SOC_uw"}
    assert "VDD_IN" in found.absent["power"]


@pytest.mark.parametrize("text", ["", "abc", "1.5", "0x10", "1" * 40, "nan", "1e9", "²", "5 6"])
def test_what_is_no_whole_number_is_missing(text: str, tmp_path: Path):
    """A file with anything else gives no number, never a guess."""
    tree = Tree("x86-rapl", tmp_path)
    reader = SensorReader(find_sensors(tree.machine).sensors[0])
    tree.set("class/powercap/intel-rapl:0/energy_uj", text)
    assert reader.read() == MISSING
    tree.set("class/powercap/intel-rapl:0/energy_uj", 7_000_000_000_0)
    assert reader.read() != MISSING
    reader.close()


def test_a_counter_that_begins_again_goes_on(tmp_path: Path):
    """RAPL's wrap-around: after the highest number comes 0, and the difference stays right."""
    tree = Tree("x86-rapl", tmp_path)
    file, most = "class/powercap/intel-rapl:0/energy_uj", 262143328850
    reader = SensorReader(find_sensors(tree.machine).sensors[0])
    tree.set(file, most - 1_000_000)
    before = reader.read()
    tree.set(file, 2_000_000)
    assert reader.read() - before == 3_000_001
    tree.set(file, 1_000_000)
    assert reader.read() - before == 2_000_001 + most + 1
    reader.close()


def test_a_counter_without_a_range_that_goes_back_is_given_up(tmp_path: Path):
    """Nobody knows how far it went before: it is not read on."""
    tree = Tree("x86-rapl", tmp_path)
    tree.set("class/powercap/intel-rapl:0/max_energy_range_uj", 0)
    reader = SensorReader(find_sensors(tree.machine).sensors[0])
    reader.read()
    tree.set("class/powercap/intel-rapl:0/energy_uj", 1)
    with pytest.raises(SensorGoneError, match="went back"):
        reader.read()
    reader.close()


def test_a_driver_that_never_answers_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One rail blocks: it is absent with the reason, its neighbours are found."""
    tree, never, read = Tree("jetson-orin-nano", tmp_path), threading.Event(), SensorReader.read
    blocked = set[threading.Thread]()

    class Thread(threading.Thread):
        """No time passes: a blocked one is given up at once, others are waited for."""

        def join(self, timeout: float | None = None) -> None:
            while self.is_alive() and self not in blocked:
                super().join(0.001)

    def read_or_block(self: SensorReader) -> int:
        if self.sensor.name.endswith("VDD_SOC"):
            blocked.add(threading.current_thread())
            never.wait()
        return read(self)

    monkeypatch.setattr(SensorReader, "read", read_or_block)
    monkeypatch.setattr(threading, "Thread", Thread)
    try:
        found = find_sensors(tree.machine)
    finally:
        never.set()
    assert "did not answer" in found.absent["power"]
    names = {sensor.name for sensor in found.sensors}
    assert "ina3221.VDD_IN" in names
    assert "ina3221.VDD_SOC" not in names


@pytest.mark.process
@pytest.mark.parametrize(("answer", "word"), [("throttled=0x50005", 0x50005), ("error", MISSING)])
def test_a_pi_5_s_flags_come_from_its_program(answer: str, word: int, tmp_path: Path):
    """Where the kernel has no file of them, vcgencmd is asked; what is no number is missing."""
    tree = Tree("raspberry-pi-5", tmp_path)
    program = tree.root / "usr" / "bin" / "vcgencmd"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho {answer}\n")
    program.chmod(0o755)
    found = find_sensors(tree.machine)
    told = numbers_of(found)
    if word == MISSING:
        assert "vcgencmd.get_throttled: it gives no number" in found.absent["throttling"]
    else:
        assert told["vcgencmd.get_throttled_flags"] == word


@pytest.mark.process
def test_a_program_that_can_t_be_run_is_absent(tmp_path: Path):
    """No right to run it: the reason is named, the other causes are still read."""
    tree = Tree("raspberry-pi-5", tmp_path)
    program = tree.root / "usr" / "bin" / "vcgencmd"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o644)
    found = find_sensors(tree.machine)
    assert "its program did not tell it" in found.absent["throttling"]
    assert "rpi_volt.in0_lcrit_level" in numbers_of(found)
