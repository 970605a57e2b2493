"""The keys of a scenario that verbs take as options, and Python's functions as arguments.

Each is declared here once: verbs' options are made from it, and what is wrong with a value names
the option. No pydantic is imported, so that ``--help`` is quick.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.text import AS_IS


@dataclass(frozen=True)
class Flag:
    """The option of a key.

    Args:
        key: its path in a scenario.
        help: what it does.
        metavar: stands for its value in the help.
        kind: of its value.
        default: where it isn't given.
        repeated: it may be given several times.
        other_name: its name, where that is not the key's.
    """

    key: str
    help: str
    metavar: str | None = None
    kind: type = str
    default: object = None
    repeated: bool = False
    other_name: str | None = None

    @property
    def name(self) -> str:
        """The key without its table."""
        return self.key.rpartition(".")[2]

    @property
    def option(self) -> str:
        """What is typed."""
        return self.other_name or f"--{self.name.replace('_', '-')}"


#: How a network is run.
_OF_NETWORKS = (
    Flag(
        "workload.schedule",
        "Order of loading and executing layers [default: bulk; of a file of another engine than "
        "torch, whole].",
        "NAME",
    ),
    Flag(
        "workload.loader",
        "How weights are loaded: copy or mmap [default: copy; of a .tflite file mmap, as its "
        "model_path does].",
        "NAME",
    ),
    Flag("workload.batch", "Images in one input.", kind=int, default=1),
    Flag(
        "workload.image",
        "Width and height of the input in pixels [default: the network's].",
        kind=int,
    ),
    Flag("workload.prompt", "Tokens that a language model is given.", kind=int),
    Flag("workload.new_tokens", "Tokens of text that it generates.", kind=int),
    Flag(
        "workload.input",
        "What the network takes: 'NAME=int64 1x128 <1000'; repeat for several [default: as the "
        "model says, or one image].",
        "SPEC",
        repeated=True,
    ),
)
#: How a program is run.
_OF_PROGRAMS = (
    Flag(
        "workload.files",
        "Weights that a program reads: evicted from the page cache before each trial; may be "
        "repeated. Those that its command names are evicted anyway.",
        "PATH",
        repeated=True,
        other_name="--file",
    ),
    Flag(
        "workload.reset",
        "Run this before each trial, to undo what the last changed.",
        "COMMAND",
    ),
    Flag(
        "workload.stop_after",
        "Stop a program that never ends, with all that it started, as 20s. It counts as finished.",
        "DURATION",
        other_name="--for",
    ),
    Flag(
        "workload.throughput_pattern",
        "Instead of lines, a rate that the program prints: a regular expression with one group, "
        "as '([\\d.]+) tokens/s'.",
        "REGEX",
    ),
)
#: Where a trial runs.
_PLACES = (
    Flag(
        "limits.swap",
        "Swap it may use: none, a size as 2G (a temporary swap file), zram:1G, or system.",
        "SWAP",
        default="none",
    ),
    Flag(
        "limits.storage",
        "Speed to hold swap and weights to, as read=90MB/s,read_iops=2000; a kind of storage, as "
        "sd-a1; or as-is. With disk=ram they are on a disk in memory, whatever the machine's own "
        "does.",
        "SPEED",
        default=AS_IS,
    ),
    Flag(
        "limits.board",
        "Board to emulate, as raspberry-pi-4-4g: its memory, cores, storage and swap, but for "
        "those given; see edgebench boards.",
        "NAME",
    ),
)
_OF_SWEEPS = (
    Flag(
        "limits.memory",
        "Limits, as 200M,75% (of demand); may be repeated.",
        "LIMITS",
        repeated=True,
    ),
    Flag(
        "limits.plan",
        "Fresh trials at each limit (grid), or a living process whose limit moves (walk).",
        "PLAN",
        default="grid",
    ),
    Flag("workload.threads", "Number of threads [default: the engine's choice].", kind=int),
    Flag(
        "workload.rounds",
        "Rounds in one process; times are of those after the first, the start.",
        kind=int,
        default=2,
    ),
    Flag("repeats", "Trials at each limit.", kind=int),
    Flag("timeout", "Time limit of a trial.", "DURATION"),
)
FLAGS = {flag.name: flag for flag in (*_OF_NETWORKS, *_OF_PROGRAMS, *_PLACES, *_OF_SWEEPS)}
NETWORK_KEYS = tuple(flag.name for flag in _OF_NETWORKS)
PROGRAM_KEYS = (*(flag.name for flag in _OF_PROGRAMS), "stdin")
PLACE_KEYS = tuple(flag.name for flag in _PLACES)
#: Key of a scenario → the argument or option that sets it, of any verb.
TYPED = {"workload.network": "NETWORK", "workload.command": "COMMAND"}
TYPED |= {flag.key: flag.option for flag in FLAGS.values()}
