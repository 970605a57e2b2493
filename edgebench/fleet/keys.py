"""The keys of a fleet: who has them gives orders to its machines, and nobody else does.

Scheduler, workers and controller encrypt with TLS and check each other by a certificate. Without
``[tls]`` in the inventory ``fleet up`` makes one key and certificate, in one file, for all of them.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from pathlib import Path

from edgebench.errors import FleetError, MachineError
from edgebench.fleet.inventory import Inventory, TlsKeys
from edgebench.safe_files import make_folder, make_private_folder, write_whole

_DAYS = 3650
#: For ``openssl req``: whatever its own configuration is, each copy checks the other as authority.
_REQUEST = """\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = edgebench fleet {name}
[extensions]
basicConstraints = critical, CA:TRUE
subjectKeyIdentifier = hash
"""


def fleet_folder() -> Path:
    """Where keys and logs are, which only we read: not in a cache that a workload may write to.

    Raises:
        MachineError: somebody else can change what is in it.
    """
    if named := os.environ.get("XDG_STATE_HOME"):
        parent = Path(named)
    else:
        parent = Path("/var/lib") if os.geteuid() == 0 else Path.home() / ".local" / "state"
    if not parent.exists():
        make_folder(parent, parents=True)
    folder = parent / "edgebench" / "fleet"
    for one in (folder.parent, folder):
        with contextlib.suppress(FileExistsError):
            make_private_folder(one)
        found = one.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise MachineError(
                "other users can write to the folder of a fleet's keys",
                where=str(one),
                remedy=f"check what is in it, then: rm -r {one}",
            )
    return folder


def tls_files(inventory: Inventory) -> TlsKeys:
    """The files that the inventory names, or the one that ``fleet up`` made."""
    made = str(_made_file(inventory))
    return inventory.tls or TlsKeys(ca=made, cert=made, key=made)


def make_keys(inventory: Inventory) -> None:
    """Make the key and its certificate, unless there is one or the inventory names others.

    Raises:
        FleetError: openssl is missing, or refuses.
    """
    file = _made_file(inventory)
    if inventory.tls or file.exists():
        return
    algorithm = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    # Nothing but the pipe holds the key until it is in the file.
    ends = ("-keyout", "-", "-out", "-", "-config", "/dev/stdin")
    try:
        done = subprocess.run(
            ["openssl", "req", "-x509", *algorithm, "-days", str(_DAYS), *ends],  # noqa: S607
            input=_REQUEST.format(name=inventory.name).encode(),
            capture_output=True,
            check=True,
        )
    except FileNotFoundError:
        raise FleetError(
            "openssl, which makes the fleet's key, is not installed",
            remedy="apt-get install openssl; or name keys of your own in the inventory: [tls]",
        ) from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.decode(errors="replace").strip().splitlines() or ["no output"])[-1]
        raise FleetError(
            f"openssl can't make the fleet's key: {last}",
            remedy="name keys of your own in the inventory: [tls]",
        ) from error
    write_whole(file, done.stdout, 0o600)


def _made_file(inventory: Inventory) -> Path:
    return fleet_folder() / f"{inventory.name}.pem"
