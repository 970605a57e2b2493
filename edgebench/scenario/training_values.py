"""Values of the keys of training: networks, losses, data, shapes, parts; each is checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from edgebench.errors import UsageError
from edgebench.layers.references import CODE, FILE_KINDS, KNOWN, parse_reference, portable_text
from edgebench.scenario.keys import OneOf, OneOfNetworks, checkpoint_path, scenario_path
from edgebench.workloads.training.names import DATA_SETS, SCRATCH, TRAINED
from edgebench.workloads.training.partial import checked_part

_SHAPE = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){2}")


def _channels_height_width(text: object) -> str:
    if isinstance(text, str) and _SHAPE.fullmatch(text):
        return text
    raise ValueError(f'{text!r} is not a shape; write channels, height and width: "3x224x224"')


def _rate(rate: float) -> float:
    if rate > 0:
        return rate
    raise ValueError(f"{rate:g} is not a learning rate; write a number above 0, as 0.01")


def _data_folder(text: object, info: ValidationInfo) -> str:
    """Its files are looked for later."""
    return str(scenario_path(text, info))


def _scratch_or_checkpoint(text: object, info: ValidationInfo) -> str:
    if text == SCRATCH:
        return SCRATCH
    try:
        return checkpoint_path(text, info)
    except ValueError as error:
        raise ValueError(f'{error}; or write "{SCRATCH}"') from error


def _trainable(text: str) -> str:
    """The text itself, unless it is a file that is only executed."""
    kind = parse_reference(text, Path()).kind if text not in TRAINED else KNOWN
    if kind in FILE_KINDS.values():
        raise ValueError(
            f"{Path(text).name} is made for execution and can't be trained; name the code that "
            f'makes the network: network = "mymodel.py:Net"'
        )
    return text


def _own_code(text: str, info: ValidationInfo) -> str:
    """A function of the user's own, the same from any folder."""
    if ":" not in text:
        raise ValueError(f'{text!r} names no function; write "file.py:function"')
    try:
        found = parse_reference(text, Path((info.context or {}).get("folder", ".")))
    except UsageError as error:
        raise ValueError(f"{error.what}; {error.remedy}") from error
    if found.kind != CODE:
        raise ValueError(f'{text!r} names no function; write "file.py:function"')
    return portable_text(found)


class OneOfDataSets(OneOf):
    """Checks that a text is a data set's name, or a function of the user's own."""

    def __call__(self, word: object, info: ValidationInfo) -> str:
        """The name itself; of a function the same from any folder.

        Raises:
            ValueError: it is neither.
        """
        if isinstance(word, str) and ":" in word:
            return _own_code(word, info)
        return super().__call__(word, info)


#: A network that is trained: of those known by name, or the user's own.
TrainedName = Annotated[
    str, BeforeValidator(OneOfNetworks("network", TRAINED)), AfterValidator(_trainable)
]
#: A data set, or a function of the user's own that returns arrays.
DataName = Annotated[str, BeforeValidator(OneOfDataSets("data set", DATA_SETS))]
#: A loss of the user's own.
LossName = Annotated[str, AfterValidator(_own_code)]
#: One image, as text: channels, height and width.
ShapeLabel = Annotated[str, BeforeValidator(_channels_height_width)]
#: Which part is trained, as text.
PartLabel = Annotated[str, AfterValidator(checked_part)]
#: A number above 0.
LearningRate = Annotated[float, Field(le=1e6), AfterValidator(_rate)]
#: A folder whose files are looked for later.
DataFolder = Annotated[str, BeforeValidator(_data_folder)]
#: What parameters come from: the seed, or a checkpoint.
StartName = Annotated[str, BeforeValidator(_scratch_or_checkpoint)]
