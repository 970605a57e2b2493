"""Programs saved by ``torch.export``: ``.pt2`` files."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.disk import refuse_large_files
from edgebench.layers.references import ModelReference
from edgebench.layers.samples import CallArguments, Sample
from edgebench.layers.sources.base import NetworkSource
from edgebench.safe_files import write

#: The program without its weights, beside them: what a trial builds the network from.
_HOLLOW = "program.pt2"
#: In PyTorch's message where it logged what was wrong; its log says no more of such files.
_LOOK_ABOVE = "error when deserializing"


class ExportedNetwork(NetworkSource):
    """The program as modules again, as it was before it was exported."""

    #: What a file holds is read into memory; that of a trial holds no weights.
    may_be_light = False

    def __init__(self, reference: ModelReference) -> None:
        super().__init__(reference)
        self._path = Path(reference.path or "")
        self._example: Any = None

    def construct(self, weights: bool) -> nn.Module:
        """The program's modules.

        Raises:
            WorkloadError: the file is no such program, or is not whole.
        """
        program = self._loaded()
        self._example = program.example_inputs
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.unflatten(program)

    def files(self) -> list[Path]:
        """The program's file."""
        return [self._path]

    def own_sample(self, model: nn.Module, batch: int, image: int | None, seed: int) -> Sample:
        """What it was exported with.

        Raises:
            WorkloadError: another batch or image is asked for: its shapes are fixed.
        """
        if batch != 1 or image is not None:
            raise WorkloadError(
                f"{self.name} has the input that it was exported with",
                remedy="leave --batch and --image out, or export it anew with another input",
            )
        args, kwargs = self._example or ((), {})
        return CallArguments(tuple(args), dict(kwargs))

    def input_remedy(self, model: nn.Module) -> str:
        """Its shapes are part of the program."""
        return "leave --input out: it has the input that it was exported with"

    def keep(self, folder: Path) -> None:
        """Write the program without its weights."""
        program = self._loaded()
        for name, tensor in list(program.state_dict.items()):
            empty = tensor.detach().to("meta")
            is_parameter = isinstance(tensor, nn.Parameter)
            program.state_dict[name] = nn.Parameter(empty, False) if is_parameter else empty
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            buffer = io.BytesIO()
            torch.export.save(program, buffer)
        write(folder / _HOLLOW, buffer.getvalue())

    def use(self, folder: Path) -> None:
        """Build from the program without its weights."""
        self._path = folder / _HOLLOW

    def _loaded(self) -> torch.export.ExportedProgram:
        if self._path.name != _HOLLOW:
            refuse_large_files([self._path])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return torch.export.load(self._path)
        except Exception as error:
            words = (str(error).strip().splitlines() or ["damaged"])[0]
            if _LOOK_ABOVE in words:
                words = "it is damaged, or of another format, or of another version of PyTorch"
            raise WorkloadError(
                f"{self._path.name} can't be read as a program of torch.export: {words}",
                where=str(self._path),
                remedy="write it anew: torch.export.save(torch.export.export(model, (x,)), "
                f'"{self._path.name}")',
            ) from error
