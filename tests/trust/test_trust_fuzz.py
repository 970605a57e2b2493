"""Whatever a file holds: it is read, or refused in words. Nothing else may come out."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import edgebench
from edgebench.cgroups.interface import parse_counters
from edgebench.cgroups.leftovers import claims
from edgebench.cgroups.parent import parse_mounts, parse_own_paths
from edgebench.cli.show import show
from edgebench.errors import EdgebenchError, ResultsError, UsageError
from edgebench.measures.gnu_time import read_report
from edgebench.measures.strategies.heap_profilers import parse_massif
from edgebench.records import is_number
from edgebench.scenario.scenario import load_scenario
from edgebench.serve.helper_process import sweep_answer
from edgebench.serve.history import sweep_name, sweep_rows, trial_detail
from edgebench.slowdown.calibration import load_calibration, save_calibration
from edgebench.spans import events_to_phases, unfinished_span
from edgebench.text import parse_duration, parse_share, parse_size
from tests.results.results_making import inference_events, make_sweep
from tests.slowdown.verb_making import calibration
from tests.trust.garbage import EVIL, spoil, torn

#: How many times as many inputs as in a usual run, and at random.
_MORE = int(os.environ.get("EDGEBENCH_FUZZ", "0"))


fuzz = settings(
    max_examples=60 * max(1, _MORE),
    deadline=None,
    derandomize=not _MORE,
    database=None,
    suppress_health_check=list(HealthCheck),
)
#: Where each input makes every table and frame of a sweep.
fuzz_sweep = settings(fuzz, max_examples=8 * max(1, _MORE))
chances = st.integers(0, 2**32).map(random.Random)
SCENARIO = (Path(__file__).parents[2] / "scenarios" / "quickstart.toml").read_bytes()
MASSIF = (
    b"desc: --time-unit=ms\ncmd: ./program\ntime_unit: ms\n#-----------\nsnapshot=0\n#-----------\n"
    b"time=120\nmem_heap_B=1000\nmem_heap_extra_B=24\nmem_stacks_B=0\nheap_tree=peak\n"
    b"n1: 1000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n"
    b" n0: 1000 0x109156: main (program.c:7)\n"
)
MOUNTS = b"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
REPORT = (
    b'{"wall_s":1.5,"user_s":1.0,"system_s":0.1,"maxrss_kib":9000,"major_faults":1,'
    b'"minor_faults":9,"voluntary_switches":3,"involuntary_switches":2,"exit_code":0}\n'
)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sweep(tmp_path_factory.mktemp("fuzz"))


@contextlib.contextmanager
def put(file: Path, data: bytes) -> Iterator[None]:
    before = file.read_bytes()
    file.write_bytes(data)
    try:
        yield
    finally:
        file.write_bytes(before)


def said_of(path: Path) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        try:
            for words in ([str(path)], [str(path), "--json"]):
                show.main(words, standalone_mode=False)
            loaded = edgebench.load(path)
            for frame in (loaded.trials, loaded.phases, loaded.layers, loaded.networks):
                assert list(frame.columns)
            json.dumps([sweep_answer(path), sweep_rows(path.parents[1])])
            trial_detail(path.parents[1], sweep_name(path), "0001")
        except EdgebenchError as error:
            return f"{told.getvalue()}{error.what}"
    return told.getvalue()


def harmless(text: str) -> bool:
    """Whether a terminal would only show it."""
    return not any(ord(c) < 32 and c not in "\n\t" for c in text) and "\u202e" not in text


def lines_of(path: Path) -> list[bytes]:
    return (path / "trials.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.promise("No text of a workload or of a file can send control codes to the terminal.")
@fuzz_sweep
@given(chance=chances)
def test_any_line_among_the_trials(sweep: Path, chance: random.Random) -> None:
    lines = lines_of(sweep)
    good = json.loads(lines[0])
    line = json.dumps(spoil(chance, good)).encode() + b"\n"
    with put(sweep / "trials.jsonl", b"".join([*lines[1:5], line, *lines[5:]])):
        assert harmless(said_of(sweep))
        assert len(edgebench.load(sweep).trials) >= len(lines) - 2


@fuzz_sweep
@given(chance=chances)
def test_any_events(sweep: Path, chance: random.Random) -> None:
    drawn = spoil(chance, inference_events())
    events = [e for e in drawn if isinstance(e, dict)] if isinstance(drawn, list) else []
    events_to_phases(e for e in events if isinstance(e.get("event"), str))
    unfinished_span(e for e in events if isinstance(e.get("event"), str))
    lines = "".join(json.dumps(event) + "\n" for event in events).encode()
    with put(sweep / "events" / "0001.jsonl.gz", gzip.compress(lines, 1)):
        assert harmless(said_of(sweep))


@pytest.mark.parametrize(
    "file",
    [
        *("trials.jsonl", "resolved.json", "environment.json", "networks.json"),
        *("events/0001.jsonl.gz", "samples/0001.npz"),
    ],
)
@fuzz_sweep
@given(chance=chances)
def test_any_bytes_of_a_sweeps_files(sweep: Path, file: str, chance: random.Random) -> None:
    with put(sweep / file, torn(chance, (sweep / file).read_bytes())):
        assert harmless(said_of(sweep))
        with contextlib.suppress(EdgebenchError):
            edgebench.load(sweep).samples("0001")


@pytest.mark.promise(
    "No trial's id and no device name can be used to read or write outside the results."
)
@pytest.mark.parametrize("name", EVIL)
def test_evil_names_of_trials_read_nothing_else(sweep: Path, name: str) -> None:
    loaded = edgebench.load(sweep)
    for read in (loaded.samples, loaded.stat, loaded.events):
        with pytest.raises(ResultsError):
            read(name)


@fuzz
@given(chance=chances)
def test_any_calibration(tmp_path_factory: pytest.TempPathFactory, chance: random.Random) -> None:
    root = tmp_path_factory.getbasetemp()
    (root / "board").mkdir(exist_ok=True)
    path = save_calibration(calibration(), root)
    path.write_text(json.dumps(spoil(chance, json.loads(path.read_text()))))
    with contextlib.suppress(EdgebenchError):
        load_calibration(root, "board", "file")


def report_of(file: Path) -> None:
    with file.open("rb") as opened:
        report = read_report(opened.fileno())
    assert report is None or all(map(is_number, asdict(report).values()))


def counters_of(file: Path) -> None:
    assert all(isinstance(number, int) for number in parse_counters(text_of(file)).values())


def text_of(file: Path) -> str:
    return file.read_text(errors="replace")


#: Readers of a file, and one that is sound.
READERS: dict[str, tuple[Callable[[Path], object], bytes]] = {
    "scenario": (load_scenario, SCENARIO),
    "massif": (lambda file: parse_massif(text_of(file)), MASSIF),
    "counters": (counters_of, b"total_rss 5\nsome avg10=0.0 total=7\n8:0 Read 4096\n12\n"),
    "mounts": (lambda file: parse_mounts(text_of(file)), MOUNTS),
    "paths": (lambda file: parse_own_paths(text_of(file)), b"4:memory:/docker/abc\n0::/x\n"),
    "claims": (lambda file: list(claims(file)), b'["claim", "cgroup", "/a/b"]\n["release", "c"]\n'),
    "GNU time": (report_of, REPORT),
}


@pytest.mark.promise(
    "Scenarios, results, heap dumps, calibrations and cgroup files with any content are read, "
    "or refused with a message."
)
@pytest.mark.parametrize("kind", READERS)
@fuzz
@given(chance=chances)
def test_any_bytes_of_a_file(
    tmp_path_factory: pytest.TempPathFactory, kind: str, chance: random.Random
) -> None:
    read, good = READERS[kind]
    file = tmp_path_factory.getbasetemp() / "any.toml"
    file.write_bytes(good)
    read(file)
    file.write_bytes(torn(chance, good))
    with contextlib.suppress(EdgebenchError):
        read(file)


@fuzz
@given(
    st.sampled_from(EVIL)
    | st.text(max_size=8)
    | st.from_regex(r"[0-9]{1,400}(\.[0-9]{1,400})?[a-zA-Z%]{0,3}")
)
def test_any_words_for_sizes_and_times(text: str) -> None:
    """A number with a unit, or a refusal; never endless."""
    for read in (parse_size, parse_share, parse_duration):
        with contextlib.suppress(UsageError):
            found = read(text)
            assert found is None or 0 < found < float("inf")


@pytest.mark.promise("A compressed file that unpacks to more than memory is refused.")
def test_a_small_file_that_unpacks_to_more_than_memory(
    sweep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros pack a thousandfold: such events are refused before they are unpacked."""
    monkeypatch.setattr("edgebench.results.sweep_reader._MOST_BYTES", 1 << 20)
    packed = put(sweep / "events" / "0001.jsonl.gz", gzip.compress(bytes(1 << 22)))
    with packed, pytest.raises(ResultsError, match="unpacks to more than"):
        edgebench.load(sweep).events("0001")
    monkeypatch.setattr("edgebench.results.sweep_reader._MOST_VALUES", 10_000)
    packed = put(sweep / "events" / "0001.jsonl.gz", gzip.compress(b"{}\n" * 9_000))
    with packed, pytest.raises(ResultsError, match="holds more than 10,000 values"):
        edgebench.load(sweep).events("0001")
