"""The numbers that the verbs give of kept and made-up sweeps, stored as JSON.

    python benchmarks/frozen/freeze.py                  writes numbers/SWEEP/VERB.json
    python benchmarks/frozen/freeze.py --check          compares; exits with 1 at a difference
    python benchmarks/frozen/freeze.py --only show      one verb; may be repeated

A change of the code leaves them as they are, or the change is explained. Sentences are left out,
what differs each time (paths, names of folders, versions), and values that are null. Floats have 6
significant digits, and compare equal within 1 of 100,000.

``show``, ``answers`` (what headlines say) and ``export`` (each frame's columns, summed up
by network and limit) are of every sweep; ``compare`` of the pairs in PAIRS. A fit costs up
to half a minute, so ``fit`` and ``predict`` are of the sweeps in FITTED and of those made up;
``layers`` and ``reconcile`` of those in DETAILED and made up.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from click.testing import CliRunner  # noqa: E402

from benchmarks.frozen.made_up import made_up  # noqa: E402
from edgebench.cli.verbs import load_verb  # noqa: E402
from edgebench.errors import EdgebenchError  # noqa: E402
from edgebench.results.sweep_reader import read_sweep  # noqa: E402

STORE = Path(__file__).parent / "numbers"
KEPT = ROOT / "results" / "vm-2core-24g"
MADE = "made-"
#: Kept sweeps by the end of their names, and all made-up ones: what is fitted and predicted.
FITTED = ("quickstart-d0533d", "quickstart-grid-2bf09a", "training-limits-54d2ba")
#: Shares of demand at which each workload of these is predicted.
PREDICTED = ("90%", "60%", "40%")
PAIRS = {
    "cnn-frameworks-inside-f881f2": "cnn-frameworks-dd797d",
    "made-slower": "made-kills",
}
#: Kept sweeps whose layers and ledgers are frozen, and all made-up ones: those of others are long.
DETAILED = ("quickstart-grid-2bf09a",)
#: So many networks of a sweep have their layers frozen.
LAYERED = 1
FRAMES = ("trials", "phases", "networks")
#: Of the sweeps of DETAILED and those made up: they are read from events.
LONG_FRAMES = ("layers", "memory")
#: What numbers are of; all other text is left out.
IDENTITIES = {
    *("workload", "network", "phase", "point", "outcome", "label", "limit", "model", "recommended"),
    *("row", "verdict", "refused", "strategy", "part", "layer", "device", "swap_kind", "name"),
}
#: Columns of what was asked for, which an export only passes on.
_ASKED = {
    *("block", "repeat", "seed", "batch", "warm", "rounds", "workers", "round", "limit_bytes"),
    *("memory_bytes", "swap_bytes", "order", "threads", "storage_ram", "storage_read_bps"),
}
_VOLATILE = {
    *("path", "sweep", "files", "figures", "schema", "fingerprint", "settings", "started_utc"),
}
#: Written as a list in this order, without what is equal to an earlier value: a third of the room.
_SPREAD = ("median", "low", "high", "count", "sure_low", "sure_high", "off")
_CLOSE = 1e-5
_LEFT_OUT = object()


def numbers(value: Any, key: str = "") -> Any:
    """Its numbers, truths and identities; of lists the places are kept."""
    if isinstance(value, dict):
        if "median" in value and {*value} <= {*_SPREAD}:
            return _spread([numbers(value.get(name)) for name in _SPREAD])
        kept = {str(k): numbers(v, str(k)) for k, v in value.items() if k not in _VOLATILE}
        return {k: v for k, v in kept.items() if v is not _LEFT_OUT and v not in (None, [], {})}
    if isinstance(value, list | tuple):
        kept_list = [numbers(v, key) for v in value]
        if value and all(v is _LEFT_OUT for v in kept_list):
            return len(kept_list) if key == "warnings" else _LEFT_OUT
        return [None if v is _LEFT_OUT else v for v in kept_list]
    if isinstance(value, str):
        return value if key in IDENTITIES else _LEFT_OUT
    if isinstance(value, float):
        # NaN is no JSON.
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _spread(values: list[Any]) -> list[Any]:
    median, low, high, count, *sure, off = values
    one = _same(float(low or 0), float(high or 0)) and _same(float(low or 0), float(median or 0))
    kept = [median, *([] if one and low is not None else [low, high]), count]
    kept += [] if sure in ([low, high], [None, None]) else sure
    return kept if off is None else [*kept, off]


def said(verb: str, *words: str | Path) -> Any:
    """What a verb prints with ``--json``; where it has no answer, the kind of its error."""
    command = load_verb(verb)
    done = CliRunner().invoke(command, [*map(str, words), "--json"], standalone_mode=False)
    if done.exception and not isinstance(done.exception, EdgebenchError):
        raise done.exception
    # A comparison that found a regression ends with an error too, after its answer.
    return json.loads(done.stdout) if done.stdout else {"refused": type(done.exception).__name__}


def show(sweep: Path) -> Any:
    """All points; a slowdown that is its ratio's median stands there once."""
    made = said("show", sweep)
    for point in made["points"]:
        medians = {name: ratio["median"] for name, ratio in point["ratios"].items()}
        point["slowdowns"] = {
            name: value for name, value in point["slowdowns"].items() if medians.get(name) != value
        }
    return made


def answers(sweep: Path) -> Any:
    """What the headlines say: each workload's need, the limit to give, its knee, how slow it is."""
    from edgebench.answers.limits import workload_answer
    from edgebench.results.facts import sweep_facts
    from edgebench.results.sweep_reader import read_sweep

    found = map(workload_answer, sweep_facts(read_sweep(sweep)).workloads)
    return [
        {
            "name": one.name,
            "needs_bytes": one.needs_bytes,
            "refuted": one.refuted,
            "give_bytes": one.give_bytes,
            "knee_bytes": one.knee_bytes,
            "slow": one.slow,
        }
        for one in found
    ]


def fit(sweep: Path) -> Any:
    """Each curve, as ``fit --json``."""
    from edgebench.results.results import load
    from edgebench.slowdown.curves import curves, fit_all

    loaded = load(sweep)
    fits, _ = fit_all(curves(loaded), str(loaded.path))
    return {"fits": [one.to_json() for one in fits]}


def predict(sweep: Path) -> Any:
    """Each network at some shares of its demand."""
    words = [word for share in PREDICTED for word in ("--memory", share)]
    return {one: said("predict", one, "--results", sweep, *words) for one in _networks(sweep)}


def layers(sweep: Path) -> Any:
    """The layers' costs of its first networks."""
    words = ("--from", sweep, "--no-figure", "--all")
    return {one: said("layers", one, *words) for one in _networks(sweep)[:LAYERED]}


def reconcile(sweep: Path) -> Any:
    """All ledgers."""
    return said("reconcile", sweep)


def export(sweep: Path) -> Any:
    """Each frame's columns of numbers: their sum, by network and limit; of some rows how many."""
    import pandas as pd

    made = {}
    detailed = sweep.name.endswith(DETAILED) or not sweep.is_relative_to(KEPT)
    for frame in (*FRAMES, *(LONG_FRAMES if detailed else ())):
        rows = pd.DataFrame(_exported(frame, sweep))
        keys = [key for key in ("network", "limit_label") if key in rows]
        groups = rows.fillna(dict.fromkeys(keys, "")).groupby(keys) if keys else [("all", rows)]
        made[frame] = {
            " ".join(map(str, key if isinstance(key, tuple) else (key,))): _summed(group)
            for key, group in groups
        }
    return made


def _exported(frame: str, sweep: Path) -> Any:
    command = load_verb("export")
    words = [str(sweep), "--frame", frame, "--format", "json"]
    try:
        done = CliRunner().invoke(command, words, catch_exceptions=False, standalone_mode=False)
    except EdgebenchError:
        return []
    return json.loads(done.stdout)


def _summed(rows: Any) -> dict[str, Any]:
    columns = rows.select_dtypes("number")
    made = {"rows": len(rows)}
    for name in sorted({*columns} - _ASKED):
        column = columns[name].dropna()
        if len(column):
            total = column.sum()
            made[name] = total if len(column) == len(rows) else [len(column), total]
    return json.loads(json.dumps(made, default=float))


def compare(sweep: Path, other: Path | None) -> Any:
    """With the sweep of PAIRS, or devices with each other."""
    if other is None:
        return said("compare", *sorted(sweep.iterdir()), "--devices")
    return said("compare", other, sweep, "--across-devices")


def _networks(sweep: Path) -> list[str]:
    settings = [record.settings for record in read_sweep(sweep).records]
    named = ("+".join(s.get("networks") or ()) or s.get("network") for s in settings)
    return list(dict.fromkeys(name for name in named if name))


VERBS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (show, answers, fit, predict, layers, compare, reconcile, export)
}


def calls(root: Path, only: set[str]) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Each sweep's name, a verb, and what gives its numbers."""
    kept = {one.name.split("-", 1)[1]: one for one in sorted(KEPT.iterdir()) if one.is_dir()}
    made = {f"{MADE}{name}": path for name, path in made_up(root).items()}
    sweeps = {**kept, **made}
    for name, path in sweeps.items():
        for verb, call in VERBS.items():
            if verb in only and _is_frozen(verb, name, path):
                other = (sweeps[PAIRS[name]] if name in PAIRS else None,)
                words = other if verb == "compare" else ()
                yield name, verb, lambda call=call, path=path, words=words: call(path, *words)


def _is_frozen(verb: str, name: str, path: Path) -> bool:
    if name == f"{MADE}devices":
        return verb == "compare"
    if verb == "compare":
        return name in PAIRS
    if verb in ("fit", "predict"):
        return name in FITTED or name.startswith(MADE)
    if verb in ("layers", "reconcile"):
        return (path / "events").is_dir() and (name in DETAILED or name.startswith(MADE))
    return True


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Path, old and new value, wherever the two differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key, "absent"), new.get(key, "absent"), f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}[{place}]")
    elif not _same(old, new):
        yield path, old, new


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, float) or isinstance(new, float):
        with contextlib.suppress(TypeError):
            return math.isclose(old, new, rel_tol=_CLOSE, abs_tol=1e-12)
    return type(old) is type(new) and old == new


def _print_differences(found: Mapping[str, list[tuple[str, Any, Any]]]) -> None:
    for where, one in found.items():
        groups: dict[str, list[tuple[str, Any, Any]]] = defaultdict(list)
        for difference in one:
            groups[re.sub(r"\[\d+\]", "[]", difference[0])].append(difference)
        print(f"{where}: {len(one)} differences")
        for path, group in groups.items():
            first, old, new = group[0]
            print(f"  {len(group):4} {path}: {first} was {_short(old)}, is {_short(new)}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except EdgebenchError as error:
        # That a verb has no answer is one.
        return {"refused": type(error).__name__}


def main() -> int:
    """Write or compare; 1 at a difference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", action="append", choices=VERBS, metavar="VERB")
    parser.add_argument("--sweep", action="append", help="only sweeps whose name holds this")
    parser.add_argument("--times", action="store_true", help="print each call's seconds of CPU")
    asked = parser.parse_args()
    found: dict[str, list[tuple[str, Any, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="edgebench-frozen-") as folder:
        for name, verb, call in calls(Path(folder), {*(asked.only or VERBS)}):
            if asked.sweep and not any(part in name for part in asked.sweep):
                continue
            began = time.process_time()
            new = numbers(_answer(call))
            # As it comes back from a file.
            text = json.dumps(new, sort_keys=True, separators=(",", ":"))
            if asked.times:
                print(f"{time.process_time() - began:7.1f} s {len(text):8} bytes {verb} {name}")
                sys.stdout.flush()
            file = STORE / name / f"{verb}.json"
            if asked.check:
                old = json.loads(file.read_text()) if file.exists() else "absent"
                if one := [*differences(old, json.loads(text))]:
                    found[f"{verb} {name}"] = one
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text + "\n")
    _print_differences(found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
