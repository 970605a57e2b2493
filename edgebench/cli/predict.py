"""The model of a device: ``calibrate``, ``fit``, and ``predict`` of what was not measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgebench.answers.models import (
    calibration_table,
    fits_table,
    prediction_headline,
    prediction_table,
    together_tables,
)
from edgebench.answers.table import headline, size
from edgebench.boards import RAM
from edgebench.cli.options import (
    device_option,
    json_option,
    memory_option,
    offer_networks,
    read_newest,
    read_results_option,
    results_argument,
    results_option,
    verbose_option,
)
from edgebench.cli.output import (
    print_figures,
    print_headline,
    print_json,
    print_lines,
    print_next,
    print_table,
    print_warnings,
    shown_path,
    typed_path,
)
from edgebench.errors import UsageError
from edgebench.installation import need
from edgebench.layers.names import LOADERS, SCHEDULES, WHOLE
from edgebench.measures.machine.environment import device_name
from edgebench.text import AS_IS, SWAP_KINDS, parse_swap

if TYPE_CHECKING:
    from edgebench.slowdown.prediction import Prediction, PredictionSource


@click.command()
@click.option(
    "--swap",
    metavar="SWAP",
    default="2G",
    help="Swap to calibrate: a size as 2G (a temporary swap file), zram:1G, system, or none.",
)
@click.option(
    "--storage",
    type=click.Choice([AS_IS, f"disk={RAM}"]),
    default=AS_IS,
    help="The machine's own disk as it is, or the disk in memory of storage disk=ram.",
)
@results_option
@device_option
@verbose_option("a line for each trial, and all constants with their lowest and highest repeat")
@json_option("the constants")
def calibrate(
    swap: str,
    storage: str,
    results: Path,
    device: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Measure the constants that predictions use: memory and files are scanned, a network slowed.

    Run nothing else meanwhile. The constants are stored with the device's results, one file for
    each kind of swap and disk; it replaces an earlier one.
    """
    from edgebench.cli.progress import shown_progress
    from edgebench.scenario.points import libraries

    need("scipy", *libraries({"kind": "hot-base"}))
    from edgebench.run import calibration

    kind, size_bytes = parse_swap(swap)
    with shown_progress(verbose) as progress:
        of_swap = device, kind, size_bytes
        options = calibration.CalibrationOptions(results, *of_swap, ram=storage != AS_IS)
        made, path = calibration.run_calibration(options, progress)
    if as_json:
        print_warnings(made.warnings)
        print_json({**made.to_json(), "path": path})
        return
    print_headline(f"{made.device}   swap {made.swap_kind}")
    print_table(calibration_table(made, verbose))
    click.echo(f"calibration: {shown_path(path)}")
    print_warnings(made.warnings, None if verbose else "--verbose")
    print_next(f"edgebench run quickstart --device {made.device} --results {typed_path(results)}")


@click.command()
@results_argument
@json_option("the fits")
def fit(results: Path, as_json: bool) -> None:
    """Draw a curve through the newest sweep's slowdowns in RESULTS, and tell its error.

    RESULTS is a sweep's folder, or a folder of several. The error of each curve is that at limits
    that were left out of its fit.
    """
    from edgebench.slowdown.curves import MODEL_SCHEMA, curves, fit_all

    loaded = read_newest(results)
    fits, skipped = fit_all(curves(loaded), str(loaded.path))
    warnings = (*loaded.warnings, *skipped)
    if as_json:
        print_warnings(warnings)
        every = [one.to_json() for one in fits]
        print_json({"schema": MODEL_SCHEMA, "path": loaded.path, "fits": every})
        return
    print_table(fits_table(fits))
    print_warnings(warnings, "--json")
    print_next(f"edgebench predict --results {typed_path(loaded.path)}")


_RANGE = ("120%", "40%", 9)
#: How many layers are named at each limit.
_LAYERS = 3
#: Of what a steady round uses, the part that a probe leaves it.
_PROBED = 0.8


@click.command()
@click.argument("network", required=False, shell_complete=offer_networks)
@read_results_option
@memory_option
@click.option("--from", "start", metavar="LIMIT", help="Widest limit of a range, as 120%.")
@click.option("--to", "stop", metavar="LIMIT", help="Tightest limit of a range, as 40%.")
@click.option("--steps", type=click.IntRange(2, 100), help="Number of limits in the range.")
@click.option("--schedule", type=click.Choice((*SCHEDULES, WHOLE)), help="Only this schedule.")
@click.option("--loader", type=click.Choice(LOADERS), help="Only this loader.")
@click.option("--batch", type=click.IntRange(min=1), help="Only this batch size.")
@click.option("--image", type=click.IntRange(min=1), help="Input's width and height in pixels.")
@click.option("--threads", type=click.IntRange(min=1), help="Only this number of threads.")
@click.option(
    "--device", metavar="NAME", help="Device whose results to use [default: the only one]."
)
@click.option("--swap-kind", type=click.Choice(SWAP_KINDS), help="Only this kind of swap.")
@click.option(
    "--storage", metavar="SPEED", help="Storage held to this speed, as read=100MB/s; or as-is."
)
@click.option("--probe", is_flag=True, help="First run it: once freely, once slowed (20 s).")
@click.option("--together", is_flag=True, help="The networks run at once, as processes.")
@click.option("--figure", is_flag=True, help="Also draw slowdown against limit.")
@verbose_option("the layers that take the added time")
@json_option("the predictions")
def predict(
    network: str | None,
    results: Path,
    probe: bool,
    together: bool,
    figure: bool,
    verbose: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Predict time, slowdown and kills of NETWORK at any limit.

    NETWORK is a name, a pipeline as alexnet+resnet18, or your own as package.module:function;
    without one, all that were measured are predicted. At a measured limit the answer is what was
    measured. A network that was not measured is predicted from its layers. Each workload of the
    network gets an answer; flags choose among them.
    """
    from edgebench.slowdown.curves import MODEL_SCHEMA
    from edgebench.slowdown.prediction import source_of, workload_query

    if network and Path(network).is_dir():
        remedy = f"edgebench predict resnet18 --results {typed_path(Path(network))}"
        raise UsageError(f"{network} is a folder, not a network", remedy=remedy)
    names = ("schedule", "loader", "batch", "image", "threads")
    settings = {name: asked[name] for name in names}
    if together:
        if not network or "+" not in network or probe or figure or asked["storage"]:
            raise UsageError(
                "--together is of two networks or more, without --probe, --figure and --storage",
                remedy="edgebench predict resnet50+mobilenet_v2 --together --memory 1G",
            )
        asked["settings"] = settings
        _print_together(network.split("+"), results, asked, as_json)
        return
    wanted = workload_query(network, **settings)
    source = source_of(results, wanted, asked["device"], asked["swap_kind"], asked["storage"])
    if probe:
        source = _probe(network, source)
    found = source.predict(_limits(asked))
    files = []
    if figure:
        from edgebench.report.figures.by_limit import draw_predictions

        files = draw_predictions(source.results, found, results)
    if as_json:
        print_warnings(source.warnings)
        storage = source.storage.label if source.storage else None
        about = {"schema": MODEL_SCHEMA, "path": results, "storage": storage}
        print_json({**about, "predictions": [one.to_json() for one in found], "figures": files})
        return
    print_predictions(found, verbose, source)
    print_figures(files)
    print_warnings(source.warnings, None if verbose else "--verbose")
    print_next(_next(network, results, found[0], source, asked))


def _print_together(
    names: Sequence[str], results: Path, asked: dict[str, Any], as_json: bool
) -> None:
    """Print what networks need at once, and at each limit whether they fit."""
    from edgebench.slowdown.prediction import limit_in_bytes, together

    found = together(names, results, asked)
    limits = sorted(limit_in_bytes(limit, found.needs_bytes) for limit in _limits(asked))[::-1]
    if as_json:
        print_json({"path": results, **found.to_json(limits)})
        return
    libraries = f"libraries {size(found.library_bytes)}, once" if found.library_bytes else ""
    print_headline(headline(" + ".join(names), f"needs {size(found.needs_bytes)}", libraries))
    for table in together_tables(found, limits):
        print_table(table)


def _limits(asked: dict[str, Any]) -> list[str]:
    """Return the given limits and those of the given range; without any, the usual range."""
    from pydantic import ValidationError

    from edgebench.scenario.keys import message_of
    from edgebench.scenario.limits import MemoryRange

    given = list(asked["memory"])
    ranged = [asked["start"], asked["stop"], asked["steps"]]
    if ranged == [None, None, None] and given:
        return given
    start, stop, steps = (own or usual for own, usual in zip(ranged, _RANGE, strict=True))
    try:
        table = {"from": start, "to": stop, "steps": steps}
        return [*given, *MemoryRange.model_validate(table).labels()]
    except ValidationError as error:
        said = map(message_of, error.errors())
        remedy = "--from 120% --to 40%, or --from 800M --to 200M"
        raise UsageError("; ".join(said), where="--from and --to", remedy=remedy) from error


def _next(
    network: str | None,
    results: Path,
    one: Prediction,
    source: PredictionSource,
    asked: dict[str, Any],
) -> str:
    """Return a probe where the network can run here and its own trials don't tell.

    Else a measurement.
    """
    from edgebench.slowdown.seconds import Source

    name = one.subject.network
    if "+" in name or ":" in name or one.subject.settings.get("kind") == "training":
        return f"edgebench fit {typed_path(results)}"
    computed = any(at.source in (Source.LAYER_TABLE, Source.COUNTED) for at in one.at)
    here = source.storage is None and source.predictors[0].data.device == device_name()
    if computed and network and here:
        words = [f"--memory {','.join(asked['memory'])}"] if asked["memory"] else []
        flags = ("schedule", "loader", "batch", "image", "threads", "swap_kind")
        words += [f"--{k.replace('_', '-')} {asked[k]}" for k in flags if asked[k] is not None]
        words += [] if results == Path("results") else [f"--results {typed_path(results)}"]
        return f"edgebench predict {network} {' '.join(words)} --probe"
    return f"edgebench minimum {name} --slowdown 1.5"


def _probe(network: str | None, source: PredictionSource) -> PredictionSource:
    """Run the network once freely and once slowed; what this shows of it."""
    from edgebench.cli.progress import shown_progress
    from edgebench.run.calibration import run_probe
    from edgebench.slowdown.prediction import source_of

    workloads = source.workloads() if network else []
    steady = workloads[0][1].steady_bytes(workloads[0][0]) if len(workloads) == 1 else None
    if network is None or steady is None or source.storage is not None:
        raise UsageError(
            f"{len(workloads)} workloads match: a probe is of one whose layers are known, here",
            where="--probe",
            remedy="name a network, and choose with --schedule, --loader and --threads",
        )
    root = source.results.sweeps[0].path.resolve().parent.parent
    with shown_progress() as progress:
        folder = run_probe(network, workloads[0][0].settings, _PROBED * steady, root, progress)
    return source_of(folder, source.query)


def print_predictions(found: Sequence[Prediction], verbose: bool, source: PredictionSource) -> None:
    """Print a headline and a table for each workload; with ``verbose`` the layers too."""
    storage = source.storage.label if source.storage else ""
    for number, one in enumerate(found):
        if number:
            click.echo()
        print_headline(prediction_headline(one, found, storage))
        print_table(prediction_table(one))
        # Where the added time is computed, the layers that take it are known.
        computed = [at for at in one.at if at.viable and at.layers] if verbose else []
        for at in sorted(computed, key=lambda at: -at.limit_bytes):
            layers = (f"{layer.name} {layer.share:.0%}" for layer in at.layers[:_LAYERS])
            print_lines([f"{size(at.limit_bytes)}: added to {', '.join(layers)}"])
