"""The base install: megabytes on the disk, seconds with packages in pip's cache, and its help."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import report

sys.path.append(str(Path(__file__).parents[1] / "tests" / "installs"))

from light import copy_source

ROOT = Path(__file__).parents[1]
#: What `venv` itself puts there.
_NOT_OURS = ("pip", "setuptools", "_distutils_hack", "distutils-precedence.pth")
_HELPS = 10
_HEADER = ["what", "measured", "aim: at most"]


def main(repeats: int) -> None:
    """Install it that many times from pip's cache, into a fresh environment each; 0: its size only.

    Sizes and times are kept apart: a busy machine can tell the one and not the other.
    """
    with tempfile.TemporaryDirectory(prefix="edgebench-install-") as folder:
        place = Path(folder)
        wheel = make_wheel(place)
        # The first one fills the cache.
        made = [install(place / f"env{number}", wheel) for number in range(repeats + 1)]
        write_size(sizes_of(made[-1][0]))
        if repeats:
            helps = [help_s(made[-1][0]) for _ in range(_HELPS + 1)][1:]
            write_times([took for _, took in made[1:]], helps)


def write_size(sizes: dict[str, int]) -> None:
    """Keep the bytes of each part."""
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    rows = [
        ["size", f"{sum(sizes.values()) / 1e6:.1f} MB", "40 MB"],
        ["largest", ", ".join(f"{name} {sizes[name] / 1e6:.1f} MB" for name in largest), ""],
    ]
    says = "The size of the base install, in a fresh environment."
    report.write("base_install_size", says, _HEADER, rows, {"bytes": sizes})


def write_times(seconds: list[float], helps: list[float]) -> None:
    """Keep how long it takes to install, and to print its help."""
    rows = [
        ["installing, packages cached", f"{report.spread(seconds)['median']:.1f} s", "10 s"],
        ["`edgebench --help`", f"{1000 * report.spread(helps)['median']:.0f} ms", "100 ms"],
    ]
    says = f"The base install, {len(seconds)} times into a fresh environment."
    report.write("base_install", says, _HEADER, rows, {"install_s": seconds, "help_s": helps})


def make_wheel(folder: Path) -> Path:
    """A wheel of a copy of this checkout: building leaves files beside its source."""
    copy = copy_source(folder / "source")
    words = ["wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(copy)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return next(folder.glob("edgebench-*.whl"))


def install(folder: Path, wheel: Path) -> tuple[Path, float]:
    """A fresh environment with it; the time of pip alone."""
    venv.EnvBuilder(with_pip=True).create(folder)
    words = ["install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    began = time.monotonic()
    subprocess.run([folder / "bin" / "python", "-m", "pip", *words], check=True)
    return folder, time.monotonic() - began


def sizes_of(folder: Path) -> dict[str, int]:
    """Bytes of each folder or file in its site-packages, compiled modules included."""
    (site,) = folder.glob("lib/python*/site-packages")
    return {
        top.name: sum(f.stat().st_size for f in [top, *top.rglob("*")] if f.is_file())
        for top in site.iterdir()
        if not top.name.startswith(_NOT_OURS)
    }


def help_s(folder: Path) -> float:
    """Seconds of the whole process that prints the help."""
    began = time.monotonic()
    subprocess.run([folder / "bin" / "edgebench", "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
