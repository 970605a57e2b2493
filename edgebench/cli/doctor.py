"""What is here: ``doctor`` of this machine, ``boards`` to emulate, ``data`` sets to train on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.table import Table, headline
from edgebench.boards import Board, Source, find_board, known_boards, storage_presets
from edgebench.cli.options import json_option, offer_boards, verbose_option
from edgebench.cli.output import (
    print_fields,
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    shown,
)
from edgebench.errors import NotFitError, UsageError
from edgebench.installation import need
from edgebench.processes import caller_identity
from edgebench.text import format_size
from edgebench.workloads.training.names import (
    DATA_SETS,
    DATA_SHAPES,
    FROM_FOLDER,
    LIBRARIES_OF_DATA,
    VISION_FILES,
)

if TYPE_CHECKING:
    from edgebench.run.doctor import CheckResult

#: Shown only with --verbose: nothing to do about them.
_QUIET = ("ok", "absent")
#: Status of a check → its word and colour.
_WORDS = {
    "ok": ("ok", "green"),
    "warn": ("warn", "yellow"),
    "fail": ("no", "red"),
    "absent": ("none", "bright_black"),
}
#: Named in the row of what is fine.
_NAMED = ("limits enforced", "swap", "torch", "storage")


@click.command()
@verbose_option("what is OK, and what this machine doesn't have")
@json_option("all checks")
def doctor(verbose: bool, as_json: bool) -> None:
    """Check everything that a measurement depends on, and print the fix for each problem.

    Exit code 5 if a check fails: nothing can be measured then. After a warning the numbers may be
    wrong by what the warning says.
    """
    from edgebench.run.doctor import check_machine, is_fit

    answers = list(check_machine())
    fit = is_fit(answers)
    if as_json:
        print_json({"fit": fit, "checks": [asdict(answer) for answer in answers]})
    else:
        _print_checks(answers, verbose)
    if not fit:
        failed = ", ".join(answer.check for answer in answers if answer.status == "fail")
        raise NotFitError(
            f"this machine can't measure: {failed}",
            remedy="type what stands below each fail, then: edgebench doctor",
        )
    if not as_json:
        print_next(next_step(answers))


def next_step(answers: Sequence[CheckResult]) -> str:
    """Return what to type next on this machine.

    The quick start only where it has all that that needs.
    """
    fine = {answer.check for answer in answers if answer.status == "ok"}
    swap = " --swap 2G" if "swap" in fine else ""
    if "torch" not in fine:
        return f"edgebench minimum{swap} -- python3 -c 'b = bytearray(200 << 20)'"
    # It holds swap and weights to a speed.
    if {"swap", "storage"} <= fine:
        return "edgebench run quickstart"
    return f"edgebench minimum{swap} resnet18"


def _print_checks(answers: Sequence[CheckResult], verbose: bool) -> None:
    """Print what is fine in one row, then each problem, with what to type below it."""
    fine = [one.check for one in answers if one.status == "ok"]
    groups: dict[tuple[str, str, str | None], list[str]] = {}
    for one in answers:
        if verbose or one.status not in _QUIET:
            groups.setdefault((one.status, one.says, one.remedy), []).append(one.check)
    if not verbose:
        named = ", ".join(name for name in _NAMED if name in fine)
        _print_row("ok", f"{named} ({len(fine)} of {len(answers)} checks)")
    for (status, says, remedy), names in groups.items():
        _print_row(status, f"{', '.join(names)}: {says}")
        for line in (remedy or "").splitlines():
            click.echo(f"        {shown(line.strip())}")


def _print_row(status: str, text: str) -> None:
    word, colour = _WORDS[status]
    click.echo(f"  {click.style(f'{word:<6}', fg=colour)}{shown(text)}")


@click.command()
@click.argument("name", required=False, shell_complete=offer_boards)
@click.option("--storage", is_flag=True, help="List kinds of storage instead, with their speeds.")
@json_option("the boards, or the storage")
def boards(name: str | None, storage: bool, as_json: bool) -> None:
    """List the boards that --board can emulate; with NAME, show all of one and its sources.

    NAME may be the path of a board's file. A board's memory, cores, storage and swap are emulated;
    the speed of its CPU is not.
    """
    if name and storage:
        raise UsageError("give either NAME or --storage", remedy="edgebench boards --storage")
    if storage:
        presets = list(storage_presets().values())
        if as_json:
            print_json({"storage": [asdict(preset) for preset in presets]})
            return
        rows = [[preset.name, preset.speed.label] for preset in presets]
        print_table(Table(("storage", "speeds"), rows, ("storage", "speeds")))
        for preset in presets:
            print_headline(f"{preset.name}: {preset.title}")
            _print_sources(preset.sources)
        print_next("edgebench measure --storage sd-a1 --swap 2G -- python3 train.py")
    elif name:
        board = find_board(name)
        if as_json:
            print_json({"board": _board_json(board)})
            return
        print_headline(headline(board.title, f"leaves {format_size(board.left_bytes)}"))
        print_fields(_rows(board))
        print_headline("sources")
        _print_sources(board.sources)
        print_next(f"edgebench minimum resnet18 --board {board.name}")
    else:
        every = list(known_boards().values())
        if as_json:
            print_json({"boards": [_board_json(board) for board in every]})
            return
        titles = ("board", "RAM", "left", "cores", "storage", "swap")
        rows = []
        for board in every:
            sizes = [format_size(board.ram_bytes), format_size(board.left_bytes)]
            kept = board.storage[0] if board.storage else "-"
            rows.append([board.name, *sizes, str(board.cores), kept, board.swap or "-"])
        print_table(Table(titles, rows, ("board", "storage", "swap")))
        print_next("edgebench boards raspberry-pi-4-4g")


def _board_json(board: Board) -> dict[str, Any]:
    return {**asdict(board), "left_bytes": board.left_bytes, "storage_held": board.speed.label}


def _rows(board: Board) -> Iterator[tuple[str, str]]:
    gpu = f", {format_size(board.gpu_bytes)} of it the GPU's" if board.gpu_bytes else ""
    kernel = f"Linux {board.kernel}" if board.kernel else ""
    cgroup = f"cgroup version {board.cgroup}" if board.cgroup else ""
    yield "RAM", format_size(board.ram_bytes) + gpu
    yield "left for programs", board.left_words
    yield "cores", f"{board.cores} ({board.core})" if board.core else str(board.cores)
    yield "swap", board.swap or "unknown: emulated without"
    yield "system", ", ".join(filter(None, (board.system, kernel, cgroup))) or "unknown"
    for n, name in enumerate(board.storage):
        use = "" if n else "; emulated with this"
        yield f"storage {name}", board.speed_of(name).label + use


def _print_sources(sources: Sequence[Source]) -> None:
    """Print each source, with the keys that it tells of."""
    for source in sources:
        print_lines([f"{', '.join(source.of)}: {source.title}, seen {source.seen}:"])
        click.echo(f"  {source.address}")


@click.command()
@click.argument("name", required=False)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("data"),
    help="Folder of the data sets' files, in torchvision's layout.",
)
@click.option("--download", is_flag=True, help="Download NAME into the folder, with torchvision.")
@json_option("the data sets")
def data(name: str | None, folder: Path, download: bool, as_json: bool) -> None:
    """List the data sets to train on; with NAME, read that one completely.

    Reading it finds a corrupt file before a sweep does. Only --download downloads anything.
    """
    if name:
        need(*LIBRARIES_OF_DATA.get(name, ()))
    if download:
        if name not in FROM_FOLDER:
            remedy = f"edgebench data {FROM_FOLDER[0]} --download"
            raise UsageError(f"only {', '.join(FROM_FOLDER)} can be downloaded", remedy=remedy)
        from edgebench.workloads.training.data_sources import download_vision

        download_vision(name, folder)
    rows = [_listed(one, folder) for one in ([name] if name else DATA_SETS)]
    if name:
        from edgebench.workloads.preparation import describe_data_set

        found = describe_data_set(name, folder, identity=caller_identity())
        rows[0]["shape"] = "x".join(map(str, found["shape"]))
        count = f"{found['train']} training and {found['test']} test images"
        rows[0]["state"] = f"{count} of {rows[0]['shape']}, in {found['classes']} classes"
    if as_json:
        print_json({"folder": folder, "data_sets": rows})
        return
    if name:
        print_headline(f"{name}   {rows[0]['state']}")
    else:
        ready = sum(_is_there(row["name"], folder) for row in rows)
        print_headline(f"{ready} of {len(rows)} data sets are ready in {folder}/")
        cells = [[row["name"], row["shape"], row["state"]] for row in rows]
        print_table(Table(("data set", "shape", "state"), cells, ("data set", "state")))
    print_next("edgebench run hyperparameters --dry-run")


def _listed(name: str, folder: Path) -> dict[str, str]:
    """Return what is known of a data set without reading it."""
    shape = "x".join(map(str, DATA_SHAPES.get(name, ()))) or "any"
    state = "comes with edgebench" if name == "digits" else "made from a seed"
    if name in FROM_FOLDER:
        download = f"edgebench data {name} --download"
        state = "downloaded" if _is_there(name, folder) else download
    return {"name": name, "shape": shape, "state": state}


def _is_there(name: str, folder: Path) -> bool:
    return all((folder / file).is_file() for file in VISION_FILES.get(name, ()))
