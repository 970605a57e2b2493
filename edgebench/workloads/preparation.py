"""What is known of networks before a trial: weights on disk, layer tables.

The harness never imports torch, so it sends each request to this module as a program of its own,
as JSON on its command line. The request has ``task``, a name of :data:`TASKS`, and what that task
needs. The answer is one line of JSON, with exit code 1 where it
is ``{"error": {"what": …, "where": …, "remedy": …}}``.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from edgebench.caller_process import CallError, run_as_caller
from edgebench.errors import EdgebenchError, MachineError, WorkloadError
from edgebench.installation import missing_library_error
from edgebench.processes import Identity, own_program, workload_environment
from edgebench.text import safe_json

#: Task → the function that answers its request.
TASKS = {
    "prepare": "edgebench.layers.pipeline:manifest",
    "prepare-files": "edgebench.workloads.engines.file_preparation:manifest_of_files",
    "describe": "edgebench.layers.pipeline:describe_layers",
    "code-of-trainings": "edgebench.workloads.training.loop:describe_code",
    "describe-data": "edgebench.workloads.training.data_sources:describe_data",
}
#: The last words of a program whose import failed.
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")


def prepare_networks(
    wanted: Sequence[str],
    *,
    cache: Path,
    seed: int,
    checkpoints: Mapping[str, str],
    image: int | None,
    identity: Identity | None,
    references: Mapping[str, Any] | None = None,
    described: object = None,
    prompt: int | None = None,
) -> dict[str, Any]:
    """Make (or find) the weights and layer tables of the networks; returns the manifest.

    ``references``: those of the networks that are not known by name, as JSON; their code runs as
    the caller. ``described``: their input, as a scenario's ``input``. ``prompt``: how many
    tokens a language model is given.

    Raises:
        WorkloadError: no such network, or a checkpoint that doesn't fit it.
        MachineError: the maker itself failed: no torch, no disk space.
    """
    request = {
        "networks": list(wanted),
        "cache": str(cache),
        "seed": seed,
        "checkpoints": dict(checkpoints),
        "image": image,
        "references": dict(references or {}),
        "input": described,
        "prompt": prompt,
    }
    return _answer("prepare", request, identity, "the weights could not be made")


def prepare_files(
    files: Mapping[str, str],
    workload: Sequence[Mapping[str, Any]],
    *,
    cache: Path,
    identity: Identity | None,
) -> dict[str, Any]:
    """Make ready what trials of networks in files load (network → path), with the files' sizes.

    ``workload``: the settings of all trials.

    Raises:
        WorkloadError: a file can't be loaded or executed by its engine.
        MachineError: an engine is not installed.
    """
    asked = {}
    for name, path in files.items():
        trials = [trial for trial in workload if name in trial["networks"]]
        settings = min(trials, key=lambda trial: trial["batch"])
        loaders = sorted({trial["loader"] for trial in trials})
        asked[name] = {"path": path, "settings": settings, "loaders": loaders}
    request = {"files": asked, "cache": str(cache)}
    return _answer("prepare-files", request, identity, "the files could not be made ready")


def describe_networks(
    networks: Sequence[str],
    *,
    references: Mapping[str, Any] | None = None,
    image: int | None = None,
    identity: Identity | None,
) -> dict[str, Any]:
    """Make the networks' layer tables as a manifest has them, without weights on disk.

    ``references``: those of the networks that are not known by name, as JSON; their code runs as
    the caller.

    Raises:
        WorkloadError: no such network, module or function, or it can't be described.
        MachineError: no torch.
    """
    request = {"networks": list(networks), "references": dict(references or {}), "image": image}
    return _answer("describe", request, identity, "no layer table could be made")


def code_of_trainings(
    workloads: Sequence[Mapping[str, Any]], *, identity: Identity | None
) -> dict[str, Any]:
    """Read the user's own code in trainings: ``code``, file → digest, and ``content``, a hash.

    ``workloads``: settings of trainings with references. Their code runs as the caller.

    Raises:
        WorkloadError: a network, a loss or data can't be imported, found or built.
        MachineError: no torch.
    """
    # Points differ in much that is nothing to their code, and a program's words are limited.
    keys = ("network", "loss", "data", "references", "seed")
    named = [{key: training[key] for key in keys if key in training} for training in workloads]
    request = {
        "workloads": [training for n, training in enumerate(named) if training not in named[:n]]
    }
    return _answer("code-of-trainings", request, identity, "your own code could not be read")


def describe_data_set(name: str, folder: Path, *, identity: Identity | None) -> dict[str, Any]:
    """Read a data set whole: ``shape``, ``train`` and ``test`` images, ``classes``.

    Its files are read as the caller: torchvision unpickles some of them.

    Raises:
        WorkloadError: no such data set, or its files are missing or corrupt.
        MachineError: a library that reads it is not installed.
    """
    request = {"name": name, "folder": str(folder.absolute())}
    return _answer("describe-data", request, identity, "the data set could not be read")


def _answer(
    task: str, request: Mapping[str, Any], identity: Identity | None, failed: str
) -> dict[str, Any]:
    words = own_program("edgebench.workloads.preparation", json.dumps({**request, "task": task}))
    try:
        done = run_as_caller(words, identity, workload_environment(identity))
    except CallError as reason:
        raise MachineError(f"{failed}: {reason}") from None
    answer = _last_json(done.stdout)
    if error := answer.get("error"):
        about = error if isinstance(error, dict) else {"what": error}
        what, where, remedy = (about.get(key) for key in ("what", "where", "remedy"))
        raise WorkloadError(str(what), where=where and str(where), remedy=remedy and str(remedy))
    if done.returncode or not answer:
        raise _broken(failed, done)
    return answer


def _broken(what: str, done: subprocess.CompletedProcess[bytes]) -> MachineError:
    if done.returncode < 0:
        return MachineError(
            f"{what}: {signal.Signals(-done.returncode).name} ended the process that read it",
            remedy="after SIGKILL: free some memory (dmesg | tail); else the file may be damaged: "
            "write it again",
        )
    errors = done.stderr.decode(errors="replace")
    last = (errors.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    module = _NO_MODULE.search(last)
    lacking = missing_library_error(ModuleNotFoundError(name=module[1])) if module else None
    if lacking:
        return MachineError(f"{what}: {lacking.what}", remedy=lacking.remedy)
    return MachineError(f"{what}: {last}")


def _last_json(output: bytes) -> dict[str, Any]:
    lines = output.strip().splitlines()
    try:
        answer = safe_json(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def main(words: list[str]) -> int:
    """Answer one request on stdout; the exit code."""
    request = json.loads(words[0])
    module, _, name = TASKS[request["task"]].partition(":")
    try:
        answer: dict[str, Any] = getattr(import_module(module), name)(request)
    except EdgebenchError as error:
        answer = {"error": {"what": error.what, "where": error.where, "remedy": error.remedy}}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if "error" in answer else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
