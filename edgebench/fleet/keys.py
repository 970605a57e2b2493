"""The keys of a fleet: who has them gives orders to its machines, and nobody else does.

Scheduler, workers and controller encrypt with TLS and check each other by a certificate. Without
``[tls]`` in the inventory ``fleet up`` makes one key and certificate, in one file, for all of them.
"""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from pathlib import Path

from edgebench.errors import FleetError
from edgebench.fleet.inventory import Inventory, TlsKeys
from edgebench.identity import caller_identity, rights_of
from edgebench.safe_files import make_own_folder, write_whole
from edgebench.safe_folders import state_home
from edgebench.safe_reading import read_file

_DAYS = 3650
#: Of a chain of certificates.
_MOST_BYTES = 1 << 20
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
        MachineError: the user's home is unknown.
        UnsafePathError: somebody else can change what is in it.
    """
    folder = state_home() / "edgebench" / "fleet"
    make_own_folder(folder)
    return folder


def tls_files(inventory: Inventory) -> TlsKeys:
    """The files that the inventory names, or the one that ``fleet up`` made."""
    made = str(_made_file(inventory))
    return inventory.tls or TlsKeys(ca=made, cert=made, key=made)


def tls_texts(inventory: Inventory) -> dict[str, str]:
    """What stands in those files, by their key in ``[tls]``.

    The files that an inventory names are read with the rights of who called sudo: another user's
    inventory must not send what only root may read to a machine.

    Raises:
        FleetError: one can't be read.
    """
    caller = caller_identity() if inventory.tls else None
    texts = {}
    for name, file in tls_files(inventory).model_dump().items():
        try:
            with rights_of(caller.uid, caller.gid) if caller else nullcontext():
                texts[name] = read_file(Path(file), _MOST_BYTES).decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise FleetError(
                f"a TLS file can't be read: {getattr(error, 'strerror', 0) or 'it is no PEM text'}",
                where=file,
                remedy="correct [tls]",
            ) from error
    return texts


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
