"""What trials need of a file that is loaded as a whole: its copy, its inputs and outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from edgebench.layers.disk import evict, read_through, settle
from edgebench.safe_files import created, make_folder, remove_file, rename, write
from edgebench.workloads.engines.engine import FileRequest
from edgebench.workloads.engines.file_inputs import FileInput
from edgebench.workloads.engines.whole_file import ENDS, whole_file

_CHUNK_BYTES = 8 << 20


def keep_whole(
    request: FileRequest, inputs: Sequence[FileInput], outputs: Sequence[str]
) -> dict[str, int]:
    """Write both to the request's folder; ``file_bytes``, for the network's manifest."""
    make_folder(request.folder, parents=True)
    ends = {"inputs": [one.to_json() for one in inputs], "outputs": list(outputs)}
    write(request.folder / ENDS, json.dumps(ends).encode())
    copied = whole_file(request.folder, request.file.suffix.lower())
    _copy(request.file, copied)
    read_through([copied])
    evict(request.file)
    return {"file_bytes": request.file.stat().st_size}


def _copy(file: Path, to: Path) -> None:
    """One that is there is whole: it got its name when it was."""
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
