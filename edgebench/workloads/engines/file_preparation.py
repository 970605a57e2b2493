"""Networks in files, made ready for trials in a helper process: the manifest's part of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgebench.errors import MachineError, WorkloadError
from edgebench.extras import install, missing
from edgebench.layers.disk import digest, evict, read_through, refuse_large_files, settle
from edgebench.safe_files import created, make_folder, remove_file, rename, write
from edgebench.text import joined_words
from edgebench.workloads.engines.file_inputs import FileInput, WantedInputs
from edgebench.workloads.engines.files import ENDS, FileRequest, whole_file
from edgebench.workloads.engines.registry import file_engine

_CHUNK_BYTES = 8 << 20


def keep_whole(
    request: FileRequest, inputs: Sequence[FileInput], outputs: Sequence[str]
) -> dict[str, int]:
    """Write both to the request's folder; ``file_bytes``, for the network's manifest."""
    make_folder(request.folder, parents=True)
    ends = {"inputs": [one.to_json() for one in inputs], "outputs": list(outputs)}
    write(request.folder / ENDS, json.dumps(ends).encode())
    copied = whole_file(request.folder, request.file.suffix.lower())
    copy_file(request.file, copied)
    read_through([copied])
    evict(request.file)
    return {"file_bytes": request.file.stat().st_size}


def copy_file(file: Path, to: Path) -> None:
    """Copy a file to the disk; one that is there is whole: it got its name when it was."""
    if to.exists():
        return
    half_made = to.with_name(f".{to.name}-{os.getpid()}.part")
    try:
        with file.open("rb") as source, created(half_made) as out:
            while chunk := source.read(_CHUNK_BYTES):
                out.write(chunk)
            settle(out)
        rename(half_made, to.name)
    except BaseException:
        remove_file(half_made)
        raise


#: Raised when folders of an earlier version must not be used any more.
FORMAT = 2


def manifest_of_files(request: dict[str, Any]) -> dict[str, Any]:
    """Each network's folder, layer table and sizes, with the files that trials load written.

    The request: ``files`` (network → path), ``cache``, ``schedules`` and ``loaders`` of all trials,
    ``batch``, ``image`` and ``input``.

    Raises:
        WorkloadError: a file can't be read, or its engine lacks an operator; no disk space.
        MachineError: the engine is not installed.
    """
    networks = {
        name: _network(name, Path(path), request) for name, path in request["files"].items()
    }
    engines = [file_engine(name) for name in networks]
    return {
        "networks": networks,
        "versions": {m: found for e in engines if e for m in e.libraries if (found := _version(m))},
    }


def _version(module: str) -> str | None:
    """The version of the package that brings a module; TensorFlow's may be the one for CPUs."""
    for package in (module, f"{module}-cpu"):
        with suppress(PackageNotFoundError):
            return version(package)
    return None


def _content(parts: Sequence[Path]) -> str:
    """What a network is: of one file its digest, else that of all their names and digests."""
    found = [digest(part) for part in parts]
    if len(found) == 1:
        return found[0]
    folder = parts[0].parent
    named = [(str(part.relative_to(folder)), one) for part, one in zip(parts, found, strict=True)]
    # The first one's own name says nothing of what it holds.
    return hashlib.sha256(json.dumps([found[0], *named[1:]]).encode()).hexdigest()


def _network(name: str, file: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    engine = file_engine(name)
    if engine is None:
        raise WorkloadError(f"no engine executes {file.suffix} files", where=str(file))
    if lacking := missing(engine.libraries):
        what = f"{engine.title} can't be used: {joined_words(lacking)} is not installed"
        raise MachineError(what, where=name, remedy=install(*lacking))
    # Before anything reads it, and again with what it names.
    refuse_large_files([file])
    parts = engine.parts(file)
    refuse_large_files(parts)
    content = _content(parts)
    key = hashlib.sha256(f"{FORMAT} {content}".encode()).hexdigest()[:12]
    folder = Path(request["cache"]) / "engines" / f"{file.stem}-{key}"
    try:
        made = engine.prepare(
            FileRequest(
                file,
                folder,
                request["schedules"],
                request["loaders"],
                WantedInputs.of(request),
            )
        )
    except OSError as error:
        raise WorkloadError(
            f"its files can't be written: {error.strerror}",
            where=error.filename,
            remedy="free some space",
        ) from error
    return {"folder": str(folder), "engine": engine.name, "content": content, **made}
