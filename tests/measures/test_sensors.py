"""Which sensors each board's files come to, and what is made of files that are odd."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sensor_trees import BOARDS, Tree

from edgebench.measures.machine.environment import capture
from edgebench.measures.machine.sensors.search import MOST_OF_A_KIND, find_sensors
from edgebench.measures.machine.sensors.sensor import (
    KINDS,
    MISSING,
    Sensor,
    SensorGoneError,
    SensorReader,
    Sensors,
)
from edgebench.measures.machine.system_files import SystemFiles

#: Board → columns of power and energy with their numbers, and what its energy is of.
POWER = {
    "jetson-nano": (
        {
            "ina3221x.POM_5V_IN_uw": 2_540_000,
            "ina3221x.POM_5V_GPU_uw": 40_000,
            "ina3221x.POM_5V_CPU_uw": 608_000,
        },
        "module",
    ),
    "jetson-orin-nano": (
        {
            "ina3221.VDD_IN_uw": 4984 * 1224,
            "ina3221.VDD_CPU_GPU_CV_uw": 4984 * 232,
            "ina3221.VDD_SOC_uw": 4984 * 392,
        },
        "module",
    ),
    "raspberry-pi-4": ({}, None),
    "raspberry-pi-5": ({}, None),
    "x86-rapl": (
        {
            "rapl.package-0_uj": 41267482910,
            "rapl.package-0.core_uj": 20180441112,
            "rapl.package-0.uncore_uj": 113200412,
            "rapl.package-0.dram_uj": 9120773040,
            "rapl.psys_uj": 98110299871,
        },
        "package + dram",
    ),
}
#: Board → columns of the other kinds with their numbers.
OTHERS = {
    "jetson-nano": {
        "zone.CPU-therm_mc": 36000,
        "cpu.policy0_hz": 1_479_000_000,
        "devfreq.57000000.gpu_hz": 921_600_000,
        "cooling.cpu-balanced_level": 0,
        "pwm-fan_pwm": 80,
    },
    "jetson-orin-nano": {
        "zone.tj-thermal_mc": 48781,
        "cpu.policy4_hz": 729_600_000,
        "soctherm_oc.oc3_events": 0,
        "cooling.hot-surface-alert_level": 0,
        "pwm_tach.fan1_rpm": 1620,
        "pwmfan.pwm1_pwm": 77,
    },
    "raspberry-pi-4": {
        "zone.cpu-thermal_mc": 48199,
        "cpu.policy0_hz": 1_500_000_000,
        "firmware.get_throttled_flags": 0x50000,
        "rpi_volt.in0_lcrit_level": 0,
    },
    "raspberry-pi-5": {
        "zone.cpu-thermal_mc": 52350,
        "cpu.policy0_hz": 2_400_000_000,
        "rpi_volt.in0_lcrit_level": 0,
        "pwmfan.fan1_rpm": 2874,
        "pwmfan.pwm1_pwm": 75,
    },
    "x86-rapl": {
        "zone.x86_pkg_temp_mc": 51000,
        "cpu.policy1_hz": 2_500_000_000,
        "cpu0.package_throttle_events": 5,
        "cpu1.core_throttle_events": 3,
        "cooling.Processor_level": 0,
    },
}


def numbers_of(found: Sensors) -> dict[str, int]:
    """Each column's number now."""
    told = {}
    for sensor in found.sensors:
        reader = SensorReader(sensor)
        told[sensor.column] = reader.read()
        reader.close()
    return told


def power_of(found: Sensors) -> dict[str, int]:
    """Those of power and energy."""
    return {k: v for k, v in numbers_of(found).items() if k.endswith(("_uw", "_uj"))}


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_s_power_is_found_in_its_own_layout(board: str, tmp_path: Path):
    """Every rail and counter in µW or µJ, and the domain that covers most of the board."""
    found = find_sensors(Tree(board, tmp_path).machine)
    wanted, domain = POWER[board]
    assert power_of(found) == wanted
    assert (found.domains[0].name if found.domains else None) == domain


@pytest.mark.parametrize("board", BOARDS)
def test_a_board_s_other_sensors_are_found(board: str, tmp_path: Path):
    """Temperatures, clocks, throttling and fans, with their numbers."""
    told = numbers_of(find_sensors(Tree(board, tmp_path).machine))
    assert {name: told.get(name) for name in OTHERS[board]} == OTHERS[board]


@pytest.mark.parametrize("board", BOARDS)
def test_what_a_board_lacks_has_a_reason(board: str, tmp_path: Path):
    """Each kind is either read or absent with a sentence; a Pi says why it tells no power."""
    found = find_sensors(Tree(board, tmp_path).machine)
    there = {sensor.quantity.name for sensor in found.sensors}
    assert all(found.absent[kind] for kind in set(KINDS) - there)
    if board.startswith("raspberry"):
        assert "RAPL" in found.absent["power"]
        assert "tells power" in found.absent["power"]


def test_a_machine_without_any_sensor_has_a_reason_for_each_kind(tmp_path: Path):
    """No kind is left out in silence, and nothing is found."""
    found = find_sensors(SystemFiles(tmp_path))
    assert found.sensors == found.domains == ()
    assert set(found.absent) == set(KINDS)
    assert "no battery" in found.absent["power"]


def test_this_machine_tells_or_says_why_not():
    """Whatever is here: each kind has sensors that answer, or a reason."""
    found = find_sensors()
    there = {sensor.quantity.name for sensor in found.sensors}
    assert there | set(found.absent) >= set(KINDS)
    assert all(value != MISSING for value in numbers_of(found).values())
    assert capture()["sensors"]["read"] == [sensor.name for sensor in found.sensors]


def test_a_zone_that_sleeps_is_absent_and_said(tmp_path: Path):
    """Orin's cv0 gives no number; the other zones are read, and the reason names it."""
    found = find_sensors(Tree("jetson-orin-nano", tmp_path).machine)
    assert "zone.cv0-thermal: it gives no number" in found.absent["temperature"]


def test_a_fixed_number_is_no_temperature(tmp_path: Path):
    """Jetson Nano's PMIC-Die tells 100 °C always, so it is left out."""
    names = [sensor.name for sensor in find_sensors(Tree("jetson-nano", tmp_path).machine).sensors]
    assert "zone.CPU-therm" in names
    assert "zone.PMIC-Die" not in names


def test_a_mouse_s_battery_is_not_the_machine_s(tmp_path: Path):
    """Only the machine's own battery counts, and only while it is discharged."""
    tree = Tree("x86-rapl", tmp_path)
    assert not any("battery" in sensor.name for sensor in find_sensors(tree.machine).sensors)
    tree.set("class/power_supply/BAT0/status", "Discharging")
    assert power_of(find_sensors(tree.machine))["battery.BAT0_uw"] == 12_340_000


def test_a_battery_may_tell_current_and_voltage(tmp_path: Path):
    """µA and µV come to µW."""
    tree = Tree("x86-rapl", tmp_path)
    tree.set("class/power_supply/BAT0/status", "Discharging")
    tree.path("class/power_supply/BAT0/power_now").unlink()
    tree.set("class/power_supply/BAT0/current_now", 1_500_000)
    tree.set("class/power_supply/BAT0/voltage_now", 12_000_000)
    assert power_of(find_sensors(tree.machine))["battery.BAT0_uw"] == 18_000_000


def test_a_usb_meter_covers_the_whole_board(tmp_path: Path):
    """A meter under hwmon goes before the board's own rails."""
    tree = Tree("jetson-orin-nano", tmp_path)
    for file, text in {"name": "powerz", "in0_input": 5010, "curr1_input": 1500}.items():
        tree.set(f"class/hwmon/hwmon9/{file}", text)
    tree.set("class/hwmon/hwmon9/in0_label", "V_BUS")
    found = find_sensors(tree.machine)
    assert [domain.name for domain in found.domains[:2]] == ["USB meter", "module"]
    assert power_of(found)["powerz.V_BUS_uw"] == 5010 * 1500


def test_a_chip_s_own_power_is_taken_before_voltage_times_current(tmp_path: Path):
    """A monitor with power1_input (µW) is read there, its mean is not read as well."""
    tree = Tree("raspberry-pi-4", tmp_path)
    texts = {"name": "ina226", "in1_input": 5000, "curr1_input": 900, "power1_input": 4_500_000}
    for file, text in {**texts, "power1_average": 4_400_000}.items():
        tree.set(f"class/hwmon/hwmon7/{file}", text)
    found = find_sensors(tree.machine)
    assert power_of(found) == {"ina226.power1_uw": 4_500_000}
    assert [domain.name for domain in found.domains] == ["ina226.power1"]


def test_rails_that_are_not_connected_are_left_out(tmp_path: Path):
    """A channel labelled NC, or switched off, is no rail."""
    tree = Tree("jetson-orin-nano", tmp_path)
    tree.set("class/hwmon/hwmon1/in2_label", "NC")
    tree.set("class/hwmon/hwmon1/in3_enable", 0)
    assert set(power_of(find_sensors(tree.machine))) == {"ina3221.VDD_IN_uw"}


def test_a_module_without_an_input_rail_is_the_sum_of_its_rails(tmp_path: Path):
    """AGX Orin: four rails on two chips together are the module."""
    tree = Tree("jetson-orin-nano", tmp_path)
    for channel, name in enumerate(("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"), start=1):
        tree.set(f"class/hwmon/hwmon1/in{channel}_label", name)
    second = {"name": "ina3221", "in2_label": "VDDQ_VDD2_1V8AO", "in2_input": 5000}
    for file, text in {**second, "curr2_input": 300}.items():
        tree.set(f"class/hwmon/hwmon8/{file}", text)
    domain = find_sensors(tree.machine).domains[0]
    assert domain.name == "module"
    assert len(domain.columns) == 4


def test_two_packages_are_one_domain(tmp_path: Path):
    """A server's packages and their memory are added up."""
    tree = Tree("x86-rapl", tmp_path)
    for zone, name in {"intel-rapl:2": "package-1", "intel-rapl:2:0": "dram"}.items():
        for file, text in {"name": name, "energy_uj": 10, "max_energy_range_uj": 999}.items():
            tree.set(f"class/powercap/{zone}/{file}", text)
    assert find_sensors(tree.machine).domains[0].columns == (
        *("rapl.package-0_uj", "rapl.package-1_uj"),
        *("rapl.package-0.dram_uj", "rapl.package-1.dram_uj"),
    )


@pytest.mark.root
def test_a_counter_that_only_root_can_read_says_so(tmp_path_factory: pytest.TempPathFactory):
    """As another user the reason names the file; nothing is read as 0."""
    folder = tmp_path_factory.mktemp("rapl")
    for path in (folder, *folder.parents[:3]):
        path.chmod(path.stat().st_mode | 0o055)
    tree = Tree("x86-rapl", folder)
    for file in tree.root.rglob("energy_uj"):
        file.chmod(0o400)
    os.seteuid(65534)
    try:
        found = find_sensors(tree.machine)
    finally:
        os.seteuid(0)
    assert not power_of(found)
    assert "only root can read" in found.absent["power"]
    assert "energy_uj" in found.absent["power"]


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
    from threading import Event

    tree, never, read = Tree("jetson-orin-nano", tmp_path), Event(), SensorReader.read

    def stuck(self: SensorReader) -> int:
        if self.sensor.name.endswith("VDD_SOC"):
            never.wait()
        return read(self)

    monkeypatch.setattr(SensorReader, "read", stuck)
    try:
        found = find_sensors(tree.machine)
    finally:
        never.set()
    assert "did not answer" in found.absent["power"]
    names = {sensor.name for sensor in found.sensors}
    assert "ina3221.VDD_IN" in names
    assert "ina3221.VDD_SOC" not in names


def test_of_hundreds_of_sensors_some_are_read(tmp_path: Path):
    """A server's zones don't all cost time: the rest is counted and said."""
    tree = Tree("x86-rapl", tmp_path)
    for number in range(2, 40):
        tree.set(f"class/thermal/thermal_zone{number}/type", "core")
        tree.set(f"class/thermal/thermal_zone{number}/temp", 40000)
    found = find_sensors(tree.machine)
    zones = [s.column for s in found.sensors if s.quantity.name == "temperature"]
    assert len(set(zones)) == len(zones) == MOST_OF_A_KIND
    assert "24 more are not read" in found.absent["temperature"]


def test_sensors_are_plain_values():
    """A sensor's column ends in the unit that is stored."""
    from edgebench.measures.machine.sensors.sensor import QUANTITIES

    for quantity in QUANTITIES:
        sensor = Sensor("name", quantity, (Path("/dev/null"),))
        assert sensor.column == f"name_{quantity.stored}"


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


def test_a_battery_s_current_may_be_negative(tmp_path: Path):
    """The kernel has it negative while a battery is used: power is its magnitude."""
    tree = Tree("x86-rapl", tmp_path)
    tree.set("class/power_supply/BAT0/status", "Discharging")
    tree.path("class/power_supply/BAT0/power_now").unlink()
    tree.set("class/power_supply/BAT0/current_now", -1_500_000)
    tree.set("class/power_supply/BAT0/voltage_now", 12_000_000)
    assert power_of(find_sensors(tree.machine))["battery.BAT0_uw"] == 18_000_000


def test_cores_without_clocks_or_counts_are_one_reason(tmp_path: Path):
    """A virtual machine's cores have neither: one sentence a kind, not one a core."""
    for cpu in range(4):
        (tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology").mkdir(parents=True)
    found = find_sensors(SystemFiles(tmp_path))
    assert "no cpufreq" in found.absent["clock"]
    assert found.absent["throttling"].startswith("the kernel counts no throttling")
