"""Power: rails, meters, batteries and counters in µW and µJ, and which of them are the board's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sensor_trees import Tree, power_of

from edgebench.measures.machine.sensors.places import find_sensors


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


def test_a_battery_s_current_may_be_negative(tmp_path: Path):
    """The kernel has it negative while a battery is used: power is its magnitude."""
    tree = Tree("x86-rapl", tmp_path)
    tree.set("class/power_supply/BAT0/status", "Discharging")
    tree.path("class/power_supply/BAT0/power_now").unlink()
    tree.set("class/power_supply/BAT0/current_now", -1_500_000)
    tree.set("class/power_supply/BAT0/voltage_now", 12_000_000)
    assert power_of(find_sensors(tree.machine))["battery.BAT0_uw"] == 18_000_000
