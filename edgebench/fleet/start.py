"""Starts a Dask scheduler or worker on this machine, apart from the terminal, and waits for it.

It reads on standard input what to start, as JSON (:func:`edgebench.fleet.startup.start_order`), and
prints its process and log. Run over SSH, no private key is on a command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgebench import __version__
from edgebench.errors import EdgebenchError, FleetError
from edgebench.extras import need
from edgebench.fleet.keys import fleet_folder
from edgebench.fleet.messages import same_version_remedy
from edgebench.processes import in_memory, own_program, secure_environment
from edgebench.safe_files import open_empty

_PROGRAMS = {"scheduler": "edgebench.fleet.dask_processes", "worker": "distributed.cli.dask_worker"}
#: Variable → which of the keys' files it names. Dask's flags would follow the link to no file.
_WORKER_KEYS = {
    "DASK_DISTRIBUTED__COMM__TLS__CA_FILE": "ca",
    "DASK_DISTRIBUTED__COMM__TLS__WORKER__CERT": "cert",
    "DASK_DISTRIBUTED__COMM__TLS__WORKER__KEY": "key",
}
#: What its log says when it is ready.
_READY = {"scheduler": b"Scheduler at:", "worker": b"Registered to:"}
_WAIT_S = 60.0
_END_BYTES = 2000


def start_process(order: Mapping[str, Any]) -> dict[str, Any]:
    """Start it; its process and log.

    Raises:
        FleetError: another version of edgebench is here, or it ended at once.
        MachineError: Dask is not installed.
    """
    if order["edgebench"] != __version__:
        raise FleetError(
            f"edgebench {__version__} is installed here, {order['edgebench']} at the controller",
            remedy=same_version_remedy(order["edgebench"]),
        )
    need("distributed")
    folder, role = fleet_folder(), order["role"]
    log = folder / f"{role}-{order['name']}.log"
    host, port = order["scheduler"]
    # Dask imports from a folder that it makes there. By default it is in /tmp, in one that somebody
    # else may have made.
    own = {**order["environment"], "DASK_TEMPORARY_DIRECTORY": str(folder)}
    with contextlib.ExitStack() as stack:
        # In memory: however the process ends, no copy of a key stays on this machine.
        keys = {
            kind: stack.enter_context(in_memory(text.encode())).fileno()
            for kind, text in order["tls"].items()
        }
        files = {kind: f"/proc/self/fd/{key}" for kind, key in keys.items()}
        if role == "scheduler":
            words = [json.dumps({"host": host, "port": port, **files})]
        else:
            words = [*order["words"], "--host", f"tls://{_address_towards(host, port)}"]
            own |= {variable: files[kind] for variable, kind in _WORKER_KEYS.items()}
        descriptor = open_empty(log, 0o600)
        stack.callback(os.close, descriptor)
        process = subprocess.Popen(
            own_program(_PROGRAMS[role], *words),
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            env={**os.environ, **own},
            cwd=folder,
            start_new_session=True,
            pass_fds=list(keys.values()),
        )
    _wait(process, log, role)
    return {"pid": process.pid, "log": str(log)}


def _address_towards(host: str, port: int) -> str:
    """The one address of this machine that the scheduler sees: a worker listens there alone.

    Raises:
        FleetError: nothing leads to the scheduler.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        # No packet is sent.
        with socket.socket(family, socket.SOCK_DGRAM) as looking:
            looking.connect(address)
            own = str(looking.getsockname()[0])
    except OSError as error:
        raise FleetError(
            f"no way leads to the scheduler: {error.strerror}",
            where=f"{host}:{port}",
            remedy="correct the address in the inventory: scheduler = …",
        ) from error
    return f"[{own}]" if ":" in own else own


def _wait(process: subprocess.Popen[bytes], log: Path, role: str) -> None:
    ends = time.monotonic() + _WAIT_S
    while time.monotonic() < ends:
        if _READY[role] in log.read_bytes():
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    ended = process.poll() is not None
    if not ended:
        process.kill()
        process.wait()
    last = log.read_bytes()[-_END_BYTES:].decode(errors="replace").strip().splitlines()
    how = f"ended with exit code {process.returncode}" if ended else "is not ready in a minute"
    raise FleetError(
        f"the {role} {how}: {last[-1] if last else 'its log is empty'}",
        where=str(log),
        remedy=f"see its log there: {log}",
    )


def main() -> int:
    """Start what standard input says."""
    secure_environment()
    try:
        sys.stdout.write(json.dumps(start_process(json.load(sys.stdin))))
    except EdgebenchError as error:
        sys.stdout.write(json.dumps({"error": {"what": error.what, "remedy": error.remedy}}))
        return 1
    except OSError as error:
        sys.stdout.write(json.dumps({"error": {"what": str(error), "remedy": None}}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
