"""Whether a shared sweep records each trial once, whatever is lost in its middle.

``python benchmarks/fleet_losses.py [ROUNDS]`` (root): three workers on ports of this machine. At
random moments of each round one worker gets SIGKILL, one SIGSTOP, and the controller SIGKILL, which
is then started again. Times mean nothing: the three share the machine.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import report

NAMES = ("one", "two", "three")
TRIALS = 24
_HOST = '[hosts.{}]\nlocal = true\nlabels = ["vm"]\n'
_FLEET = """schema = 1
name = "losses"
scheduler = "tls://127.0.0.1:{}"
heartbeat = "1s"
lost_after = "5s"
"""
_SCENARIO = """schema = 1
name = "round-{}"
repeats = 8
[workload]
kind = "command"
command = ["sleep", "0.5"]
[limits]
memory = ["64M", "32M"]
swap = "none"
"""


def fleet(folder: Path, *words: str) -> subprocess.Popen[str]:
    """Start a verb of `edgebench fleet` in the folder."""
    command = [sys.executable, "-m", "edgebench", "fleet", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def pids(folder: Path) -> dict[str, int]:
    """Machine → its worker's process."""
    said, _ = fleet(folder, "status", "--json").communicate()
    return {name: int(one["pid"]) for name, one in json.loads(said)["machines"].items()}


def recorded(folder: Path, number: int) -> list[str]:
    """The trials of a round, as recorded."""
    files = folder.glob(f"results/vm/*-round-{number}-*/trials.jsonl")
    return [json.loads(line)["trial"] for file in files for line in file.read_text().splitlines()]


def play(folder: Path, number: int, chance: random.Random) -> dict[str, Any]:
    """One round: what was done to whom, and how often each trial is recorded."""
    fleet(folder, "up").communicate()
    (folder / "round.toml").write_text(_SCENARIO.format(number))
    words = ("run", "round.toml", "--shared", "vm")
    workers, victims = pids(folder), chance.sample(NAMES, 2)
    running = fleet(folder, *words)
    deeds = [("SIGKILL", victims[0]), ("SIGSTOP", victims[1]), ("SIGKILL", "controller")]
    chance.shuffle(deeds)
    for name, victim in deeds:
        wanted = len(recorded(folder, number)) + chance.randrange(1, 5)
        while len(recorded(folder, number)) < wanted and running.poll() is None:
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 0.5))
        if victim != "controller":
            os.kill(workers[victim], getattr(signal, name))
        elif running.poll() is None:
            running.kill()
            running.communicate()
            running = fleet(folder, *words)
    running.communicate()
    codes = [running.returncode]
    # A sweep that lost all its machines goes on once they are back.
    while codes[-1] != 0 and len(codes) < 4:
        fleet(folder, "up").communicate()
        running = fleet(folder, *words)
        running.communicate()
        codes.append(running.returncode)
    os.kill(workers[victims[1]], signal.SIGKILL)
    counts = Counter(recorded(folder, number))
    return {
        "deeds": deeds,
        "codes": codes,
        "recorded": len(counts),
        "twice": sum(count > 1 for count in counts.values()),
    }


def main(rounds: int) -> None:
    """Play the rounds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["EDGEBENCH_CACHE"] = str(folder / "cache")
        (folder / "fleet.toml").write_text(_FLEET.format(port) + "".join(map(_HOST.format, NAMES)))
        try:
            played = [play(folder, number, chance) for number in range(rounds)]
        finally:
            fleet(folder, "stop").communicate()
    whole = sum(one["recorded"] == TRIALS and not one["twice"] for one in played)
    says = "Shared sweeps in which a worker is killed, one frozen, and the controller killed."
    header = ["rounds", "each trial recorded once"]
    report.write("fleet_losses", says, header, [[rounds, whole]], {"seed": seed, "rounds": played})


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
