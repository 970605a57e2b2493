"""Plants something at each path that a verb writes, runs the verb as root, and looks outside.

``python -m tests.trust.planting VERB [AT_MOST]``: the verb runs once undisturbed in a folder of
another user, while every path it makes is noted, temporary names too. Then, for each path and each
plant, it runs again; what was found is printed as JSON.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import os
import secrets
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edgebench import cli
from edgebench.errors import EdgebenchError
from tests.made_sweep import Shape, make

#: A user that no database knows.
STRANGER = 12345
#: What is put in the place of what the verb would make.
PLANTS = ("folder link", "file link", "dangling link", "fifo", "hard link")
SWEEP = Path("results/board/20260102T030405Z-made-000000")
_TESTS = Path(__file__).parents[1]
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_LIMIT_S = 120
_SCENARIO = """
schema = 1
name = "made"
repeats = 1
timeout = "20s"
[workload]
kind = "command"
command = ["/bin/true"]
"""


class World:
    """A folder of the stranger's, and one beside it that nothing may be written to."""

    def __init__(self, top: Path) -> None:
        self.own, self.outside, self._kept = top / "own", top / "outside", top / "kept"
        self.said, self.log, self.imported = top / "said", top / "log", top / "imported"
        (self.outside / "folder").mkdir(parents=True)
        for file in (self.outside / "file", self.outside / "folder" / "file"):
            file.write_text("precious")
        # Anybody's rights would do: only not following can save these.
        for path in (self.outside, *self.outside.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        self._kept.mkdir()
        top.chmod(0o755)

    def keep(self) -> None:
        """What the stranger's folder holds now is what each run finds."""
        give(self.own)
        shutil.rmtree(self._kept)
        shutil.copytree(self.own, self._kept, symlinks=True)

    def reset(self) -> None:
        """The stranger's folder as it was kept."""
        shutil.rmtree(self.own, ignore_errors=True)
        shutil.copytree(self._kept, self.own, symlinks=True)
        give(self.own)

    def plant(self, kind: str, path: Path) -> None:
        """Put it there, as the stranger would."""
        missing = [one for one in (path, *path.parents) if not os.path.lexists(one)]
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(path, 0o666)
        elif kind == "hard link":
            os.link(self.outside / "file", path)
        else:
            name = {"folder link": "folder", "file link": "file"}.get(kind, "none")
            path.symlink_to(self.outside / name)
        for one in missing if kind != "hard link" else missing[1:]:
            os.chown(one, STRANGER, STRANGER, follow_symlinks=False)

    def seen_outside(self) -> dict[str, Any]:
        """Owner, mode, names, times and content of all that is not the stranger's."""
        return {str(path): _seen(path) for path in (self.outside, *self.outside.rglob("*"))}


def _seen(path: Path) -> tuple[Any, ...]:
    found = path.lstat()
    content = path.read_bytes() if stat.S_ISREG(found.st_mode) else None
    # Not ctime: that changes too when the stranger's own name of it, a hard link, is taken away.
    return (found.st_uid, found.st_gid, found.st_mode, found.st_mtime_ns, content)


def give(folder: Path) -> None:
    """All of it becomes the stranger's."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


def noting(log: Path) -> None:
    """From now on this process notes each path that it opens for writing, makes or renames to."""
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def note(name: Any, folder: int | None) -> None:
        at = Path(f"/proc/self/fd/{folder}").readlink() if folder is not None else Path.cwd()
        os.write(fd, f"{at / str(name)}\n".encode())

    def noted(function: Callable[..., Any], at: int, key: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            if function is not real_open or args[1] & _WRITING:
                note(args[at], named.get(key))
            return function(*args, **named)

        return call

    real_open = os.open
    os.open = noted(os.open, 0, "dir_fd")
    os.mkdir = noted(os.mkdir, 0, "dir_fd")
    os.rename = noted(os.rename, 1, "dst_dir_fd")
    os.replace = noted(os.replace, 1, "dst_dir_fd")


@contextlib.contextmanager
def importing(told: Path) -> Iterator[None]:
    """Tell in this file which modules the block imports."""
    known = set(sys.modules)
    try:
        yield
    finally:
        told.write_text("\n".join(name for name in sys.modules if name not in known))


class _Noon(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> _Noon:
        return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)


def _same_again() -> None:
    """Names by chance and by the hour become the same in each run."""
    from edgebench.results import folder

    # Of this world alone: another one may be at work beside it.
    world = f"{os.getppid():016x}"
    secrets.token_hex = lambda size=4: world[-2 * size :]  # type: ignore[assignment]
    folder.datetime = _Noon  # type: ignore[assignment]


def _quick() -> None:
    """What takes long and writes nothing is left out; what is left writes as always."""
    from edgebench.report import pdf
    from edgebench.report.figures import style
    from edgebench.run import sweep

    style.figure_bytes = lambda figure, formats=style.FORMATS: dict.fromkeys(formats, b"drawn")
    pdf.as_pdf = lambda report: b"set"
    sweep.check_limit = lambda parent: None  # type: ignore[assignment]


def start(world: World, body: Callable[[], Any], *, note: bool = False) -> int | None:
    """Run it in a process of its own, as root in the stranger's folder; None if it hung."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            said = os.open(world.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(said, 1)
            os.dup2(said, 2)
            os.chdir(world.own)
            with importing(world.imported) if note else contextlib.nullcontext():
                _same_again()
                _quick()
                if note:
                    noting(world.log)
                body()
        except (EdgebenchError, OSError) as error:
            # Of what is no verb; those word it themselves.
            sys.stdout.write(str(error))
            sys.stdout.flush()
            os._exit(1)
        except SystemExit as end:
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else 1)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
            os._exit(70)
        os._exit(0)
    until = time.monotonic() + _LIMIT_S
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def verb(*words: str) -> Callable[[], None]:
    """The program with these words."""

    def body() -> None:
        sys.argv = ["edgebench", *words]
        cli.main()

    return body


def under_sudo(*words: str) -> Callable[[], None]:
    """The program with these words, as sudo starts it for the stranger."""

    def body() -> None:
        os.environ |= {"SUDO_UID": str(STRANGER), "SUDO_GID": str(STRANGER)}
        verb(*words)()

    return body


def calibrate() -> None:
    """The verb, without its two minutes of scans."""
    from edgebench.report.figures import calibration as figure
    from edgebench.run import calibration, calibration_points

    sys.path[:0] = [str(_TESTS), str(_TESTS / "slowdown")]
    from verb_making import calibration as made

    figure._draw_cost = lambda *about: None

    def run(self: Any, path: Path) -> None:
        calibration_points.scan_file(Path("cache/scan").absolute(), 1 << 16)

    calibration._Blocks.run = run  # type: ignore[method-assign]
    calibration._Blocks.result = lambda self, device: made(device)  # type: ignore[method-assign]
    under_sudo("calibrate", "--device", "fresh")()


def queue() -> None:
    """The page's queue: a sweep asked for, started, ended."""
    from edgebench.serve import job

    class Started:
        pid = 1

    job.subprocess.Popen = lambda *words, **about: Started()  # type: ignore[misc,assignment]
    files = job.JobFiles(Path("results"))
    one = job.Job("20260102T030405-000000", "made", "queued", "2026-01-02T03:04:05+00:00")
    files.add(one, _SCENARIO)
    files.save(files.start(one)[0])


def data() -> None:
    """A data set fetched, by a stand-in for torchvision that writes as it does."""
    from edgebench.workloads.training.data import vision

    def maker(root: str, train: bool, download: bool) -> None:
        raw = Path(root) / "MNIST" / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        (raw / "t10k-labels-idx1-ubyte").write_bytes(b"fetched")

    vision._maker = lambda name: maker  # type: ignore[assignment]
    vision.download_vision("mnist", Path("sets"))


def weights() -> None:
    """A network's weights made as root in a cache of the stranger's."""
    from edgebench.layers.examination import examine
    from edgebench.layers.weights import prepare_weights

    prepare_weights(examine("lenet", {}), Path("cache").absolute(), 0)


#: What is written by each, of the verbs and of what only some of their ways write.
WRITERS: dict[str, Callable[[], None]] = {
    "fit": verb("fit", "results"),
    "plot": verb("plot", "results"),
    "report": verb("report", "results", "--markdown", "--pdf"),
    "layers": verb("layers", "--from", "results"),
    "predict": verb("predict", "results", "--memory", "80M", "--figure", "--device", "board"),
    "validate": verb("validate", "results"),
    "export": verb("export", "results", "-o", "trials.csv"),
    "trace": verb("export", "results", "--format", "trace", "-o", "trace.json"),
    "measure": under_sudo("measure", "--samples", "kept.npz", "--", "/bin/true"),
    "run": under_sudo("run", "s.toml", "--device", "fresh", "--results", "results"),
    "resume": under_sudo("run", "s.toml", "--device", "fresh", "--results", "results"),
    "calibrate": calibrate,
    "serve": queue,
    "init": verb("init", "lenet", "--out", "new.toml"),
    "data": data,
    "weights": weights,
}
#: Verbs that write nothing.
READERS: dict[str, Callable[[], None]] = {
    "show": verb("show", "results"),
    "watch": verb("watch", "results", "--once"),
    "compare": verb("compare", "results", "results"),
    "check": verb("check", "s.toml"),
    "study": verb("study", "results"),
    "reconcile": verb("reconcile", "results"),
    "doctor": verb("doctor"),
    "boards": verb("boards"),
    "demo": verb("demo", "results", "--seconds", "1s"),
}
#: Their trials are a sweep's, as ``run``'s are.
SWEEPS = ("advise", "batch", "fleet", "minimum")


def build(world: World, name: str) -> None:
    """What the verb finds."""
    make(world.own / "results", Shape(networks={"lenet": 3}, repeats=2, rounds=1), "board")
    (folder,) = (world.own / "results" / "board").iterdir()
    folder.rename(world.own / SWEEP)
    (world.own / "s.toml").write_text(_SCENARIO)
    world.keep()
    if name == "resume":
        if start(world, WRITERS["run"]) != 0:
            raise RuntimeError(world.said.read_text())
        (begun,) = (world.own / "results" / "fresh").iterdir()
        (begun / "complete.json").unlink()
        (begun / "trials.jsonl").write_bytes(b"")
        for file in [*begun.glob("*/0*")]:
            file.unlink()
        world.keep()


def paths_of(world: World, body: Callable[[], None], fine: tuple[int, ...] = (0,)) -> list[Path]:
    """Every path in the stranger's folder that it makes or writes to, in order.

    Raises:
        RuntimeError: it did not work, or left something there that is not the stranger's.
    """
    world.reset()
    code = start(world, body, note=True)
    if code not in fine or "Traceback" in world.said.read_text():
        raise RuntimeError(f"{code}: {world.said.read_text()}")
    strange = [path for path in world.own.rglob("*") if path.lstat().st_uid != STRANGER]
    if strange:
        raise RuntimeError(f"not the stranger's: {strange}")
    noted = dict.fromkeys(map(Path, world.log.read_text().splitlines()))
    return [path for path in noted if path.is_relative_to(world.own) and path != world.own]


def one(world: World, body: Callable[[], None], path: Path, kind: str) -> list[str]:
    """What goes wrong with this plant at this path."""
    world.reset()
    world.plant(kind, path)
    before = world.seen_outside()
    code = start(world, body)
    wrong = []
    if world.seen_outside() != before:
        wrong.append("something outside changed")
    if code is None:
        wrong.append("it hung")
    elif code not in (0, 1, 2, 3) or "Traceback" in world.said.read_text():
        wrong.append(f"it ended with {code}: {world.said.read_text()[-700:]}")
    return [f"{kind} at {path.relative_to(world.own)}: {what}" for what in wrong]


def cases(paths: list[Path], at_most: int, step: int) -> list[tuple[Path, str]]:
    """Every path with every plant; each ``step``-th of them, or fewer, spread over both."""
    every = [(path, kind) for path in paths for kind in PLANTS]
    step = max(step, -(-len(every) // at_most))
    # No multiple of the number of plants, or all would be of one kind.
    step += step > 1 and step % len(PLANTS) == 0
    return every[::step]


def _load(world: World) -> None:
    """What the verb imported in its first run, once for all others."""
    for name in world.imported.read_text().splitlines():
        # Of what was imported from elsewhere, or by another name.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def main(words: list[str]) -> None:
    """Print what was found of one verb: ``NAME [AT_MOST [STEP]]``."""
    name, at_most, step, *_ = (*words, *(str(10**9), "1")[len(words) - 1 :])
    with tempfile.TemporaryDirectory(prefix="trust-", dir="/var/tmp") as top:
        world = World(Path(top))
        build(world, name)
        body = (WRITERS | READERS)[name]
        # A reader may have nothing to say of this sweep.
        paths = paths_of(world, body, (0, 1) if name in READERS else (0,))
        tried = cases(paths, int(at_most), int(step))
        if tried:
            _load(world)
        wrong = [words for path, kind in tried for words in one(world, body, path, kind)]
        told = [str(path.relative_to(world.own)) for path in paths]
    sys.stdout.write(json.dumps({"paths": told, "tried": len(tried), "wrong": wrong}))


if __name__ == "__main__":
    main(sys.argv[1:])
