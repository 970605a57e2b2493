"""Networks in files, made ready for trials in a helper process: the manifest's part of them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgebench.errors import MachineError, WorkloadError
from edgebench.installation import install, missing
from edgebench.layers.disk import (
    digest,
    evict,
    read_through,
    refuse_too_large,
    settle,
    weights_in,
)
from edgebench.layers.input_specs import UndescribedError, make_inputs, proposal, value_words
from edgebench.safe_files import make_folder, replaced, write
from edgebench.text import joined_words
from edgebench.workloads.engines.engine import (
    COPY,
    DESCRIPTION,
    LOADING,
    FileEngine,
    file_engine,
)
from edgebench.workloads.recorder import Recorder

_CHUNK_BYTES = 8 << 20
#: Raised when folders of an earlier version must not be used any more.
FORMAT = 3


def manifest_of_files(request: dict[str, Any]) -> dict[str, Any]:
    """Make each network's folder with the files that trials load; returns folders and sizes.

    The request: ``cache``, and ``files``: network → its ``path``, the ``settings`` of a trial, and
    the ``loaders`` of all trials.

    Raises:
        WorkloadError: a file can't be loaded or executed by its engine; no disk space.
        MachineError: the engine is not installed.
    """
    cache = Path(request["cache"]) / "engines"
    networks = {name: _network(name, cache, **about) for name, about in request["files"].items()}
    versions = {}
    for engine in filter(None, map(file_engine, networks)):
        for module in engine.libraries:
            # TensorFlow's package may be the one for CPUs.
            for package in (f"{module}-cpu", module):
                with suppress(PackageNotFoundError):
                    versions[module] = version(package)
    return {"networks": networks, "versions": versions}


def _network(
    name: str, cache: Path, path: str, settings: Mapping[str, Any], loaders: Sequence[str]
) -> dict[str, Any]:
    """Copy the network's files; load it and execute it once, so that no trial finds it broken."""
    file = Path(path)
    engine = file_engine(name)
    if not isinstance(engine, FileEngine):
        raise WorkloadError(f"no engine executes {file.suffix} files", where=path)
    if lacking := missing(engine.libraries):
        what = f"{engine.title} can't be used: {joined_words(lacking)} is not installed"
        raise MachineError(what, where=name, remedy=install(*lacking))
    # Before anything reads it, and again with what it names.
    refuse_too_large(file.name, file.stat().st_size)
    with engine.named_errors("read it", path):
        parts = engine.parts(file)
    size = sum(part.stat().st_size for part in parts)
    refuse_too_large(file.name, size)
    digests = [digest(part) for part in parts]
    content = digests[0]
    if len(parts) > 1:
        # The first one's own name says nothing of what it holds.
        names = (str(part.relative_to(parts[0].parent)) for part in parts)
        about = [digests[0], *list(zip(names, digests, strict=True))[1:]]
        content = hashlib.sha256(json.dumps(about).encode()).hexdigest()
    key = hashlib.sha256(f"{FORMAT} {content}".encode()).hexdigest()[:12]
    folder = cache / f"{file.stem}-{key}"
    try:
        for part in parts:
            copy = folder / COPY / part.relative_to(parts[0].parent)
            # One that is there is whole: it got its name when it was.
            if not copy.exists():
                make_folder(copy.parent, parents=True)
                with part.open("rb") as source, replaced(copy) as target:
                    shutil.copyfileobj(source, target, _CHUNK_BYTES)
                    settle(target)
        engine.keep_forms(file, folder, loaders)
        engine.import_library(settings, Recorder())
        times_nodes = engine.layer_option and settings.get(engine.layer_option)
        # ONNX Runtime does not count packed weights as a node's.
        trial_settings = {**settings, "prepacking": False} if times_nodes else settings
        model = engine.model(
            folder / COPY / file.name, trial_settings, folder if times_nodes else None
        )
        with engine.named_errors("load it", path):
            model.load()
            inputs = model.inputs()

        def execute(values: dict[str, Any]) -> None:
            model.fit(values)
            model.run(values)

        try:
            values = make_inputs(inputs, settings, path)
        except UndescribedError as error:
            error.remedy = proposal(inputs, execute, path)
            raise
        try:
            with engine.named_errors(f"execute it with {value_words(values)}", path):
                execute(values)
        except WorkloadError as error:
            error.remedy = f"try another --input: {proposal(inputs, execute, path)}"
            raise
        model.unload()
        described = {"file": file.name, "inputs": [asdict(entry) for entry in inputs]}
        write(folder / DESCRIPTION, json.dumps(described).encode())
        read_through(weights_in([folder]))
    except OSError as error:
        raise WorkloadError(
            f"its files can't be written: {error.strerror}",
            where=error.filename,
            remedy="free some space",
        ) from error
    for part in parts:
        evict(part)
    nodes = model.timed_nodes()
    rows = [{"order": 0, "name": LOADING if nodes else "(network)", "part": "0"}]
    rows += [
        {
            "order": node.order,
            "name": node.name,
            "part": str(node.order),
            "type": node.operator,
            "parameter_bytes": node.weights_bytes,
            "file_bytes": node.weights_bytes,
            "output_bytes": node.output_bytes,
        }
        for node in nodes
    ]
    if not nodes:
        rows[0]["file_bytes"] = size
    return {
        "folder": str(folder),
        "engine": engine.name,
        "content": content,
        "file_bytes": size,
        "table": rows,
    }
