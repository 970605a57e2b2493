"""A point's ledgers between trials whose every figure is given: each term, with its sign."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from looking import MIB, PARTS, look, resident, usage

from edgebench.analysis import reconciliation
from edgebench.analysis.ledgers import (
    PointLedgers,
    SpanBoundary,
    size_at_boundary,
)
from edgebench.analysis.ledgers import boundary_nearest_trial_peak as nearest
from edgebench.errors import ResultsError
from edgebench.measures.ledger import (
    Figure,
    Ledger,
    Term,
    charged_to_own,
    own_to_malloc,
    resident_to_charged,
)
from edgebench.measures.strategies import ErrorBar, Reading, SpanReading, TrialData, with_own_trial
from edgebench.measures.strategies.heap_profilers import Tcmalloc
from edgebench.measures.strategies.process import Malloc, Process
from edgebench.measures.strategies.recorded import KernelMark
from edgebench.records import LimitSetting, TrialRecord, WalkReport
from edgebench.results.frames import SpanKey, TrialReadings
from edgebench.spans import Span

EXACT = ErrorBar(0, "made up")
LOAD, FIRST = (SpanKey(phase, 0, "net", 0, 0) for phase in ("load", "first"))
BARE = {"weights": 0, "swapped": 0}
#: What the process holds: at its start, after import, building, loading, executing, the round.
LOOKS = (
    look(malloc=10, arenas=5, **BARE),
    look(malloc=30, **BARE),
    look(malloc=36, **BARE),
    look(malloc=39) | {"key_value_cache_bytes": 14 * MIB},
    look() | {"code_areas_bytes": 13 * MIB},
    look(malloc=47, weights=0),
)
#: Each span: id, phase, layer, from and to which look; MiB of the kernel's mark and of VmHWM above
#: the larger end; the largest resident set so far, MiB, in the timed trial.
SPANS = (
    (0, "import", None, 0, 1, 5, 1, 140),
    (1, "init", None, 1, 2, 1, 1, 150),
    (2, "round", None, 2, 5, 40, 50, 226),
    (3, "load", 0, 2, 3, 2, 6, 226),
    (4, "first", 0, 3, 4, 3, 4, 226),
)


def record(trial: str = "0001", **values: Any) -> TrialRecord:
    settings = {"kind": "inference", "networks": ["net"], "schedule": "bulk", "loader": "copy"}
    known: dict[str, Any] = {"outcome": "ok", "started_utc": "", "settings": settings}
    known |= {"point": "p1", "block": 0, "repeat": 0, "limits": LimitSetting()}
    return TrialRecord(trial, **(known | values))


def events(looks: bool) -> list[dict[str, Any]]:
    found = []
    for number, phase, layer, start, end, over, over_rss, maxrss in SPANS:
        ends = LOOKS[start], LOOKS[end]
        of_round = number > 1
        place = {"round": 0 if of_round else None, "name": "conv" if layer == 0 else None}
        place |= {"network": "net" if layer == 0 else None, "layer": layer, "thread": 0}
        # The timed trial's kernel saw 6 MiB more in each span.
        peak = max(map(usage, ends)) + (over + (0 if looks else 6)) * MIB
        about = [{"event": "start", "phase": phase, **place}, {"event": "end", "peak_bytes": peak}]
        about[1] |= {"maxrss_bytes": maxrss * MIB, "cpu_ns": 1}
        about[1] |= {"view_peak_bytes": max(map(resident, ends)) + over_rss * MIB} if looks else {}
        # A round ends after its layers, which begin after it.
        times = start * 10 + (number > 2), end * 10
        for event, seen, t_ns in zip(about, ends, times, strict=True):
            more = {"view": seen} if looks else {}
            found.append({**event, **more, "id": number, "t_ns": t_ns, "usage_bytes": usage(seen)})
            found[-1] |= {"swap_bytes": seen["swap_bytes"]}
    return sorted(found, key=lambda event: event["t_ns"])


def reading(name: str, peak: int, spans: dict[int, tuple[int, int, int]], **parts: int) -> Reading:
    """MiB: the whole trial's peak, and of each span before, peak and after."""
    sizes = {number: [size * MIB for size in found] for number, found in spans.items()}
    seen = tuple(SpanReading(number, *found) for number, found in sizes.items())
    told = {part: size * MIB for part, size in parts.items()}
    return Reading(name, peak * MIB, "told", EXACT, seen, "told", EXACT, parts=told)


def trial(made: TrialRecord, data: TrialData, *readings: Reading) -> TrialReadings:
    return TrialReadings(made, data, {one.strategy: one for one in readings})


def stat(*rows: tuple[int, int, int, int, int]) -> dict[str, list[int]]:
    """Samples: a time, and MiB of anonymous, file, mapped file and kernel memory."""
    names = ("anon", "file", "mapped_file", "kernel")
    columns = {f"{name}_bytes": [row[n] * MIB for row in rows] for n, name in enumerate(names, 1)}
    return {"t_ns": [row[0] for row in rows], **columns}


def point(limit_bytes: int | None = None, **settings: str) -> PointLedgers:
    given = {**record().settings, **settings}
    timed = record(settings=given, limit_bytes=limit_bytes)
    own = record("0002", settings=given, peak_bytes=272 * MIB, peak_source="kernel")
    seen = events(looks=True)
    data = TrialData(seen, own, cpus=2, stat=stat((25, 119, 35, 11, 20), (39, 180, 32, 11, 24)))
    process = trial(own, data, *(one().read(data) for one in (Process, Malloc, KernelMark)))
    heap = {0: (0, 33, 33), 1: (33, 41, 41), 2: (41, 190, 60), 3: (41, 44, 44), 4: (44, 190, 157)}
    tensors = {1: (0, 2, 2), 2: (2, 33, 5), 3: (2, 21, 17), 4: (17, 33, 25)}
    plain = TrialData(events(looks=False), timed)
    whole = [reading(name, size, {}) for name, size in (("sampled", 288), ("kernel", 300))]
    model = reading("analytic", 130, {3: (0, 130, 125), 4: (125, 128, 120)})
    rows = stat((25, 100, 32, 12, 22), (39, 185, 60, 12, 31))
    return PointLedgers(
        trial(timed, replace(plain, stat=rows), *whole, model, reading("gnu-time", 290, {})),
        {
            "process": process,
            "memray": trial(timed, plain, reading("memray", 190, heap, parameters=40)),
            "torch": trial(timed, plain, reading("torch", 33, tensors)),
        },
    )


def told(ledgers: list[Ledger]) -> dict[tuple[str, str], tuple[int, int, dict[str, int]]]:
    return {
        (one.source.strategy, one.target.strategy): (
            one.source.size_bytes // MIB,
            one.target.size_bytes // MIB,
            {term.name: term.size_bytes // MIB for term in one.terms},
        )
        for one in ledgers
    }


#: Resident 281 = 180 own + 92 of files + 9 shared; charged 268. See looking.py.
CHARGED = {"page-cache": 42, "swap-cache": 4, "other-processes": 7}
KERNEL = {"page-tables": 19, "kernel-memory": 5}
TO_KERNEL = {"other-moment": -4, "file-pages-elsewhere": -90, **CHARGED, **KERNEL, "inside-span": 3}
TO_OWN = {name: -size for name, size in {**CHARGED, **KERNEL}.items()}
PAST_MALLOC = {"allocator-free": -3, "python-arenas": -50, "library-data": -6, "stack": -1}
WHOLE = {
    ("sampled", "kernel"): (288, 300, {"between-samples": 12}),
    # GNU time's mark was set in loading: VmHWM 226 there. Without page cache that nobody mapped,
    # 209 − 24 against 215 − 20.
    ("gnu-time", "process"): (290, 285, {"other-moment": 59, "other-trial": -10}),
    ("process", "kernel"): (285, 272, TO_KERNEL),
    ("kernel", "kernel"): (272, 300, {"page-cache": 28, "other-trial": 5, "kernel-memory": 7}),
    ("kernel", "process-own"): (
        271,
        200,
        {"inside-span": -3, "mapped-files": -11, **TO_OWN, "swapped-out": 20},
    ),
    ("process-own", "malloc"): (200, 100, {"weights": -40, **PAST_MALLOC}),
    ("process-own", "memray"): (
        200,
        157,
        {**PAST_MALLOC, "runtime-otherwise": 3, "code-areas": 13},
    ),
    # malloc: 30 after import, 36 after building of which 2 torch's; 47 − 5 after the round.
    ("malloc", "torch"): (
        100,
        33,
        {"runtime-import": -30, "build": -4, "other-moment": 8, "kernel-caches": -8},
    ),
    ("memray", "torch"): (
        157,
        33,
        {"runtime-import": -33, "build": -6, "other-moment": 8, "kernel-caches": -16}
        | {"weights": -40},
    ),
    ("torch", "analytic"): (33, 130, {"weights": 40, "key-value-cache": -14, "other-moment": -12}),
}


@pytest.mark.parametrize("ends", WHOLE)
def test_a_whole_trial_s_ledgers(ends: tuple[str, str]) -> None:
    found = told(point().whole())
    assert set(found) == set(WHOLE)
    assert found[ends] == WHOLE[ends]


def test_a_layer_s_ledgers() -> None:
    assert told(point().of_span(FIRST)) == {
        ("process", "kernel"): (285, 271, TO_KERNEL),
        ("kernel", "process-own"): WHOLE["kernel", "process-own"],
        ("torch", "analytic"): (33, 128, {"weights": 40}),
    }
    assert told(point().of_span(LOAD))["torch", "analytic"] == (
        21,
        130,
        {"weights": 40, "key-value-cache": -14},
    )


def test_a_layer_has_a_size_at_each_of_its_ends() -> None:
    """MiB, of loading; none where the strategy did not see it."""
    memray = point().own["memray"]
    sizes = [size_at_boundary(memray, "memray", LOAD, end) for end in (False, True)]
    assert sizes == [41 * MIB, 44 * MIB]
    assert size_at_boundary(memray, "torch", LOAD) is None


def test_each_layer_of_the_first_round_has_its_figures() -> None:
    """MiB, of every strategy that saw it; none of phases and rounds, or of another network."""
    found = {layer.key: layer.figures for layer in reconciliation._layers(point(), "net")}
    assert list(found) == [LOAD, FIRST]
    sizes = {name: [size and size // MIB for size in sized] for name, sized in found[LOAD].items()}
    assert (sizes["memray"], sizes["torch"]) == ([41, 44, 44], [2, 21, 17])
    assert (sizes["analytic"], sizes["malloc"]) == ([0, 130, 125], [36, 39, 39])
    assert list(reconciliation._layers(point(), "another")) == []


def test_mapped_weights_are_no_memory_of_the_process() -> None:
    found = told(point(loader="mmap").whole())
    assert "weights" not in found["process-own", "malloc"][2]
    assert found["process-own", "memray"][2]["weights"] == 40
    few = point(loader="mmap")
    blind = reading("memray", 190, {4: (44, 190, 157)}, parameters=1)
    few.own["memray"].readings["memray"] = blind
    assert "weights" not in told(few.whole())["process-own", "memray"][2]


def test_what_a_round_leaves_is_known_where_both_saw_its_end() -> None:
    """Torch's profiler did not: no term is made up."""
    some = point()
    some.own["torch"].readings["torch"] = reading(
        "torch", 33, {1: (0, 2, 2), 3: (2, 21, 17), 4: (17, 33, 25)}
    )
    terms = {**WHOLE["malloc", "torch"][2]}
    del terms["kernel-caches"]
    assert told(some.whole())["malloc", "torch"][2] == terms


def test_under_a_limit_page_cache_changes_while_the_peak_stays() -> None:
    """So no other trial's is told from the marks of a span; nor without samples."""
    unsampled = point()
    unsampled = replace(
        unsampled, timed=replace(unsampled.timed, seen=replace(unsampled.timed.seen, stat={}))
    )
    assert told(unsampled.whole())["gnu-time", "process"][2] == {"other-moment": 59}
    assert told(point(96 * MIB).whole())["gnu-time", "process"][2] == {"other-moment": 59}


def at(kernel: int, usage_mib: int, process: int, rss: int = 0, end: bool = True) -> SpanBoundary:
    seen = {f"rss_{kind}_bytes": 0 for kind in ("file", "shmem")} | {"rss_anon_bytes": rss * MIB}
    span = Span(1, "first", 0, "net", 0, "conv", 0, 5, 9, *[None] * 8)
    sizes = (size * MIB for size in (usage_mib, kernel, process))
    return SpanBoundary(FIRST, span, end, seen, {}, *sizes)


def test_figures_are_compared_where_the_trial_was_largest() -> None:
    """Of those as near as the kernel counts, where the process was: by its mark, then resident."""
    known = [
        *(at(133, 130, 80), at(132, 131, 90), at(130, 128, 95, 60), at(130, 131, 95, 70)),
        *(at(120, 120, 300), at(133, 120, 200)),
    ]
    assert nearest(known, 4 * MIB) is known[3]
    assert nearest(known, 0) is known[0]
    assert nearest([], 0) is None
    # Usage beyond the mark, as the kernel's batches show it, is as far as usage below it.
    ends = [at(133, 140, 1), at(133, 130, 1)]
    assert [end.distance_bytes // MIB for end in ends] == [7, 3]


def test_the_timed_trial_in_the_middle_is_reconciled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of fresh ones that finished; a strategy's cost is beside their median, 7 s."""
    monkeypatch.setattr(Tcmalloc, "unavailable", lambda _: None)

    def read(_: Any, one: TrialRecord) -> TrialReadings:
        return trial(one, TrialData([], one), KernelMark().read(TrialData([], one)))

    monkeypatch.setattr(reconciliation, "read_trial", read)
    walls = {"0001": 4.0, "0002": 10.0, "0003": 7.0}
    timed = [record(name, wall_s=wall, limit_bytes=96 * MIB) for name, wall in walls.items()]
    timed += [record("0004", wall_s=1.0, outcome="failed")]
    timed += [record(f"000{n}", wall_s=2.0, walk=WalkReport("0005", 2)) for n in (5, 6)]
    own = [record("0009", wall_s=21.0, strategy="process"), record("0010", strategy="torch")]
    sweep: Any = SimpleNamespace(records=timed, strategy_records=own, path="here")
    (found,) = reconciliation.reconcile_sweep(sweep)
    assert (found.record.trial, found.costs) == ("0003", {"process": 3.0})
    assert found.title.endswith("at 96 MiB · trial 0003")
    assert found.missing.keys() >= {"massif", "memray"}
    assert not found.missing.keys() & {"process", "torch"}
    (found,) = reconciliation.reconcile_sweep(sweep, trial="0002")
    assert found.record.trial == "0002"
    sweep.records = timed[3:]
    (found,) = reconciliation.reconcile_sweep(sweep)
    assert (found.record.trial, found.costs) == ("0006", {"process": 10.5})


@pytest.mark.parametrize(
    ("missing", "reason", "says"),
    [
        ({"reading": "no symbols"}, "killed", "no symbols"),
        ({}, "killed", "killed"),
        ({}, None, "no reading"),
    ],
)
def test_why_a_strategy_of_the_point_is_missing(
    missing: dict[str, str], reason: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trial says it; one of another point is none; what needs a limit is not missed here."""
    monkeypatch.setattr(Tcmalloc, "unavailable", lambda _: "no libtcmalloc here")

    def read(_: Any, one: TrialRecord) -> TrialReadings:
        if one.strategy == "torch":
            raise ResultsError("no reading")
        return trial(one, TrialData([], one))

    monkeypatch.setattr(reconciliation, "read_trial", read)
    own = [record("0002", strategy="torch", missing=missing, reason=reason)]
    own += [record("0003", strategy="process"), record("0004", strategy="memray", point="p2")]
    sweep: Any = SimpleNamespace(strategy_records=own)
    trials, found = reconciliation._own_trials(sweep, record())
    assert list(trials) == ["process"]
    assert found["torch"] == says
    lacks = 'no trial of its own: [memory] strategies = ["{}"] in the scenario'
    assert found["memray"].startswith(lacks.format("memray"))
    assert found["tcmalloc"] == lacks.format("tcmalloc") + "; no libtcmalloc here"
    limited = reconciliation._own_trials(sweep, record(limit_bytes=96 * MIB))[1]
    only = {name for name, one in with_own_trial().items() if one.limited_only}
    assert set(limited) - set(found) == {n for n in only if with_own_trial()[n].tells_memory}


def ledger(source: int, target: int, *terms: Term) -> Ledger:
    ends = (
        Figure(name, size, "0001", "peak", EXACT) for name, size in (("a", source), ("b", target))
    )
    return Ledger(*ends, terms)


def test_version_2_tells_page_tables_itself() -> None:
    seen = look() | {"charged_page_tables_bytes": 3 * MIB}
    terms = {term.name: term.size_bytes for term in resident_to_charged(seen)}
    assert terms["page-tables"] == 3 * MIB
    assert ledger(resident(seen), usage(seen), *resident_to_charged(seen)).unexplained_bytes == 0


def test_what_a_look_does_not_tell_is_nothing() -> None:
    terms = [*resident_to_charged({}), *charged_to_own({}), *own_to_malloc({}, {}, True)]
    assert {term.size_bytes for term in terms} == {0}


def test_an_older_kernel_leaves_more_unexplained() -> None:
    seen = look()
    told = {k: v for k, v in seen.items() if not k.startswith("charged_kernel")}
    terms = resident_to_charged(told)
    assert "kernel-memory" not in {term.name for term in terms}
    rest = ledger(resident(seen), usage(seen), *terms).unexplained_bytes
    assert rest == PARTS["kernel"] * MIB


@pytest.mark.parametrize(
    ("size_mib", "rest_mib", "closes"),
    [(50, 2, True), (50, 2.1, False), (400, 8, True), (400, -8.1, False)],
)
def test_a_rest_is_small_up_to_a_fiftieth_or_2_mib(
    size_mib: int, rest_mib: float, closes: bool
) -> None:
    size, rest = size_mib * MIB, round(rest_mib * MIB)
    made = ledger(size - max(rest, 0), size - max(rest, 0) + rest)
    assert made.unexplained_bytes == rest
    assert made.closes is closes
