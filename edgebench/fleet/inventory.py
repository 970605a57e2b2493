"""The inventory: the TOML file that says which machines a fleet has and how they are reached.

``docs/verbs/fleet.md`` explains every key. All faults of a file are reported at once.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from edgebench.errors import InventoryError
from edgebench.processes import installed_program, own_program
from edgebench.safe_reading import read_text
from edgebench.scenario.faults import faults_of, file_error_words
from edgebench.scenario.keys import Seconds, TomlTable, key

if sys.version_info >= (3, 11):
    from typing import Self

    import tomllib
else:
    import tomli as tomllib
    from typing_extensions import Self

#: Version of the file's format.
SCHEMA = 1
#: A scheduler that only this computer can reach.
OWN_ADDRESS = "tls://127.0.0.1:8786"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
_ALL = ("0.0.0.0", "::")  # noqa: S104 - refused
_LOCAL = ("127.0.0.1", "localhost", "[::1]", "::1")


class HostKeys(TomlTable):
    """One machine. Without ``ssh`` and ``local`` somebody else starts its worker."""

    ssh: str | None = key(None, '"pi@192.168.1.21"')
    local: bool = key(False, "true")
    python: Annotated[str, Field(min_length=1)] | None = key(None, '"/opt/venv/bin/python"')
    board: str | None = key(None, '"Raspberry Pi 4"')
    labels: tuple[str, ...] = Field(default=(), examples=['["pi4"]'], strict=False)

    @field_validator("ssh")
    @classmethod
    def _no_option(cls, ssh: str | None) -> str | None:
        # A word that begins so is an option to ssh, which may name a program to run.
        if ssh is not None and (ssh.startswith("-") or len(ssh.split()) != 1):
            raise ValueError(f'{ssh!r} is no machine; write user@address, as "pi@192.168.1.21"')
        return ssh

    @field_validator("labels")
    @classmethod
    def _plain_labels(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        for label in labels:
            _check_name(label, "a label")
        return labels

    @model_validator(mode="after")
    def _reached_in_one_way(self) -> Self:
        if self.local and self.ssh:
            raise ValueError("ssh and local can't both be given; leave one out")
        return self

    @property
    def started(self) -> bool:
        """Whether ``fleet up`` starts its worker."""
        return self.local or self.ssh is not None

    def command(self, module: str) -> list[str]:
        """What runs a module of edgebench as a program on the machine."""
        if self.local and not self.python:
            return own_program(module)
        words = [*shlex.split(self.python or "python3"), *installed_program(module)]
        if self.local:
            return words
        # OpenSSH hands the words to the user's shell there.
        remote = shlex.join(words)
        options = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
        return ["ssh", *options, "--", str(self.ssh), remote]


class TlsKeys(TomlTable):
    """Files in PEM format, as Dask's security has them; relative paths start at the inventory."""

    ca: str = key(..., '"ca.pem"')
    cert: str = key(..., '"cert.pem"')
    key: str = key(..., '"key.pem"')


class Inventory(TomlTable):
    """What one file says; attributes carry their unit where the key has none."""

    schema_version: int = key(..., "1", alias="schema")
    name: str = key("fleet", '"lab"')
    scheduler: str = key(OWN_ADDRESS, '"tls://192.168.1.5:8786"')
    heartbeat_s: Seconds = key(30.0, '"30s"', alias="heartbeat")
    lost_after_s: Seconds = key(180.0, '"3min"', alias="lost_after")
    tls: TlsKeys | None = None
    hosts: dict[str, HostKeys] = key(..., "a table for each machine: [hosts.pi-1]")

    @field_validator("schema_version")
    @classmethod
    def _known_schema(cls, given: int) -> int:
        if given != SCHEMA:
            raise ValueError(f"{given} is not known; this edgebench reads schema {SCHEMA}")
        return given

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        return _check_name(name, "the fleet's name")

    @field_validator("scheduler")
    @classmethod
    def _address(cls, address: str) -> str:
        parts = urlsplit(address)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme != "tls" or not parts.hostname or not port:
            raise ValueError('is no address with TLS; write one as "tls://192.168.1.5:8786"')
        if parts.hostname in _ALL:
            raise ValueError(f"{parts.hostname} is every address; write the one that machines see")
        return address

    @field_validator("hosts")
    @classmethod
    def _plain_hosts(cls, hosts: dict[str, HostKeys]) -> dict[str, HostKeys]:
        if not hosts:
            raise ValueError('names no machine; write a table for each: [hosts.pi-1] ssh = "…"')
        for name in hosts:
            _check_name(name, "a host")
        seen: dict[str, str] = {}
        for name, host in hosts.items():
            if host.ssh and host.ssh in seen:
                raise ValueError(
                    f"{seen[host.ssh]} and {name} are the same machine, {host.ssh}; remove one"
                )
            seen.setdefault(host.ssh or name, name)
        return hosts

    @model_validator(mode="after")
    def _scheduler_can_be_reached(self) -> Self:
        far = [name for name, host in self.hosts.items() if host.ssh]
        if far and self.host in _LOCAL:
            raise ValueError(
                f"{far[0]} can't reach a scheduler at {self.host}; write this computer's address "
                'as the machines see it: scheduler = "tls://192.168.1.5:8786"'
            )
        if self.lost_after_s < 3 * self.heartbeat_s:
            raise ValueError("lost_after should be at least three times heartbeat")
        return self

    @property
    def host(self) -> str:
        """The scheduler's host."""
        return str(urlsplit(self.scheduler).hostname)

    @property
    def port(self) -> int:
        """The scheduler's port."""
        return int(urlsplit(self.scheduler).port or 0)

    def labelled(self, label: str) -> list[str]:
        """The machines with that label.

        Raises:
            InventoryError: there is none.
        """
        found = [name for name, host in self.hosts.items() if label in host.labels]
        if not found:
            known = sorted({one for host in self.hosts.values() for one in host.labels})
            raise InventoryError(
                f"no machine of the fleet has the label {label!r}",
                remedy=f"name one of {', '.join(known)}" if known else 'write labels = ["pi4"]',
            )
        return found


def load_inventory(path: Path) -> Inventory:
    """The inventory of a file; paths of its TLS files are made absolute.

    Raises:
        InventoryError: no such file, no TOML, or faults in it, all reported at once.
    """
    try:
        text = read_text(path)
        data = tomllib.loads(text)
    except OSError as error:
        raise InventoryError(
            f"no inventory of the fleet: {error.strerror}",
            where=str(path),
            remedy="write one, or name another: --fleet FILE (docs/how-to/fleet.md)",
        ) from error
    except (ValueError, RecursionError) as error:
        remedy = "each machine has one table of its own: [hosts.NAME]; texts need quotes"
        raise InventoryError(f"not TOML: {error}", where=str(path), remedy=remedy) from error
    try:
        return Inventory.model_validate(_with_paths(data, path.resolve().parent))
    except ValidationError as error:
        faults = faults_of(error, Inventory, data, text)
        remedy = "correct the lines above, then type: edgebench fleet status"
        raise InventoryError(
            file_error_words(faults, path), where=str(path), remedy=remedy
        ) from error


def _with_paths(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    tls = data.get("tls")
    if not isinstance(tls, Mapping):
        return dict(data)
    named = {k: str(folder / v) if isinstance(v, str) else v for k, v in tls.items()}
    return {**data, "tls": named}


def _check_name(name: str, what: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} can't be {what}: only a-z, 0-9 and '-', 41 at most")
    return name
