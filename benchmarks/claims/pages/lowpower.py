"""docs/studies/lowpower.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from claims.kept import MIB, study, sweep
from claims.texts import Claim, says, table

PAGE = "docs/studies/lowpower.md"
FAMILIES = (
    *("convolution", "batch normalisation", "activation", "pooling"),
    "optimizer",
)
PASSES = ("forward", "forward + backward")
PARTS = (
    *("all", "last", "none", "layers 20%", "layers 40%"),
    *("filters 20%", "filters 40%"),
)


def claims() -> Iterator[Claim]:
    """In the page's order."""
    yield from _operators()
    yield from _convolution()
    _unbent()
    yield table("ResNet-18, synthetic images of", map(_part, PARTS))
    yield from _partial()


def _operators() -> Iterator[Claim]:
    from edgebench.analysis.studies.phases import operator_tables

    tables = [made.to_json()["rows"] for made in operator_tables(sweep("operators"))]
    by_family = [{row["family"]: row for row in rows} for rows in tables[::2]]
    yield table("one profiled trial of each network:", _families(by_family))


def _families(networks: list[dict[str, Any]]) -> Iterator[list[str]]:
    for family in FAMILIES:
        yield [family, *(x for of in networks for x in _time(of[family]["own_s"], of))]
    rest = [[of[family]["own_s"] for family in of if family not in FAMILIES] for of in networks]
    told = zip(rest, networks, strict=True)
    yield ["everything else", *(x for some, of in told for x in _time(sum(some), of))]


def _time(own_s: float, of: dict[str, Any]) -> tuple[str, str]:
    share = own_s / sum(row["own_s"] for row in of.values())
    return f"{own_s * 1e3:.1f}", f"{100 * share:.1f} %"


def _image(scenario: str, work: str, kernel: int, batch: int, what: str = "image_s") -> float:
    """Seconds or bytes an image of one convolution."""
    wanted = {"work": work, "kernel": kernel, "batch": batch, "stack": 1}
    (row,) = (
        row
        for row in study(scenario)["Time and memory of a convolution per image"]
        if all(row[key] == value for key, value in wanted.items())
    )
    return float(row[what])


def _convolution() -> Iterator[Claim]:
    kernels, batches = (1, 3, 5, 7), (1, 4, 16, 64)
    yield table(
        "Three trials of each, milliseconds an image:",
        (
            [k, *(f"{_image('conv-batch', w, k, b) * 1e3:.1f}" for w in PASSES for b in batches)]
            for k in kernels
        ),
    )
    small, large = (_image("conv-batch", "forward", kernel, 16) for kernel in (1, 7))
    yield says("the arithmetic of 1 × 1 and takes {} times as long", f"{large / small:.1f}")
    first, last = (
        [_image("conv-batch", PASSES[1], kernel, batch, "image_bytes") / MIB for kernel in kernels]
        for batch in (1, 64)
    )
    assert len({f"{mib:.0f}" for mib in last}) == 1
    yield says(
        "memory an image falls: {} to {} MiB at a batch of 1, {} MiB at 64",
        *(f"{mib:.0f}" for mib in (min(first), max(first), last[0])),
    )


def _unbent() -> None:
    """The page says that no convolution bends along kernels beyond a batch of one."""
    along = study("conv")["Bends of the time per image"]
    assert all(row["at"] is None for row in along if row["stack"] == 1 and row["batch"] > 1)


def _parts() -> dict[str, dict[str, Any]]:
    (rows,) = study("partial-resnet18").values()
    return {row["trained"]: row for row in rows}


def _part(trained: str) -> list[str]:
    row = _parts()[trained]
    gradients = row["gradient_bytes"] / MIB
    return [
        {"last": "last layer"}.get(trained, trained.replace("%", " %")),
        *(f"{row['step_s'] * 1e3:.1f}", f"{100 * row['step_s_share']:.0f} %"),
        f"{row['backward_s'] * 1e3:.1f}",
        f"{gradients:.2f}" if 0 < gradients < 0.1 else f"{gradients:.1f}" if gradients else "0",
        f"{row['own_bytes'] / MIB:.0f}",
    ]


def _partial() -> Iterator[Claim]:
    from edgebench.analysis.studies.training import partial_frame

    parts, trials = _parts(), partial_frame(sweep("partial-resnet18")).groupby("trained")
    share = {part: f"{100 * row['step_s_share']:.0f}" for part, row in parts.items()}
    apart = 100 * (trials["step_s"].max() / trials["step_s"].min() - 1).max()
    yield says(
        "The last layer alone takes {} % of the time, and 20 and 40 % of the layers take {} and {} %. 20 %"
        " of the filters take {} %; beyond that nothing is saved (two trials of one part lie up to {} %"
        " apart)",
        *(share[part] for part in ("last", "layers 20%", "layers 40%", "filters 20%")),
        f"{apart:.0f}",
    )
    more = {
        part: (row["own_bytes"] - parts["all"]["own_bytes"]) / MIB for part, row in parts.items()
    }
    gradients = parts["all"]["gradient_bytes"] - parts["filters 20%"]["gradient_bytes"]
    yield says(
        "20 % of the filters take {} MiB less than all, of which {} are gradients, and the last layer"
        " alone {} MiB less",
        *(f"{-more['filters 20%']:.0f}", f"{gradients / MIB:.0f}", f"{-more['last']:.0f}"),
    )
