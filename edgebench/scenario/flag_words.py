"""Faults of a scenario in the words of the command line, where a flag said what is refused."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping

from edgebench.errors import UsageError
from edgebench.scenario.faults import Fault

#: Key of a scenario → the argument or flag that sets it, of any verb.
FLAGS = {
    "workload.network": "NETWORK",
    **{
        f"workload.{key}": f"--{key}"
        for key in (
            *("schedule", "loader", "batch", "image", "input", "rounds", "threads", "prompt"),
            *("optimizer", "precision", "checkpointing", "shape", "steps"),
            *("loss", "data", "classes"),
        )
    },
    "repeats": "--repeats",
    "timeout": "--timeout",
    "limits.memory": "--memory",
    "limits.swap": "--swap",
    "limits.storage": "--storage",
    "limits.board": "--board",
    "limits.plan": "--plan",
    "workload.stop_after": "--for",
    "workload.throughput_pattern": "--throughput-pattern",
    "workload.throughput_json": "--throughput-json",
    "workload.unit": "--unit",
    "workload.files": "--file",
    "workload.new_tokens": "--new-tokens",
    "workload.command": "COMMAND",
}
#: Where a fault of several keys is: on the command line there is no such place.
_TABLES = ("the file", "workload", "limits")
_ASSIGNED = re.compile(r'\b(\w+) = (\[[^\]]*\]|"[^"]*"|[\w.]+)')
_KEY = re.compile(
    r"(?<=leave )\w+(?= out\b)|^\w+(?= without )|(?<= without )\w+(?=;)"
    r"|\w+(?= and \w+ can't both be given)|(?<= and )\w+(?= can't both be given)"
)
_IN_A_FILE = "; a relative path starts at the scenario's folder"


def flag_error(faults: Iterable[Fault], verb: str, flags: Mapping[str, str] = FLAGS) -> UsageError:
    """The error that says them; one that says how to mend it needs no pointer to the help."""
    words = flag_words(faults, flags)
    mended = all("; " in line for line in words.splitlines())
    return UsageError(words, remedy=None if mended else f"edgebench {verb} --help")


def flag_words(faults: Iterable[Fault], flags: Mapping[str, str] = FLAGS) -> str:
    """The faults, a line each, with flags instead of the keys that they set."""
    in_sentences = {key.rpartition(".")[2]: flag for key, flag in flags.items() if flag[0] == "-"}
    lines = []
    for fault in faults:
        # Of a list's item the list's flag.
        name = flags.get(fault.key.partition("[")[0], fault.key)
        says = _in_flags(fault.says, in_sentences)
        lines.append(says if name in _TABLES else f"{name}: {says}")
    return "\n".join(lines)


def _in_flags(says: str, flags: Mapping[str, str]) -> str:
    """A sentence with ``--loader mmap`` instead of ``loader = "mmap"``."""

    def typed(assigned: re.Match[str]) -> str:
        if (flag := flags.get(assigned[1])) is None:
            return assigned[0]
        try:
            value = json.loads(assigned[2])
        except ValueError:
            value = assigned[2]
        values = value if isinstance(value, list) else [value]
        return " ".join(f"{flag} {shlex.quote(str(one))}" for one in values)

    says = _ASSIGNED.sub(typed, says.removesuffix(_IN_A_FILE))
    return _KEY.sub(lambda key: flags.get(key[0], key[0]), says)
