"""The inventory: the TOML file that says which machines a fleet has and how SSH reaches them.

``docs/verbs/fleet.md`` explains every key. All faults of a file are reported at once.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from edgebench.errors import FleetError
from edgebench.processes import installed_program
from edgebench.safe_reading import read_text
from edgebench.scenario.faults import faults_of, file_error_words
from edgebench.scenario.keys import Seconds, TomlTable, key

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: SSH asks no question. Nothing of the user's configuration lets the machine reach back to us, or
#: lets the session outlive our own process.
_SSH = (
    *("ssh", "-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ClearAllForwardings=yes", "-o", "ControlPath=none"),
)


class HostKeys(TomlTable):
    """One machine."""

    ssh: str = key(..., '"pi@192.168.1.21"')
    python: Annotated[str, Field(min_length=1)] = key("python3", '"/opt/venv/bin/python"')

    @field_validator("ssh", "python")
    @classmethod
    def _words(cls, text: str, info: ValidationInfo) -> str:
        # A word that begins so is an option to ssh, which may name a program to run.
        is_one = len(shlex.split(text)) == 1 and not text.startswith("-")
        if info.field_name == "ssh" and not is_one:
            raise ValueError(f'{text!r} is no machine; write user@address, as "pi@192.168.1.21"')
        return text

    def command(self, module: str, *words: str) -> list[str]:
        """Return what runs a module of edgebench there, as a program."""
        program = [*shlex.split(self.python), *installed_program(module, *words)]
        # OpenSSH hands the words to the user's shell there, which would hold the session's pipes.
        return [*_SSH, "--", self.ssh, f"exec {shlex.join(program)}"]


class Inventory(TomlTable):
    """What one file says; attributes carry their unit where the key has none."""

    schema_version: Literal[1] = key(..., "1", alias="schema")
    lost_after_s: Annotated[Seconds, Field(ge=2)] = key(180.0, '"3min"', alias="lost_after")
    hosts: dict[str, HostKeys] = key(..., "a table for each machine: [hosts.pi-1]")

    @field_validator("hosts")
    @classmethod
    def _plain_names(cls, hosts: dict[str, HostKeys]) -> dict[str, HostKeys]:
        if not hosts:
            raise ValueError('names no machine; write a table for each: [hosts.pi-1] ssh = "…"')
        for name in hosts:
            if not re.fullmatch("[a-z0-9][a-z0-9-]{0,40}", name):
                raise ValueError(f"{name!r} can't be a host: only a-z, 0-9 and '-', 41 at most")
        return hosts


def load_inventory(path: Path) -> Inventory:
    """Return the inventory of a file.

    Raises:
        FleetError: no such file, no TOML, or faults in it, all reported at once.
    """
    try:
        text = read_text(path)
        data = tomllib.loads(text)
        return Inventory.model_validate(data)
    except OSError as error:
        what = f"no inventory of the fleet: {error.strerror}"
        remedy = "write one, or name another: --fleet FILE (docs/how-to/fleet.md)"
    except ValidationError as error:
        what = file_error_words(faults_of(error, Inventory, data, text), path)
        remedy = "correct the lines above, then type the same command again"
    except (ValueError, RecursionError) as error:
        what = f"not TOML: {error}"
        remedy = "each machine has one table of its own: [hosts.NAME]; texts need quotes"
    raise FleetError(what, where=str(path), remedy=remedy)
