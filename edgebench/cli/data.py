"""``edgebench data``: lists the data sets, and downloads them."""

from __future__ import annotations

from pathlib import Path

import click

from edgebench.answers.table import Table
from edgebench.cli.options import json_option
from edgebench.cli.output import print_headline, print_json, print_next, print_table
from edgebench.errors import UsageError
from edgebench.extras import need
from edgebench.workloads.training.names import (
    DATA_SETS,
    DATA_SHAPES,
    FROM_FOLDER,
    LIBRARIES_OF_DATA,
    VISION_FILES,
)


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
    from edgebench.processes import caller_identity
    from edgebench.workloads.preparation import describe_data_set

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
