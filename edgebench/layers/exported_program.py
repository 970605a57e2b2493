"""A ``.pt2`` file (an archive of ``torch.export``), checked before PyTorch reads it as a program.

A file may come from anybody. PyTorch would unpickle parts of it, evaluate expressions in it, and
load compiled libraries from it. The check and PyTorch read the same open file with the same reader.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch

from edgebench.errors import MachineError, WorkloadError
from edgebench.layers.exported_names import ForbiddenNameError, check_description
from edgebench.layers.samples import tensors_in
from edgebench.safe_reading import open_to_read

_MODEL, _SAMPLE = "models/model.json", "data/sample_inputs/model.pt"
#: Folder of weights → its description, and the names of the members beside it.
_PAYLOADS = {
    "data/weights/": ("model_weights_config.json", re.compile(r"weight_[0-9]+")),
    "data/constants/": ("model_constants_config.json", re.compile(r"tensor_[0-9]+")),
}
_OTHER = re.compile(
    r"archive_format|archive_version|byteorder|version|\.data/(version|serialization_id)"
    r"|extra/[A-Za-z0-9_./-]*"
)
#: The most that a description may take.
_MOST_DESCRIPTION_BYTES = 64 << 20
#: The most numbers for each byte in the file: a tensor may repeat what is stored.
_MOST_REPEATED = 1000
_DEVICES = ("cpu", "cuda", "meta", "mps", "xpu")


def read_program(file: Path) -> torch.export.ExportedProgram:
    """The program in a file, after a check of all that PyTorch would run or look up.

    Raises:
        MachineError: this PyTorch has another format.
        WorkloadError: it can't be read, or is more than operators and tensors.
    """
    # PyTorch's own loader: torch.export.load would try a file that this one refuses as an older
    # format, which is read by another reader and unpickled.
    try:
        from torch.export.pt2_archive._package import load_pt2
    except ImportError as error:
        raise MachineError(
            "a .pt2 file is checked before it is read, with a part of PyTorch that "
            f"{torch.__version__} lacks; 2.8 has it",
            where=str(file),
            remedy='pip install "torch>=2.8" torchvision; or name the code that makes the network: '
            "package.module:function",
        ) from error
    try:
        with open_to_read(file) as opened, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _check(opened)
            opened.seek(0)
            return load_pt2(opened).exported_programs["model"]
    except ForbiddenNameError as error:
        raise WorkloadError(
            f"{file.name} is not read, because {error.what}",
            where=f"{file}, {error.where}",
            remedy="export the network again with operators and tensors alone; if you trust it, "
            "name the code that makes it: package.module:function",
        ) from error
    except Exception as error:
        words = "it is damaged, or of another format, or of another version of PyTorch"
        if isinstance(error, OSError) and error.strerror:
            words = error.strerror
        raise WorkloadError(
            f"{file.name} can't be read as a program of torch.export: {words}",
            where=str(file),
            remedy="write it anew: torch.export.save(torch.export.export(model, (x,)), "
            f'"{file.name}")',
        ) from error


def _check(opened: BinaryIO) -> None:
    """Check the whole archive.

    Raises:
        ForbiddenNameError: it holds what a network does not need.
    """
    from torch.export.pt2_archive import PT2ArchiveReader

    _check_stored(opened, "its members")
    opened.seek(0)
    archive = PT2ArchiveReader(opened)
    sizes = {name: _size(archive, name) for name in archive.get_file_names()}
    if sum(sizes.values()) > os.fstat(opened.fileno()).st_size:
        raise ForbiddenNameError("its members are together larger than the file", "its members")
    for name in sizes:
        _check_member(name)
    targets = set(check_description(_description(archive, _MODEL, sizes), _MODEL))
    for target in sorted(targets):
        if not _is_operator(target):
            raise ForbiddenNameError(f"it calls {target}, which PyTorch does not know here", _MODEL)
    for folder, (described, _) in _PAYLOADS.items():
        where = folder + described
        payload = _description(archive, where, sizes)
        members = {
            name.removeprefix(folder): size
            for name, size in sizes.items()
            if name.startswith(folder)
        }
        _check_payload(payload, where, members)
    _check_sample(archive.read_bytes(_SAMPLE))


def _size(archive: Any, name: str) -> int:
    return int(archive.archive_file.get_record_size(name))


def _check_stored(archive: BinaryIO, where: str) -> None:
    """PyTorch packs nothing; what is packed could fill the memory."""
    with zipfile.ZipFile(archive) as members:
        if any(one.compress_type != zipfile.ZIP_STORED for one in members.infolist()):
            raise ForbiddenNameError("a part of it is compressed, which PyTorch never does", where)


def _check_member(name: str) -> None:
    if name in (_MODEL, _SAMPLE) or _OTHER.fullmatch(name):
        return
    for folder, (described, payload) in _PAYLOADS.items():
        within = name.removeprefix(folder)
        if within != name and (within == described or payload.fullmatch(within)):
            return
    raise ForbiddenNameError(
        "it holds a member that is neither a description nor a tensor", ascii(name[:200])
    )


def _description(archive: Any, name: str, sizes: dict[str, int]) -> Any:
    if sizes[name] > _MOST_DESCRIPTION_BYTES:
        raise ForbiddenNameError("it is larger than any description of a network", name)
    return json.loads(archive.read_bytes(name))


def _is_operator(target: str) -> bool:
    """Whether the name leads to an operator, and to no attribute of one."""
    if not target.startswith("torch.ops."):
        return True
    found: Any = torch.ops
    for part in target.split(".")[2:]:
        found = getattr(found, part, None)
    return isinstance(found, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))


def _check_payload(payload: Any, where: str, sizes: dict[str, int]) -> None:
    """Check the tensors' description: no pickle, and no tensor that the file does not hold.

    Raises:
        ForbiddenNameError: PyTorch would unpickle one, or make one of any size.
    """
    for _ in check_description(payload, where):
        raise ForbiddenNameError("it names an operator among its tensors", where)
    for name, about in payload["config"].items():
        tensor = about["tensor_meta"]
        if about["use_pickle"] is not False or tensor is None:
            raise ForbiddenNameError(f"{name} is pickled: reading it would run code in it", where)
        device = tensor["device"]["type"]
        if device not in _DEVICES:
            raise ForbiddenNameError(f"{name} is on a device {device!r}", where)
        count = math.prod(int(one["as_int"]) for one in tensor["sizes"])
        if device != "meta" and count > _MOST_REPEATED * sizes[about["path_name"]]:
            raise ForbiddenNameError(f"{name} has many more numbers than the file holds", where)


def _check_sample(sample: bytes) -> None:
    """Check the inputs that the program was exported with, where there are any.

    Raises:
        ForbiddenNameError: they are more than tensors and numbers.
    """
    if not sample:
        return
    try:
        _check_stored(io.BytesIO(sample), _SAMPLE)
        inputs = torch.load(io.BytesIO(sample), weights_only=True)
    except ForbiddenNameError:
        raise
    except Exception as error:
        raise ForbiddenNameError(
            "its sample inputs are pickled objects, or tensors that this machine can't hold",
            _SAMPLE,
        ) from error
    if any(one.numel() > _MOST_REPEATED * len(sample) for one in tensors_in(inputs)):
        raise ForbiddenNameError("an input has many more numbers than the file holds", _SAMPLE)
