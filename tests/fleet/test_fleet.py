"""A fleet of real Dask workers on several ports of this machine, with real trials in real cgroups.

The three "machines" are one, so no time means anything here; that each trial is made and kept once
does, whatever is killed, frozen or started again in the middle.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from click.testing import CliRunner

from edgebench.cli import cli
from edgebench.errors import EdgebenchError, FleetError
from edgebench.fleet.connection import connected
from edgebench.fleet.groups import PROBES
from edgebench.fleet.inventory import load_inventory
from tests.fleet.conftest import Gate
from tests.own_path import python_path

pytest.importorskip("distributed")
pytestmark = [pytest.mark.own_cgroup, pytest.mark.timeout(600)]

INVENTORY = """
schema = 1
name = "test-{port}"
scheduler = "tls://{address}:{port}"
heartbeat = "1s"
lost_after = "5s"
"""
HOSTS = """
[hosts.one]
local = true
labels = ["vm"]
[hosts.two]
local = true
labels = ["vm"]
[hosts.three]
local = true
labels = ["vm"]
"""
SCENARIO = """
schema = 1
name = "{name}"
repeats = {repeats}
[workload]
kind = "command"
command = {command}
[limits]
memory = ["64M", "32M"]
swap = "none"
"""
NAMES = ("one", "two", "three")


def unused_port(address: str) -> int:
    """One that nobody uses, and that the kernel gives to no connection meanwhile."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    # Another worker's tests look for one at the same time: each process begins at its own.
    for port in range(first - 1 - 64 * (os.getpid() % 256), 1024, -1):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind((address, port))
            return port
    pytest.skip("no port is unused")


def whole_lines(file: Path) -> list[str]:
    """Those that are written to their end."""
    return file.read_text().split("\n")[:-1]


class Said(NamedTuple):
    """What a verb printed."""

    stdout: str
    stderr: str


class Fleet:
    """Three workers in a folder of their own."""

    def __init__(self, folder: Path, address: str = "127.0.0.1", hosts: str = HOSTS) -> None:
        self.folder = folder
        self.port = unused_port(address)
        text = INVENTORY.format(address=address, port=self.port) + hosts
        (folder / "fleet.toml").write_text(text)
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        own = {"EDGEBENCH_CACHE": str(folder / "cache"), "XDG_STATE_HOME": str(folder)}
        own["TMPDIR"] = str(self.temporary)
        self.preloaded = folder / "preloaded"
        preload = folder / "preload.py"
        preload.write_text(f"open({str(self.preloaded)!r}, 'w').close()\n")
        for role in ("SCHEDULER", "WORKER"):
            own[f"DASK_DISTRIBUTED__{role}__PRELOAD"] = str(preload)
        self.environment = {**os.environ, "PYTHONPATH": python_path(), **own}

    def command(self, *words: str) -> list[str]:
        """A verb of `edgebench fleet`."""
        return [sys.executable, "-m", "edgebench", "fleet", *words]

    def ask(self, *words: str, code: int = 0) -> Said:
        """Run it in this process, which has Dask loaded: a program of its own takes seconds."""
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            done = CliRunner().invoke(cli, ["fleet", *words], env=self.environment)
        finally:
            os.chdir(here)
        error, stderr = done.exception, done.stderr
        if error and not isinstance(error, (EdgebenchError, SystemExit)):
            raise error
        ended = done.exit_code
        if isinstance(error, EdgebenchError):
            ended, stderr = error.exit_code, f"{stderr}edgebench: {error}"
        assert ended == code, done.stdout + stderr
        return Said(done.stdout, stderr)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start it, and don't wait."""
        with (self.folder / "controller.log").open("ab") as log:
            return subprocess.Popen(
                self.command(*words),
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                # As from a terminal, also where the tests run after nohup.
                preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
            )

    def start_shared(self, gate: Gate) -> subprocess.Popen[bytes]:
        """Start a shared sweep of 30 trials: some are recorded, and each machine makes another."""
        name = self.scenario("shared", 10, gate.shared_command)
        running = self.start("run", name, "--shared", "vm")
        gate.let_through(len(NAMES) * PROBES * 2)
        self.wait_for_trials(*NAMES)
        gate.probes_are_over()
        gate.let_through(4)
        wait_until(lambda: len(self.lines("vm", "shared")) == 4)
        self.wait_for_trials(*NAMES)
        return running

    def states(self) -> dict[str, dict[str, str]]:
        """What `fleet status` tells."""
        said = self.ask("status", "--json").stdout
        found: dict[str, dict[str, str]] = json.loads(said)["machines"]
        return found

    def scenario(self, name: str, repeats: int, command: Sequence[str] = ("true",)) -> str:
        """A scenario of three points whose trials run the command."""
        path = self.folder / f"{name}.toml"
        words = json.dumps(list(command))
        path.write_text(SCENARIO.format(name=name, repeats=repeats, command=words))
        return path.name

    def wait_for_trials(self, *names: str) -> None:
        """Until each of these machines makes a trial."""
        wait_until(lambda: all(self.states()[name]["state"].startswith("trial-") for name in names))

    def lines(self, device: str, name: str) -> list[dict[str, Any]]:
        """The records of the device's one sweep of that name."""
        files = list(self.folder.glob(f"results/{device}/*-{name}-*/trials.jsonl"))
        return [json.loads(line) for file in files for line in whole_lines(file)]

    def end(self) -> None:
        """Nothing of it stays: those that are frozen are killed."""
        pids = [one["pid"] for one in self.states().values() if one["pid"]]
        self.ask("stop")
        wait_until(lambda: not any(map(is_alive, pids)))


def wait_until(holds: Callable[[], object]) -> None:
    """Wait for a state, on a busy machine for minutes."""
    ends = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def is_alive(pid: str) -> bool:
    """Whether the process runs."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return status[0] != "Z"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three workers that are up."""
    made = Fleet(tmp_path_factory.mktemp("fleet"))
    made.ask("up")
    yield made
    made.end()


def once_each(lines: list[dict[str, Any]], count: int) -> bool:
    """Whether each trial of the plan has one record."""
    width = max(4, len(str(count)))
    wanted = {f"{n:0{width}d}": 1 for n in range(1, count + 1)}
    return Counter(line["trial"] for line in lines) == wanted


def test_each_machine_runs_the_whole_sweep(fleet: Fleet):
    """A sweep of its own for each machine, complete, with its name in every record."""
    name = fleet.scenario("each", 2)
    summary = json.loads(fleet.ask("run", name, "--json").stdout)
    assert [one["trials"] for one in summary["devices"]] == [6, 6, 6]
    for device in NAMES:
        lines = fleet.lines(device, "each")
        assert once_each(lines, 6)
        assert {line["machine"] for line in lines} == {device}
        assert {line["outcome"] for line in lines} == {"ok"}
        assert len(list(fleet.folder.glob(f"results/{device}/*-each-*/complete.json"))) == 1
        assert len(list(fleet.folder.glob(f"results/{device}/*-each-*/samples/*.npz"))) == 6


def listening(fleet: Fleet) -> dict[tuple[str, int], psutil.Process]:
    """Where the fleet's processes listen."""
    own = [one for one in psutil.process_iter() if f"XDG_STATE_HOME={fleet.folder}" in _about(one)]
    found = ((c, one) for one in own for c in one.net_connections("inet"))
    return {(c.laddr.ip, c.laddr.port): one for c, one in found if c.status == psutil.CONN_LISTEN}


def _about(process: psutil.Process) -> list[str]:
    try:
        return [f"{key}={value}" for key, value in process.environ().items()]
    except psutil.Error:
        return []


@pytest.mark.promise("Only who has a fleet's key can give orders to it, also on the same machine.")
def test_a_stranger_on_the_same_machine_stays_outside(fleet: Fleet):
    """Each process listens on one address, for TLS with the key alone; the key is its owner's."""
    places = listening(fleet)
    assert len(places) == 4
    assert {address for address, _ in places} == {"127.0.0.1"}
    assert fleet.port in {port for _, port in places}
    # The one that `fleet up` made: the others are in the memory of those who use them.
    (key,) = (fleet.folder / "edgebench/fleet").glob("*.pem")
    assert key.name == f"test-{fleet.port}.pem"
    assert {stat.S_IMODE(one.stat().st_mode) for one in (key, key.parent)} == {0o600, 0o700}
    for address, port in places:
        assert answers(address, port, encrypted=False) == b""
        assert answers(address, port, encrypted=True) == b""


@pytest.mark.promise("A fleet's processes import nothing from a folder that all users share.")
def test_dask_makes_its_folders_in_the_owners_place(fleet: Fleet):
    """Each process of Dask imports from a folder of its own, which nobody else may replace."""
    assert list(fleet.temporary.glob("dask*")) == []
    made = {one.name.partition("-")[0] for one in fleet.folder.glob("edgebench/fleet/dask*/*-*")}
    assert made == {"quietscheduler", "quietworker"}


@pytest.mark.root
@pytest.mark.promise("Under `sudo -E` a fleet's processes run nothing that Dask's variables name.")
def test_root_preloads_nothing_for_dask(fleet: Fleet):
    """The environment names a program for scheduler and workers, as sudo may have kept it."""
    assert len(listening(fleet)) == 4
    assert not fleet.preloaded.exists()


def test_files_of_a_machine_are_of_its_fleet_alone(fleet: Fleet):
    """Another fleet may have a machine of the same name on the same computer."""
    made = list(fleet.folder.glob("edgebench/fleet/worker-*"))
    assert made
    assert all(one.name.startswith(f"worker-test-{fleet.port}-") for one in made)


def answers(address: str, port: int, *, encrypted: bool) -> bytes:
    """What it says to who has no key, and asks as a browser and as Dask do."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        contextlib.suppress(OSError),
        socket.create_connection((address, port), 60) as plain,
        context.wrap_socket(plain) if encrypted else plain as asking,
    ):
        asking.sendall(b"GET /info/main/workers.html HTTP/1.0\r\n\r\n")
        return asking.recv(100)
    return b""


def test_files_that_the_scenario_names_are_sent_once(fleet: Fleet):
    """A script of the controller's folder runs on each machine, from a store by content."""
    script = fleet.folder / "work.py"
    script.write_text("b = bytearray(20 << 20)\n")
    name = fleet.scenario("sent", 1, [sys.executable, "-I", "-S", "work.py"])
    fleet.ask("run", name, "--host", "one")
    lines = fleet.lines("one", "sent")
    assert {line["outcome"] for line in lines} == {"ok"}
    assert lines[0]["settings"]["command"][-1] == "work.py"
    stored = list((fleet.folder / "cache/fleet/content").glob("*/work.py"))
    before = stored[0].stat().st_mtime_ns
    fleet.ask("run", name, "--host", "one")
    assert [one.stat().st_mtime_ns for one in stored] == [before]


def test_a_second_controller_is_refused_and_a_killed_one_goes_on(fleet: Fleet, gate: Gate):
    """Two runs at once would disturb each other; after SIGKILL the same command resumes."""
    name = fleet.scenario("resumed", 3, gate.command)
    first = fleet.start("run", name)
    try:
        gate.let_through(4)
        wait_until(lambda: sum(len(fleet.lines(device, "resumed")) for device in NAMES) == 4)
        # It can't complete a sweep while the second one is refused: the next run would begin anew.
        refused = fleet.ask("run", name, code=1)
        fleet.wait_for_trials(*NAMES)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert "another edgebench fleet run uses this fleet" in refused.stderr
    before = {device: fleet.lines(device, "resumed") for device in NAMES}
    gate.let_through()
    fleet.ask("run", name)
    for device in NAMES:
        lines = fleet.lines(device, "resumed")
        assert once_each(lines, 9)
        assert lines[: len(before[device])] == before[device]


def test_a_controller_whose_terminal_closes_ends_cleanly(fleet: Fleet, gate: Gate):
    """After SIGHUP it says so, with the exit code for it; the same command goes on."""
    name = fleet.scenario("hung-up", 2, gate.command)
    running = fleet.start("run", name)
    try:
        gate.let_through(4)
        wait_until(lambda: sum(len(fleet.lines(device, "hung-up")) for device in NAMES) == 4)
        fleet.wait_for_trials(*NAMES)
        before = len((fleet.folder / "controller.log").read_text())
        running.send_signal(signal.SIGHUP)
        assert running.wait(240) == 128 + signal.SIGHUP
    finally:
        running.kill()
        running.wait()
    said = (fleet.folder / "controller.log").read_text()[before:]
    assert said.strip() == "edgebench: interrupted; all finished trials are kept"
    gate.let_through()
    fleet.ask("run", name)
    assert all(once_each(fleet.lines(device, "hung-up"), 6) for device in NAMES)


def test_a_frozen_machine_is_not_said_to_run_another_version(fleet: Fleet):
    """It has no answer, which has no other reason; the others were seen as lately as before."""
    pid = int(fleet.states()["two"]["pid"])
    os.kill(pid, signal.SIGSTOP)
    try:
        states = fleet.states()
    finally:
        os.kill(pid, signal.SIGKILL)
    assert states["two"]["problem"] == ""
    assert states["two"]["state"] in ("no answer", "down")
    # They go on reporting, so none of them is lost.
    wait_until(lambda: fleet.states()["three"]["state"] == "idle")
    fleet.ask("up")


@pytest.mark.long
def test_shared_trials_survive_a_killed_and_a_frozen_worker(fleet: Fleet, gate: Gate):
    """One machine is killed and one frozen, both in a trial: each trial is recorded once."""
    running, states = fleet.start_shared(gate), fleet.states()
    killed, frozen = (int(states[victim]["pid"]) for victim in ("one", "two"))
    os.kill(killed, signal.SIGKILL)
    os.kill(frozen, signal.SIGSTOP)
    try:
        gate.let_through()
        assert running.wait(300) == 0, (fleet.folder / "controller.log").read_text()
        lines = fleet.lines("vm", "shared")
        assert once_each(lines, 30)
        assert {line["outcome"] for line in lines} == {"ok"}
    finally:
        os.kill(frozen, signal.SIGKILL)
    fleet.ask("up")
    assert all(one["state"] == "idle" for one in fleet.states().values())


def test_a_lost_scheduler_is_named_with_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It ended while a verb used it: Dask's own words would say nothing of that."""
    made = Fleet(tmp_path, hosts="[hosts.gone]\n")
    made.ask("up", code=1)
    monkeypatch.setenv("XDG_STATE_HOME", made.environment["XDG_STATE_HOME"])
    lost = pytest.raises(FleetError, match="the connection to the fleet's scheduler is lost")
    with lost, connected(load_inventory(tmp_path / "fleet.toml")) as connection:
        scheduler = listening(made)["127.0.0.1", made.port]
        scheduler.kill()
        psutil.wait_procs([scheduler])
        connection.workers()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare (util-linux)")
@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs ssh (openssh-client)")
@pytest.mark.root
def test_machines_that_take_no_part_are_named_with_the_fix(tmp_path: Path):
    """One is not reached, one has no cgroups, one no worker; the one that is there does it all."""
    bare = tmp_path / "bare"
    bare.write_text(
        "#!/bin/sh\nexec unshare --mount sh -c "
        f'\'umount -R -l /sys/fs/cgroup; exec {sys.executable} "$@"\' sh "$@"\n'
    )
    bare.chmod(0o755)
    hosts = f"""
[hosts.one]
local = true
labels = ["vm"]
[hosts.bare]
local = true
python = "{bare}"
labels = ["vm"]
[hosts.gone]
labels = ["vm"]
[hosts.far]
ssh = "nobody-has-this-name@127.0.0.1"
"""
    # An address of this computer that other machines may be thought to reach.
    made = Fleet(tmp_path, "127.0.0.2", hosts)
    refused = made.ask("run", "quickstart", code=1).stderr
    assert "no scheduler answers" in refused
    assert "edgebench fleet up" in refused
    try:
        up = made.ask("up", code=1)
        assert "2 of 4 machines are up" in up.stdout
        assert "far: not reached" in up.stderr
        assert "start it, with a copy of the key: python3 -m" in up.stderr
        name = made.scenario("lacking", 1)
        said = made.ask("run", name, "--shared", "vm").stderr
        assert "bare is left out: no cgroups are mounted; " in said
        assert "mount -t cgroup2" in said
        assert "gone has no worker that answers" in said
        assert once_each(made.lines("vm", "lacking"), 3)
        alone = made.ask("run", name, "--host", "bare", code=1).stderr
        assert "edgebench: bare: no cgroups are mounted; " in alone
        far = made.ask("run", name, "--host", "far", "--host", "one", code=3).stderr
        assert "no worker of far is there" in far
        assert once_each(made.lines("one", "lacking"), 3)
    finally:
        made.end()
