"""What a sweep needs before its first trial: weights on disk and a warm runtime.

torch lives in processes of its own, never in the harness.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgebench.cgroups.identity import Identity, process_options
from edgebench.errors import MachineError, WorkloadError
from edgebench.process import python_path


def cache_folder(identity: Identity | None) -> Path:
    """Where weights are kept between sweeps: ``EDGEBENCH_CACHE``, else the caller's cache."""
    if named := os.environ.get("EDGEBENCH_CACHE"):
        return Path(named).resolve()
    home = Path(identity.home) if identity else Path.home()
    return home / ".cache" / "edgebench"


def prepare_networks(
    wanted: Sequence[str],
    *,
    cache: Path,
    seed: int,
    checkpoints: Mapping[str, str],
    batch: int,
    image: int | None,
    identity: Identity | None,
) -> dict[str, Any]:
    """Make (or find) the weights and layer tables of the networks; returns the manifest.

    Raises:
        WorkloadError: no such network, or a checkpoint that doesn't fit it.
        MachineError: the maker itself failed: no torch, no disk space.
    """
    request = {
        "networks": list(wanted),
        "cache": str(cache),
        "seed": seed,
        "checkpoints": dict(checkpoints),
        "batch": batch,
        "image": image,
    }
    return _asked("edgebench.layers.prepare", request, identity, "the weights could not be made")


def describe_networks(
    networks: Sequence[str] = (),
    *,
    modules: Sequence[str] = (),
    image: int | None = None,
    identity: Identity | None,
) -> dict[str, Any]:
    """The networks' layer tables as a manifest has them, without weights on disk.

    ``modules`` are a person's own, as ``package:factory``; their code runs as the caller.

    Raises:
        WorkloadError: no such network, module or function, or it can't be described.
        MachineError: no torch.
    """
    request = {"networks": list(networks), "modules": list(modules), "image": image}
    return _asked("edgebench.layers.described", request, identity, "no layer table could be made")


def describe_trainings(
    workloads: Mapping[str, Mapping[str, Any]], *, identity: Identity | None
) -> dict[str, Any]:
    """What steps of trainings hold: ``tables``, and ``untold``, a reason for each without one.

    ``workloads`` are settings by any key.

    Raises:
        MachineError: no torch.
    """
    request = {"workloads": workloads}
    program = "edgebench.training.described"
    return _asked(program, request, identity, "no layer table could be made", "tables")


def _asked(
    program: str,
    request: Mapping[str, Any],
    identity: Identity | None,
    failed: str,
    answered: str = "networks",
) -> dict[str, Any]:
    """The answer of a program that runs as the caller, and has ``answered`` if it worked."""
    done = _python(["-m", program, json.dumps(request)], identity)
    answer = _last_json(done.stdout)
    if error := answer.get("error"):
        raise WorkloadError(error["what"], where=error.get("where"), remedy=error.get("remedy"))
    if done.returncode or answered not in answer:
        raise _broken(failed, done)
    return answer


def _broken(what: str, done: subprocess.CompletedProcess[str]) -> MachineError:
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    remedy = None
    if "No module named" in last:
        remedy = "python3 -m pip install 'edgebench[torch]'"
    return MachineError(f"{what}: {last}", remedy=remedy)


def _last_json(text: str) -> dict[str, Any]:
    lines = text.strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _python(words: list[str], identity: Identity | None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": python_path()}
    if identity:
        env["HOME"] = str(identity.home)
    return subprocess.run(
        [sys.executable, *words],
        env=env,
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        **process_options(identity),
    )
