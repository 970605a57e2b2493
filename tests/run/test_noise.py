from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from edgebench.answers.trials import warned, warning_lines
from edgebench.measures.machine import noise
from edgebench.measures.machine.noise import (
    NoiseWatch,
    noise_doubts,
    repeats_wanted,
    spread_doubts,
)

if TYPE_CHECKING:
    from tests.run.conftest import PlainMachine

#: Trip points of a zone: number, type and m°C; from "active" on only a fan turns.
_TRIPS = ((0, "active", "50000"), (1, "passive", "85000"), (2, "critical", "110000"))
TICKS = os.sysconf("SC_CLK_TCK")


def stat(user: int = 0, idle: int = 0, steal: int = 0) -> str:
    """A /proc/stat with these seconds in its first line."""
    fields = [user, 0, 0, idle, 0, 0, 0, steal, 0, 0]
    return "cpu  " + " ".join(str(seconds * TICKS) for seconds in fields) + "\ncpu0 ...\n"


def test_foreign_work_and_steal_are_shares_of_all_cores(plain_machine: PlainMachine):
    """Of 10 s of core time, 4 s busy of which the trial had 1 s: 30 % foreign; 2 s stolen: 20 %."""
    watch = NoiseWatch(plain_machine({"proc/stat": stat()}))
    watch.start()
    plain_machine({"proc/stat": stat(user=4, idle=4, steal=2)})
    noise = watch.stop(1.0)
    assert noise["foreign_cpu_share"] == pytest.approx(0.3, abs=0.01)
    assert noise["steal_share"] == pytest.approx(0.2)


def test_without_the_trials_cpu_nothing_is_called_foreign(plain_machine: PlainMachine):
    """Where the kernel doesn't count the trial's CPU, the foreign share is None, not a guess."""
    watch = NoiseWatch(plain_machine({"proc/stat": stat()}))
    watch.start()
    plain_machine({"proc/stat": stat(user=4, idle=4)})
    assert watch.stop(None)["foreign_cpu_share"] is None


def test_throttling_and_heat_are_seen(plain_machine: PlainMachine):
    zone = "sys/class/thermal/thermal_zone0"
    count = "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count"
    files = {"proc/stat": stat(), f"{zone}/type": "x", f"{zone}/temp": "80000", count: "5"}
    watch = NoiseWatch(plain_machine(files))
    watch.start()
    plain_machine({f"{zone}/temp": "70000", count: "7"})
    noise = watch.stop(0.0)
    assert noise["throttled_events"] == 2
    assert noise["temperature_max_c"] == 80.0
    (doubt,) = (one for one in noise_doubts(noise) if one.kind == "throttled_cpu")
    assert doubt.numbers == {"events": 2}


def test_what_shows_only_for_a_while_is_seen(
    plain_machine: PlainMachine, monkeypatch: pytest.MonkeyPatch
):
    """A cooling device at work, a hot zone and a lower cap between start and stop, each a doubt."""
    monkeypatch.setattr(noise, "_LOOK_EACH_S", 0.0)
    zone, cooling = "sys/class/thermal/thermal_zone0", "sys/class/thermal/cooling_device0"
    fan, cap = "sys/class/thermal/cooling_device1", "sys/devices/system/cpu/cpufreq/policy0"
    calm = {
        f"{zone}/temp": "61000",
        f"{cooling}/cur_state": "0",
        f"{cap}/scaling_max_freq": "1800000",
    }
    fixed = {
        f"{zone}/trip_point_{n}_{key}": text
        for n, kind, at in _TRIPS
        for key, text in (("type", kind), ("temp", at))
    }
    names = {f"{cooling}/type": "cpufreq-cpu0", f"{fan}/type": "pwm-fan", f"{fan}/cur_state": "3"}
    watch = NoiseWatch(plain_machine({"proc/stat": stat(), **calm, **fixed, **names}))
    watch.start()
    plain_machine(
        {f"{zone}/temp": "86000", f"{cooling}/cur_state": "2", f"{cap}/scaling_max_freq": "1200000"}
    )
    watch.look()
    plain_machine(calm)
    doubts = {one.kind: one for one in noise_doubts(watch.stop(0.0))}
    assert doubts["slowed_down"].names == ["temperature (cpufreq-cpu0)"]
    assert doubts["hot"].numbers == {"hot_c": 86.0, "trip_c": 85.0}
    assert doubts["clock_capped"].numbers == {"low_ghz": 1.2, "high_ghz": 1.8}


@pytest.mark.parametrize(
    ("before", "after", "causes"),
    [
        ("0", "0", []),
        ("50000", "50000", []),
        ("0", "10000", ["under-voltage"]),
        ("50005", "50005", ["under-voltage", "the firmware throttles"]),
    ],
)
def test_the_flags_of_a_raspberry_pi_are_causes(
    plain_machine: PlainMachine, before: str, after: str, causes: list[str]
):
    """What is so now, and what was since boot and was not yet at the start; old flags are none."""
    file = "sys/devices/platform/soc/soc:firmware/get_throttled"
    watch = NoiseWatch(plain_machine({"proc/stat": stat(), file: before}))
    watch.start()
    plain_machine({file: after})
    noise = watch.stop(0.0)
    assert noise["throttled_by"] == causes
    assert noise["throttled_events"] is None


def test_a_quiet_or_silent_machine_gives_no_warning():
    quiet = {"steal_share": 0.0, "foreign_cpu_share": 0.5, "foreign_cpu_s": 0.02}
    silent = {"steal_share": None, "foreign_cpu_share": None, "throttled_events": None}
    damaged = {"throttled_by": 5, "hot_c": "x", "trip_c": 1, "cap_low_hz": None}
    for read in (quiet, silent, damaged, {}):
        assert noise_doubts(read) == []


def test_spread_repeats_say_how_many_more_would_do():
    """Three repeats with a stdev of 15 % of the mean ask for nine more: 2.2 · 0.15 / √12 < 0.1."""
    values = [0.85, 1.0, 1.15]
    assert repeats_wanted(values) == 12
    (doubt,) = spread_doubts(values)
    assert doubt.numbers["more"] == 9
    assert warning_lines(warned([doubt]))[0].startswith("repeats differ by up to 15 %:")
    # Where hundreds would be needed, more of them are no answer.
    assert spread_doubts([1.0, 1.0, 1.0, 8.0])[0].kind == "spread_wide"
