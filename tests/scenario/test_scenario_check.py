"""The verb check, what it foresees of this machine, and the scenarios that are shipped."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from scenario_making import COMMAND, INFERENCE, load_text, with_key

from edgebench.cli.run import run
from edgebench.errors import ScenarioError, UsageError
from edgebench.installation import SHIPPED
from edgebench.scenario.new_scenario import with_storage
from edgebench.scenario.preview import MachineCapacity, preview
from edgebench.scenario.scenario import load_scenario

BOARD = MachineCapacity(
    ram_bytes=4 << 30,
    cores=4,
    root=True,
    system_swap=False,
    free_bytes=8 << 30,
    free_ram_bytes=3 << 30,
)
NAMES = sorted(file.stem for file in SHIPPED.glob("*.toml"))


def warned(folder: Path, text: str, **changes: object) -> list[str]:
    return preview(load_text(folder, text), dataclasses.replace(BOARD, **changes)).warnings


@pytest.mark.parametrize(
    ("line", "changes", "says"),
    [
        ('memory = ["1G", "64G"]', {}, "limit 64G has no effect: this machine has 4.00 GiB"),
        ('memory = ["1G"]', {"ram_bytes": 1 << 29}, "limit 1G has no effect"),
        ("cores = 8", {}, "cores = 8: this machine has only 4"),
        ("cpu_quota = 4", {}, "cpu_quota = 4 has no effect: this machine has 4"),
        ('swap = "1G"', {"root": False}, "swap of kind file needs root"),
        ('swap = {kind = "zram", size = "1G"}', {"root": False}, "swap of kind zram needs root"),
        ('swap = "system"', {}, "no swap on"),
        ('swap = "9G"', {}, "won't fit: 8.00 GiB are free"),
        ('swap = "4G"\nstorage = "disk=ram"', {}, "won't fit: 3.00 GiB are free in memory"),
        (
            'swap = "system"\nstorage = "disk=ram"',
            {"system_swap": True},
            'write "2G", or leave disk=ram out',
        ),
        (
            'memory_high = ["80%", "200M"]',
            {"cgroup_version": 1},
            "memory_high needs cgroup version 2: the memory controller is on version 1 here, which "
            "has no such limit: leave it out, or boot with version 2",
        ),
    ],
)
def test_what_cannot_bite_here_is_a_warning(
    tmp_path: Path, line: str, changes: dict[str, object], says: str
) -> None:
    (warning,) = warned(tmp_path, with_key(COMMAND, "limits", line), **changes)
    assert says in warning


def test_what_fits_is_not_warned_of(tmp_path: Path) -> None:
    lines = (
        "cores = 4",
        "cpu_quota = 3.5",
        'swap = "8G"',
        'memory = ["4G"]',
        'memory_high = "80%"',
    )
    for line in lines:
        assert warned(tmp_path, with_key(COMMAND, "limits", line), cgroup_version=2) == []
    text = with_key(COMMAND, "limits", 'swap = "system"')
    assert warned(tmp_path, text, system_swap=True, root=False) == []


def test_a_module_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("raise SystemExit('it ran')\n")
    there, gone = (
        with_key(INFERENCE, "workload", f'network = "{name}.models:Net"')
        for name in ("mine", "gone")
    )
    assert not [words for words in warned(tmp_path, there) if "no module" in words]
    words = next(words for words in warned(tmp_path, gone) if "no module" in words)
    assert words.startswith(f"no module 'gone' is found from {tmp_path}")


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    missing = with_key(COMMAND, "workload", 'command = ["no-such-program-x"]')
    assert "no command 'no-such-program-x'" in warned(tmp_path, missing)[0]
    program = tmp_path / "bin" / "mine"
    program.parent.mkdir()
    shutil.copy(shutil.which("true") or "/bin/true", program)
    relative = with_key(COMMAND, "workload", 'command = ["./mine"]')
    assert warned(tmp_path, with_key(relative, "workload", 'cwd = "bin"')) == []
    named = with_key(COMMAND, "workload", 'command = ["mine"]')
    line = f'env = {{PATH = "{program.parent}"}}'
    assert warned(tmp_path, with_key(named, "workload", line)) == []


def test_a_strategy_that_is_not_installed_is_foreseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what to install; the sweep would go on without it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    warning = warned(tmp_path, with_key(COMMAND, "memory", 'strategies = ["massif"]'))[-1]
    assert "strategy massif will be left out" in warning
    assert "apt-get install valgrind" in warning


@pytest.mark.process
def test_shipped_scenarios_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    for name in NAMES:
        scenario = load_scenario(name)
        assert scenario.name == name
        assert scenario.description
        assert preview(scenario, BOARD).trials > 0


def test_a_declared_storage_needs_root_and_can_be_replaced() -> None:
    """The quick start declares one; check warns, and --storage shows and says what would run."""
    told = " ".join(
        preview(load_scenario("quickstart"), dataclasses.replace(BOARD, root=False)).warnings
    )
    assert "disk=ram only as root: use sudo, or measure with the storage as it is" in told
    done = CliRunner().invoke(run, ["quickstart", "--storage", "as-is", "--dry-run"])
    assert "read=100MB/s" not in done.stdout
    assert "edgebench run quickstart --storage as-is" in done.stderr
    other = with_storage(load_scenario("quickstart"), "read_iops=900,read=40MB/s")
    assert {limit.storage for limit in other.limits.settings()} == {"read=40MB/s,read_iops=900"}
    assert other.text.startswith("# Run with --storage read=40MB/s,read_iops=900")
    assert other.fingerprint() != load_scenario("quickstart").fingerprint()
    with pytest.raises(UsageError, match="is not a speed"):
        with_storage(other, "read=40")


def test_a_scenario_of_ones_own_comes_before_the_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "scenarios" / "quickstart.toml"
    own.parent.mkdir()
    own.write_text(COMMAND)
    monkeypatch.chdir(tmp_path)
    assert load_scenario("quickstart").name == "tiny"
    with pytest.raises(ScenarioError):
        load_scenario("../quickstart")
