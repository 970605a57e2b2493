"""Networks that run at once: unequal sizes, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_sweep import Shape, make
from made_workloads import MIB, rows
from verb_making import DEVICE, calibration, run, said

from edgebench.cli.predict import predict
from edgebench.slowdown.calibration import save_calibration

ALEXNET, VGG = "alexnet", "vgg11"


def sweep(root: Path, network: str, *weights: int, loader: str = "copy", **about: float) -> Path:
    """Write a sweep of one network, whose layers have these weights in MiB."""
    sizes = {"demand": about["demand"], "library": about["library"]}
    swap = int(about.get("swap", 2048)) * MIB
    shape = Shape(
        {network: len(weights)}, ("bulk",), (None, 150), loader=loader, swap_bytes=swap, **sizes
    )
    path = make(root, shape, DEVICE)
    set_tables(path, {network: weights})
    return path


def set_tables(path: Path, networks: dict[str, tuple[int, ...]]) -> None:
    file = path / "networks.json"
    tables = {name: {"table": rows(*weights)} for name, weights in networks.items()}
    file.write_text(json.dumps({**json.loads(file.read_text()), "networks": tables}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return results of a runtime of 150 MiB, of which 60 are idle."""
    save_calibration(calibration(device=DEVICE), tmp_path)
    return tmp_path


def both(root: Path, swap: int) -> None:
    sweep(root, ALEXNET, 30, 50, demand=200, library=30, swap=swap)
    sweep(root, VGG, 100, 20, loader="mmap", demand=320, library=45, swap=swap)


def test_needs_and_steady_sets_add_up_and_libraries_count_once(folder: Path) -> None:
    """Copied weights leave the idle runtime in swap: 140 of 200 MiB; mapped ones use all of 320."""
    both(folder, 2048)
    words = (f"{ALEXNET}+{VGG}", "--together", "--results", folder, "--memory", "480M,400M")
    found = json.loads(run(predict, *words, "--json"))
    sizes = [
        (p["network"], p["needs_bytes"] / MIB, p["steady_bytes"] / MIB) for p in found["networks"]
    ]
    assert sizes == [(ALEXNET, 200, 140), (VGG, 320, 320)]
    whole = [found[f"{name}_bytes"] / MIB for name in ("needs", "steady", "library")]
    assert whole == [520, 460, 45]
    at = [
        (one["limit_bytes"] / MIB, one["finishes"], one["excess_bytes"] / MIB)
        for one in found["at"]
    ]
    assert at == [(480, True, 0), (400, True, 60)]
    assert found["shrink"] == VGG
    lines = [" ".join(line.split()) for line in run(predict, *words).splitlines()]
    assert lines[0] == "alexnet + vgg11 needs 520 MiB libraries 45 MiB, once"
    assert lines[2:5] == [
        "alexnet bulk, copy 200 MiB 140 MiB",
        "vgg11 bulk, mmap 320 MiB 320 MiB",
        "together 520 MiB 460 MiB",
    ]
    assert lines[6:] == ["480 MiB yes no", "400 MiB yes at least 60 MiB vgg11"]


@pytest.mark.parametrize(("limit", "finishes"), [(397, True), (390, None), (371, False)])
def test_mapped_weights_need_no_swap_but_the_rest_does(
    folder: Path, limit: int, finishes: bool | None
) -> None:
    """200 and 320 - 120 MiB beside 16 of swap: known to 3 % of 400."""
    both(folder, 16)
    words = (f"{ALEXNET}+{VGG}", "--together", "--results", folder, "--memory", f"{limit}M")
    (at,) = json.loads(run(predict, *words, "--json"))["at"]
    assert at["finishes"] is finishes


def test_a_network_that_never_ran_is_told_from_its_layers(folder: Path) -> None:
    """150 + 100 of weights + 4 of tensors; 60 of the runtime are idle; known to 8 % of 454."""
    path = sweep(folder, ALEXNET, 30, 50, demand=200, library=30, swap=64)
    set_tables(path, {ALEXNET: (30, 50), "other": (40, 60)})
    words = (f"{ALEXNET}+other", "--together", "--results", folder, "--memory", "360M,353M")
    found = json.loads(run(predict, *words, "--json"))
    assert found["networks"][1]["needs_bytes"] == 254 * MIB
    assert found["networks"][1]["library_bytes"] is None
    assert found["steady_bytes"] == (140 + 194) * MIB
    assert [one["finishes"] for one in found["at"]] == [None, False]


@pytest.mark.parametrize(
    "words",
    [(ALEXNET,), (), (f"{ALEXNET}+{VGG}", "--storage", "as-is"), (f"{ALEXNET}+{VGG}", "--probe")],
)
def test_together_is_of_two_networks_where_they_were_measured(
    root: Path, words: tuple[str, ...]
) -> None:
    assert "--together is of two networks or more" in said(
        predict, *words, "--together", "--results", root
    )
