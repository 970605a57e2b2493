"""Which sensors each board's files come to, and what of a machine's is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from sensor_trees import BOARDS, Tree, numbers_of, power_of

from edgebench.measures.machine.environment import capture
from edgebench.measures.machine.sensors.places import MOST_OF_A_KIND, find_sensors
from edgebench.measures.machine.sensors.sensor import KINDS, MISSING, Sensor
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


@pytest.mark.process
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


def test_cores_without_clocks_or_counts_are_one_reason(tmp_path: Path):
    """A virtual machine's cores have neither: one sentence a kind, not one a core."""
    for cpu in range(4):
        (tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology").mkdir(parents=True)
    found = find_sensors(SystemFiles(tmp_path))
    assert "no cpufreq" in found.absent["clock"]
    assert found.absent["throttling"].startswith("the kernel counts no throttling")
