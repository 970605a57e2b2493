"""``edgebench data``: which data sets are there, and how to get one that isn't."""

from __future__ import annotations

import json
from pathlib import Path

import click

from edgebench.errors import UsageError
from edgebench.records.records import SCHEMA


@click.command(short_help="Which data sets are there? Fetch one.")
@click.argument("name", required=False)
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("data"),
    show_default=True,
    help="Folder of the files, as torchvision lays them.",
)
@click.option("--download", is_flag=True, help="Fetch NAME into the folder, by torchvision.")
@click.option("--json", "as_json", is_flag=True, help="Print what is there as JSON on stdout.")
def data(name: str | None, folder: Path, download: bool, as_json: bool) -> None:
    """List the data sets to train on, or look for NAME alone; nothing is fetched unless asked.

    NAME is read whole, so that a corrupt file is found here and not in a sweep.
    """
    if download:
        _download(name, folder)
    if name:
        rows = [_read(name, folder)]
    else:
        from edgebench.training.data.names import DATA_SETS

        rows = [_listed(one, folder) for one in DATA_SETS]
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, "folder": str(folder), "data_sets": rows}))
        return
    for row in rows:
        click.echo(f"{row['name']:26}{row['shape']:>12}  {row['state']}")
    click.echo(f"folder: {folder}")
    click.echo("next: edgebench check scenarios/hyperparameters.toml")


def _download(name: str | None, folder: Path) -> None:
    from edgebench.training.data.names import FROM_FOLDER

    if name not in FROM_FOLDER:
        known = ", ".join(FROM_FOLDER)
        raise UsageError("only a data set of files can be fetched", remedy=f"name one of {known}")
    from edgebench.training.data.vision import download_vision

    download_vision(name, folder)


def _listed(name: str, folder: Path) -> dict[str, str]:
    """Whether its files are there; nothing is read."""
    from edgebench.training.data.names import FROM_FOLDER, SHAPES, VISION_FILES

    shape = "x".join(map(str, SHAPES.get(name, ()))) or "any"
    state = "comes with scikit-learn" if name == "digits" else "made from a seed"
    if name in FROM_FOLDER:
        here = all((folder / file).is_file() for file in VISION_FILES[name])
        state = "its files are there" if here else f"fetch it: edgebench data {name} --download"
    return {"name": name, "shape": shape, "state": state}


def _read(name: str, folder: Path) -> dict[str, str]:
    from edgebench.training.data.registry import DataRequest, load_data

    found = load_data(DataRequest(name, folder, shape=(3, 32, 32)))
    shape = "x".join(map(str, found.shape))
    count = f"{len(found.train)} to train on, {len(found.test)} to test on"
    return {"name": name, "shape": shape, "state": f"{count}, {found.classes} classes"}
