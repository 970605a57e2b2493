"""edgebench on every Python it supports, and what it needs on aarch64. ``pipx run nox``.

``nox -s tests-3.12`` is one of them; ``nox -s newest`` and ``nox -s oldest`` use the newest and the
oldest versions that pyproject.toml allows. Words after ``--`` go to pytest. No torch here: what
runs inside a limit is tested by ``scripts/test``, on the one Python that it sets up.
"""

from __future__ import annotations

from pathlib import Path

import nox

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
#: The tags of wheels that a Jetson (glibc 2.35) or a Raspberry Pi can use.
AARCH64 = ["manylinux2014_aarch64", *(f"manylinux_2_{minor}_aarch64" for minor in range(17, 36))]
#: What tests that load no torch need.
EXTRAS = "plot,parquet,report,serve"
TOOLS = [
    *("hatch-vcs", "hatchling", "hypothesis", "import-linter"),
    *("pytest", "pytest-benchmark", "pytest-timeout", "pytest-xdist"),
]

nox.options.sessions = ["tests", "newest", "oldest", "aarch64"]
nox.options.error_on_missing_interpreters = False


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The tests that need no torch, at the versions of constraints.txt."""
    session.install("-c", "constraints.txt", "-e", f".[{EXTRAS}]", *TOOLS)
    _pytest(session)


@nox.session(python=PYTHONS[-1])
def newest(session: nox.Session) -> None:
    """The same at the newest version of everything."""
    session.install("--upgrade", "-e", f".[{EXTRAS}]", *TOOLS)
    _pytest(session)


@nox.session(python=PYTHONS[0])
def oldest(session: nox.Session) -> None:
    """The same at the oldest versions that pyproject.toml allows."""
    oldest = Path(session.create_tmp(), "oldest.txt")
    oldest.write_text("\n".join(_oldest_versions()))
    session.install("-c", str(oldest), "-e", f".[{EXTRAS}]", *TOOLS)
    _pytest(session)


def _pytest(session: nox.Session) -> None:
    words = ["-q", "-m", "not (torch or long or own_cgroup or exclusive or browser)"]
    session.run("python", "-m", "pytest", *words, *(session.posargs or ["tests"]))


def _oldest_versions() -> list[str]:
    """Each requirement of edgebench and the extras used here at its lower bound."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *(one for name in EXTRAS.split(",") for one in extras[name])]
    return [one.replace(">=", "==") for one in named]


@nox.session(python=PYTHONS)
def aarch64(session: nox.Session) -> None:
    """Whether pip finds a wheel of every dependency for aarch64; nothing is installed."""
    platforms = [word for tag in AARCH64 for word in ("--platform", tag)]
    target = ["--target", session.create_tmp(), "--python-version", str(session.python)]
    quiet = ["--dry-run", "--quiet", "--ignore-installed", "--only-binary=:all:"]
    wanted = ["-c", "constraints.txt", *_dependencies()]
    session.run("python", "-m", "pip", "install", *quiet, *platforms, *target, *wanted)


@nox.session
def mutation(session: nox.Session) -> None:
    """What share of small faults the quick tests find; minutes to an hour, so only by its name."""
    session.install("-c", "constraints.txt", "-e", ".[dev]", "mutmut==3.8.1")
    session.run("python", "benchmarks/mutation.py", *session.posargs)


def _dependencies() -> list[str]:
    """What all of edgebench's extras name, as in pyproject.toml."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *(one for name in extras for one in extras[name])]
    # cgroupspy is pure Python and has no wheel at all: pip builds one anywhere, but not for others.
    # torch's own wheels for aarch64 bring gigabytes of CUDA, which pip fetches even for a dry run.
    own = ("edgebench[", "cgroupspy", "torch")
    return sorted({one for one in named if not one.startswith(own)})
