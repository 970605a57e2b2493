"""The frameworks by name. Another one joins by a module and a line here."""

from __future__ import annotations

import importlib
from typing import cast

from edgebench.errors import WorkloadError
from edgebench.suggest import did_you_mean
from edgebench.training.backend import Backend
from edgebench.training.names import NUMPY, PYTORCH

#: Framework → the module that is its backend, imported when it is asked for.
BACKENDS = {
    PYTORCH: "edgebench.training.pytorch.backend",
    NUMPY: "edgebench.training.numpy_mlp",
}


def backend_of(framework: str) -> Backend:
    """The backend of that framework.

    Raises:
        WorkloadError: no such framework.
    """
    if framework not in BACKENDS:
        guess = did_you_mean(framework, BACKENDS)
        hint = f"did you mean {guess!r}?" if guess else f"one of {', '.join(BACKENDS)}"
        raise WorkloadError(f"no framework {framework!r}", remedy=hint)
    return cast(Backend, importlib.import_module(BACKENDS[framework]))
