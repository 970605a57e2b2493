"""Fuzzing that follows coverage (atheris): whatever reads bytes that come from elsewhere.

``python -m tests.trust.guided_fuzz TARGET [SECONDS [SEED]]``; without words, the targets; without a
seed, other inputs each time. A reader may refuse in words; with anything else it fails, and the
input is kept in the working folder.
"""

from __future__ import annotations

import contextlib
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["edgebench"]):
    from edgebench.cgroups.interface import parse_counters
    from edgebench.cgroups.parent import parse_mounts, parse_own_paths
    from edgebench.errors import EdgebenchError
    from edgebench.measures.strategies.gnu_time import read_report
    from edgebench.measures.strategies.massif import parse_massif
    from edgebench.measures.strategies.tcmalloc import parse_dump
    from edgebench.results.sweep_reader import read_records
    from edgebench.run.process import WorkloadProcess
    from edgebench.scenario.scenario import load_scenario
    from edgebench.spans import events_to_phases, unfinished_span

from tests.trust import sound

_LONGEST = 1 << 14
_MOST_MB = 1024


def _file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """What reads a file, given its bytes."""
    path = Path(tempfile.mkdtemp(prefix="guided-")) / "any.toml"

    def target(data: bytes) -> object:
        path.write_bytes(data)
        return read(path)

    return target


def _report(path: Path) -> object:
    with path.open("rb") as file:
        return read_report(file.fileno())


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: read(data.decode(errors="replace"))


def _events(data: bytes) -> object:
    watched = WorkloadProcess()
    try:
        watched.events.data += data
        events, _ = watched.event_list()
    finally:
        watched.close()
    return events_to_phases(events), unfinished_span(events)


#: Name → what it feeds, and an input that is sound.
TARGETS: dict[str, tuple[Callable[[bytes], object], bytes]] = {
    "scenario": (_file(load_scenario), sound.SCENARIO),
    "trials": (_file(lambda path: list(read_records(path, []))), sound.trials()),
    "events": (_events, sound.events()),
    "gnu-time": (_file(_report), sound.REPORT),
    "heap-dump": (_text(lambda text: parse_dump(text, "any")), sound.DUMP),
    "massif": (_text(lambda text: parse_massif(text, "any")), sound.MASSIF),
    "cgroup-file": (_text(parse_counters), sound.CGROUP_FILE),
    "mounts": (_text(lambda text: (parse_mounts(text), parse_own_paths(text))), sound.MOUNTS),
}


def main(name: str, seconds: int, seed: int) -> None:
    """Feed one target for so long; atheris ends the process."""
    feed, good = TARGETS[name]
    corpus = Path(tempfile.mkdtemp(prefix="guided-"))
    (corpus / "sound").write_bytes(good)

    def once(data: bytes) -> None:
        with contextlib.suppress(EdgebenchError):
            feed(data)

    # A process begins with its starter's high-water mark: libFuzzer would take that for its own.
    inherited_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    words = [
        *(f"-max_total_time={seconds}", f"-max_len={_LONGEST}", f"-seed={seed}"),
        *(f"-rss_limit_mb={inherited_mb + _MOST_MB}", str(corpus)),
    ]
    atheris.Setup([sys.argv[0], *words], once)
    atheris.Fuzz()


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(" ".join(TARGETS))
    given = [int(word) for word in sys.argv[2:]]
    # libFuzzer takes 0 for none.
    main(sys.argv[1], *given, *(60, 0)[len(given) :])
