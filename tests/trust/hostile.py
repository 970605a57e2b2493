"""Damaged results, hostile scenarios and command lines: each is read, or refused in words.

``python -m tests.trust.hostile KIND FIRST LAST`` tries cases of ``results``, ``scenarios`` or
``commands`` and prints what went wrong: a traceback, more than a minute, more than 500 MiB. A case
of results is a sweep with many files damaged, read by every verb that reads and by the page.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.testing import CliRunner

from edgebench.cli import cli
from edgebench.errors import EdgebenchError, MachineError
from edgebench.run.sweep import trials
from edgebench.run.trial import command
from edgebench.serve import app, helper_process, history
from tests.results.damaged_records import VERBS, sweeps
from tests.trust.garbage import VALUES, spoil, torn

_MOST_S, _PATIENCE_S, _MOST_MIB = 60, 600, 500
NESTED = (b"[" * 10**5, b"a" + b".a" * 10**5 + b" = 1", b"x = " + b"{a=" * 5000, b"[[a]]\n" * 9**5)
SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml"))
#: Readers of a case, each with its words.
Readers = Iterator[tuple[str, Callable[[], object]]]


def damage(chance: random.Random, file: Path) -> None:
    """Damage one file: what it is, its bytes, or the values in it."""
    data, kind = file.read_bytes(), chance.random()
    if kind < 0.1:
        file.unlink()
        how = chance.randrange(6)
        if how == 0:
            file.mkdir()
        elif how == 1:
            os.mkfifo(file)
        elif how in (2, 3):
            file.symlink_to(file if how == 2 else "/dev/zero")
        elif how == 4:
            file.write_bytes(gzip.compress(bytes(1 << 28), 1))
    elif kind < 0.3 or file.suffix not in (".json", ".jsonl", ".gz", ".npz"):
        file.write_bytes(torn(chance, data))
    elif file.suffix == ".npz":
        with np.load(file) as opened:
            arrays: dict[str, Any] = dict(opened)
        name = chance.choice(list(arrays))
        old = arrays[name]
        numbers = np.array(chance.choices([0, -1, 2**62, -(2**62), 2**53], k=old.nbytes // 8))
        wild = np.frombuffer(numbers.tobytes(), old.dtype)[: old.size]
        odd: list[Any] = [np.array(VALUES[:9], object), np.array(["x"]), np.zeros((0, 3)), math.nan]
        arrays[name] = chance.choice([*odd, old[:0], wild, old.tolist(), np.tile(old.ravel(), 99)])
        np.savez_compressed(file, **arrays)
    else:
        text = gzip.decompress(data) if file.suffix == ".gz" else data
        lines = [text] if file.suffix == ".json" else text.splitlines()
        for number in {chance.randrange(len(lines)) for _ in range(3)} if lines else ():
            lines[number] = json.dumps(spoil(chance, json.loads(lines[number]))).encode()
        text = b"\n".join(lines) + b"\n"
        file.write_bytes(gzip.compress(text, 1) if file.suffix == ".gz" else text)


def call(words: list[str]) -> Callable[[], object]:
    """A command line, in this process; raises what ``main`` has no words for."""

    def run() -> None:
        done = CliRunner().invoke(cli, words, standalone_mode=False)
        if done.exception and not isinstance(done.exception, OSError):
            raise done.exception

    return run


def results(chance: random.Random, place: Path) -> Readers:
    good = chance.choice([*sweeps(place / "good").values()])
    folder = place / "device" / good.name
    shutil.copytree(good, folder)
    files = [f for f in sorted(folder.rglob("*")) if f.is_file() and f.name != "complete.json"]
    done = [f for f in files if chance.random() < 0.3]
    for file in done:
        damage(chance, file)
    for verb, words in VERBS.items():
        yield f"{len(done)} damaged: {verb}", call(words.replace("FOLDER", str(folder)).split())
    name = history.sweep_name(folder)
    yield "page sweeps", lambda: history.sweep_rows(place)
    yield "page trials", lambda: history.trials_csv(place, [name])
    for trial in ("0001", "0002"):
        yield "page trial", lambda trial=trial: history.trial_detail(place, name, trial)
    yield "page answer", lambda: json.dumps(helper_process.sweep_answer(folder))
    yield "page predictions", lambda: json.dumps(helper_process.predict_limits(folder))
    yield "page boards", lambda: json.dumps(helper_process.predict_boards(folder))


def scenarios(chance: random.Random, place: Path) -> Readers:
    lines = chance.choice(SCENARIOS).read_text().splitlines()
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(lines))
        value = json.dumps(chance.choice(VALUES), default=str).replace("null", '""')
        lines[at] = f"{lines[at].partition('=')[0].strip('[]# ') or 'a'} = {value}"
    if chance.random() < 0.2:
        lines += ["[limits]", f"memory = {json.dumps([f'{n}M' for n in range(1, 20_000)])}"]
    data = "\n".join(lines).encode(errors="surrogatepass")
    if chance.random() < 0.3:
        data = chance.choice([torn(chance, data), *NESTED])
    (place / "a.toml").write_bytes(data)
    yield "scenario", call(["run", str(place / "a.toml"), "--dry-run", "--json"])


def verbs_of(group: click.Group, *before: str) -> Iterator[tuple[list[str], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from verbs_of(found, *before, name)
        elif found:
            yield [*before, name], found


def commands(chance: random.Random, place: Path) -> Readers:
    words, verb = chance.choice([*verbs_of(cli)])
    texts = [str(value) for value in VALUES if not isinstance(value, list | dict)]
    texts += [str(place), "/dev/zero", "/nowhere", "80M", "2G", "0", "é" * 300]
    for param in verb.params:
        value = chance.choice(texts).replace("\0", "").encode(errors="replace").decode()
        if isinstance(param, click.Argument):
            words += [value] * chance.randrange(3)
        elif chance.random() < 0.2 and param.name != "download":
            words += [param.opts[-1], *([] if getattr(param, "is_flag", False) else [value])]
    os.chdir(place)
    yield repr(words)[:200], call(words)


def refuse(*_: object, **__: object) -> Any:
    """Stand for what would measure or serve."""
    raise MachineError("nothing is measured here")


def fault_of(run: Callable[[], object]) -> str:
    Path("/proc/self/clear_refs").write_text("5")
    before_mib = _high_mib()  # a forked process holds what its parent did
    try:
        run()
    except (EdgebenchError, click.ClickException, click.Abort, SystemExit):
        pass
    except Exception as error:
        last = error.__traceback__
        while last and last.tb_next:
            last = last.tb_next
        where = f"{last.tb_frame.f_code.co_filename}:{last.tb_lineno}" if last else ""
        return f"{type(error).__name__}: {error} at {where}"
    more_mib = _high_mib() - before_mib
    return f"{more_mib} MiB" if more_mib > _MOST_MIB else ""


def _high_mib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


def faults(kind: Callable[[random.Random, Path], Readers], first: int, last: int) -> list[str]:
    command.open_session = trials.open_session = app.make_server = refuse
    found = []
    for number in range(first, last):
        with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile("w+") as told:
            if not (child := os.fork()):
                resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
                warnings.simplefilter("ignore")
                os.dup2(os.open(os.devnull, os.O_RDWR), 0)
                try:
                    for what, run in kind(random.Random(number), Path(place)):
                        print(f"{kind.__name__} {number}, {what}: ", end="", file=told, flush=True)
                        signal.setitimer(signal.ITIMER_PROF, _MOST_S)
                        signal.alarm(_PATIENCE_S)
                        print(fault_of(run), file=told, flush=True)
                    os._exit(0)
                finally:
                    os._exit(1)
            status = os.waitpid(child, 0)[1]
            told.seek(0)
            lines = told.read().splitlines()
            found += [line for line in lines if not line.endswith(": ")]
            if status:
                found.append(f"{lines[-1] if lines else number} ended with {status}")
    return found


if __name__ == "__main__":
    sys.exit("\n".join(faults(globals()[sys.argv[1]], *map(int, sys.argv[2:4]))) or None)
