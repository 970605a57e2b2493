"""The axes of limits: sizes, shares, ranges, swap, CPU, boards and accelerators."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scenario_making import COMMAND, CONVOLUTION, INFERENCE, TRAINING, load_text, refusal, with_key

from edgebench.boards import find_board
from edgebench.errors import MachineError, ScenarioError
from edgebench.records import LimitSetting
from edgebench.run.sweep.sweep import need_accelerators
from edgebench.scenario.limits import LimitAxes, MemoryRange
from edgebench.scenario.points import points, points_digest
from edgebench.scenario.preview import preview, this_machine
from edgebench.serve.form import FormFiles, check_form
from edgebench.text import MIB, parse_share, parse_size

SIZES = st.integers(1, 4096).map("{}M".format)
SHARES = st.integers(1, 400).map("{}%".format)


def axes(**table: object) -> LimitAxes:
    return LimitAxes.model_validate(table)


def settings_of(**table: object) -> list[LimitSetting]:
    return list(axes(**table).settings())


def number(label: str) -> float:
    share = parse_share(label)
    return share if share is not None else float(parse_size(label) or 0)


def test_every_combination_is_a_setting() -> None:
    swap = {"kind": ["none", "file"], "size": "1G"}
    made = settings_of(memory=["50%", "64M"], swap=swap, cores=[1, 2], cpu_quota=1.5)
    assert len(made) == len(set(made)) == 3 * 2 * 2
    assert made[0] == LimitSetting("max", None, "none", None, 1, 1.5)
    assert LimitSetting("50%", None, "file", 1 << 30, 2, 1.5) in made
    assert LimitSetting("64M", 64 << 20, "none", None, 1, 1.5) in made
    assert axes(memory=["64M", "max"]).memory_labels() == ("max", "64M")


def test_a_range_steps_by_ratios_or_evenly() -> None:
    by_ratio = axes(memory={"from": "1G", "to": "64M", "steps": 5})
    assert by_ratio.memory_labels() == ("max", "1G", "512M", "256M", "128M", "64M")
    evenly = axes(memory={"from": "100%", "to": "25%", "steps": 4, "spacing": "linear"})
    assert evenly.memory_labels() == ("max", "100%", "75%", "50%", "25%")


def test_a_throttle_is_an_axis_like_memory() -> None:
    made = settings_of(memory=["max", "64M"], memory_high=["80%", "200M"])
    found = {(one.label, one.memory_high, one.memory_high_bytes) for one in made}
    throttles = [(None, None), ("80%", None), ("200M", 200 << 20)]
    assert found == {(label, *high) for label in ("max", "64M") for high in throttles}
    with pytest.raises(ValidationError, match="a walk moves the limit of memory alone"):
        axes(memory=["80%", "60%"], memory_high="90%", plan="walk")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('memory = ["75pct"]', "'75pct' is not a size"),
        ('memory = ["150Mb"]', "did you mean '150MB'?"),
        ('memory = ["0M"]', "less than one byte"),
        ('memory = ["0%"]', "not a share above 0%"),
        ('memory = ["150"]', 'did you mean "150M"?'),
        ("memory = [150]", 'did you mean "150M"?'),
        ("memory = [true]", "neither text"),
        ("memory = []", "empty list"),
        ('memory = ["1G", "1024M"]', "'1G' and '1024M' are the same limit"),
        ('memory = ["50%", "50.0%"]', "are the same limit"),
        ('memory = {from = "1G", to = "25%", steps = 3}', "both be sizes or both be shares"),
        ('memory = {from = "max", to = "1G", steps = 3}', '"max" is always added'),
        ('memory = {from = "1G", to = "1024M", steps = 3}', "are the same limit"),
        ('memory = {from = "1G", to = "64M", steps = 1}', "greater than or equal to 2"),
        ('memory = {from = "1G", to = "64M", steps = 101}', "less than or equal to 100"),
        ('memory = {from = "64M", to = "66M", steps = 9}', "ask for fewer steps"),
        ('memory = {from = "1G", to = "64M", steps = 3, spacing = "lin"}', "mean 'linear'?"),
        ('memory = {from = "1G", to = "64M"}', "write steps = 6"),
        ('memory = {from = "1G", to = "64Q", steps = 3}', "'64Q' is not a size"),
        ('swap = "file"', 'it needs a size; write "file:2G"'),
        ('swap = "2Q"', "is not a swap setting"),
        ('swap = {kind = "zram"}', "needs a size"),
        ('swap = {kind = "none", size = "2G"}', "swap of kind 'none' has no size"),
        ('swap = {kind = "file", size = "max"}', "'max' is no size here"),
        ('swap = {kind = "zarm", size = "2G"}', "did you mean 'zram'?"),
        ('swap = {size = "2G"}', "kind: is missing"),
        ("swap = 3", "3 is not a swap setting"),
        ('plan = "walkk"', "did you mean 'walk'"),
        ('storage = "90MB/s"', "is not a storage speed"),
        ('storage = ["read=90MB/s", {read = "90MB/s"}]', "twice"),
    ],
)
def test_limits_that_mean_nothing_are_refused(tmp_path: Path, line: str, says: str) -> None:
    text = with_key(COMMAND, "limits", line)
    told = refusal(tmp_path, text)
    assert says in told
    assert f"line {text.splitlines().index(line) + 1}, limits." in told


@settings(max_examples=30)
@given(
    ends=st.one_of(st.tuples(SIZES, SIZES), st.tuples(SHARES, SHARES)),
    steps=st.integers(2, 12),
    spacing=st.sampled_from(["log", "linear"]),
)
def test_a_range_runs_from_end_to_end(ends: tuple[str, str], steps: int, spacing: str) -> None:
    table = {"from": ends[0], "to": ends[1], "steps": steps, "spacing": spacing}
    try:
        labels = MemoryRange.model_validate(table).labels()
    except ValidationError as error:
        if "fewer steps" in str(error) or "same limit" in str(error):
            reject()
        raise
    assert (labels[0], labels[-1]) == ends
    assert len(labels) == len(set(labels)) == steps
    values = [number(label) for label in labels]
    falling = values[0] > values[-1]
    assert all((a > b) == falling and a != b for a, b in itertools.pairwise(values))


def test_storage_is_an_axis_in_one_spelling(tmp_path: Path) -> None:
    line = 'storage = ["as-is", {read = "90000kB/s", read_iops = 2000}, "write=30MiB/s"]'
    scenario = load_text(tmp_path, with_key(COMMAND, "limits", line))
    labels = ("as-is", "read=90MB/s,read_iops=2000", "write=30MiB/s")
    assert scenario.limits.storage == labels
    found = [(at.storage, at.label) for at in scenario.limits.settings()]
    assert found == list(itertools.product(labels, scenario.limits.memory_labels()))


@pytest.mark.parametrize("word", ["None", 0])
def test_a_scenario_and_the_form_read_it_alike(word: str | int):
    assert axes(swap=word).swap.settings() == [("none", None)]
    assert axes(swap="zram:1G").swap.settings() == [("zram", 1 << 30)]
    sent = {
        "scenario": {"name": "x"},
        "workload": {"kind": "inference", "network": ["lenet"]},
        "limits": {"swap": word},
    }
    assert "faults" not in check_form(sent, FormFiles())


@pytest.mark.parametrize("word", ["disk:1G", True])
def test_a_scenario_names_the_choices(word: str | int):
    with pytest.raises(ValidationError, match=r"2G.*zram:1G.*system.*none"):
        axes(swap=word)


PI, NANO = "raspberry-pi-4-4g", "jetson-nano-4g"


def test_a_board_sets_what_is_not_given():
    unlimited, limited = settings_of(board=PI)
    assert (unlimited.label, limited.label) == ("max", "3800M")
    assert limited.memory_bytes == 3800 * MIB
    for one in (unlimited, limited):
        assert one.board == PI
        assert one.cores == min(4, len(os.sched_getaffinity(0)))
        assert one.storage == "read=50MB/s,write=10MB/s,read_iops=1500,write_iops=500"
        assert (one.swap_kind, one.swap_bytes) == ("zram", 2048 * MIB)


def test_what_is_given_stands_instead():
    (unlimited,) = settings_of(board=PI, memory="max", swap="none", storage="as-is", cores=1)
    assert (unlimited.swap_kind, unlimited.storage, unlimited.cores) == ("none", "as-is", 1)
    _, limited = settings_of(board=PI, swap="1G")
    assert (limited.label, limited.swap_kind, limited.swap_bytes) == ("3800M", "file", 1024 * MIB)


def test_boards_are_an_axis():
    found = settings_of(board=[PI, NANO], storage=["as-is", "emmc"])
    assert len(found) == 8
    assert {(one.board, one.label) for one in found} == {
        *((PI, "max"), (PI, "3800M"), (NANO, "max"), (NANO, find_board(NANO).memory_label))
    }
    assert [one.board for one in settings_of(memory="100M")] == [None, None]


def test_a_file_is_a_board_too(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text('schema = 1\ntitle = "Mine"\nram = "1GiB"\ncores = 1\n')
    _, limited = settings_of(board=str(file))
    assert (limited.label, limited.cores, limited.storage) == ("768M", 1, "as-is")


def test_an_unknown_board_is_refused():
    with pytest.raises(ValidationError, match="did you mean 'jetson-nano-4g'"):
        settings_of(board="jetson-nano")


BOTH = 'accelerator = ["none", "cuda"]'
LIMITS = 'accelerator_memory = ["max", "4G"]'


def with_lines(text: str, *lines: str) -> str:
    for line in lines:
        text = with_key(text, "limits" if "_memory" in line else "workload", line)
    return text


@pytest.mark.parametrize("text", [INFERENCE, TRAINING])
def test_a_limit_of_an_accelerator_is_no_axis_of_the_processor(text: str, tmp_path: Path):
    before = points(load_text(tmp_path, text))
    made = points(load_text(tmp_path, with_lines(text, BOTH, LIMITS)))
    assert points_digest(before) == points_digest([*before]) != points_digest(made)
    own = [point.settings for point in made if "accelerator" not in point.settings]
    assert own == [point.settings for point in before]
    sizes = [(p.settings.get("accelerator"), p.limits.accelerator_bytes) for p in made]
    assert set(sizes) == {(None, None), ("cuda", None), ("cuda", 4 << 30)}
    assert sizes.count((None, None)) == sizes.count(("cuda", 4 << 30))


@pytest.mark.parametrize(
    ("text", "lines", "says"),
    [
        (INFERENCE, ['accelerator = "gpu"'], "no accelerator 'gpu'"),
        (INFERENCE, [LIMITS], "nothing here computes on one"),
        (COMMAND, [LIMITS], "nothing here computes on one"),
        (CONVOLUTION, [BOTH], "accelerator"),
        (INFERENCE, [BOTH, 'schedule = "stream"', 'loader = "mmap"'], "host's memory"),
        (INFERENCE, [BOTH, 'schedule = "admission"'], "host's memory"),
        (TRAINING, [BOTH, 'framework = "tensorflow"', 'network = "alexnet"'], "pytor"),
        (TRAINING, [BOTH, 'trained = "filters 40%"'], "filters"),
        (INFERENCE, [BOTH, 'accelerator_memory = "50%"'], "shares are of the host's demand"),
        (INFERENCE, [BOTH, 'accelerator_memory = "4"'], "less than CUDA takes at once"),
        (INFERENCE, [BOTH, "accelerator_memory = true"], "is no size"),
        (INFERENCE, [BOTH, 'accelerator_memory = "4 GX"'], "GX"),
        (INFERENCE, [BOTH, 'accelerator_memory = ["4G", "4096M"]'], "listed twice"),
    ],
)
def test_what_an_accelerator_can_t_do_is_refused(
    text: str, lines: list[str], says: str, tmp_path: Path
):
    with pytest.raises(ScenarioError, match=re.escape(says)):
        load_text(tmp_path, with_lines(text, *lines))


def test_a_machine_without_cuda_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A preview warns, since it may be another machine's scenario; `run` refuses."""
    reason = "this torch has no CUDA: torch 0.0 is built without it", "install another"
    for place in ("scenario.preview", "run.sweep.sweep"):
        monkeypatch.setattr(f"edgebench.{place}.why_no_cuda", lambda: reason)
    scenario = load_text(tmp_path, with_lines(INFERENCE, BOTH))
    assert ": ".join(reason) in preview(scenario, this_machine()).warnings
    with pytest.raises(MachineError, match="this torch has no CUDA"):
        need_accelerators(points(scenario))
    need_accelerators(points(load_text(tmp_path, INFERENCE)))
