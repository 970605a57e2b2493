"""A person's own network, named as ``package.module:factory``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.suggest import did_you_mean

HOW = "name a function that takes nothing and returns a torch.nn.Module: package.module:function"


def build_own(named: str) -> nn.Module:
    """What the factory makes, in evaluation mode and on ``meta``.

    It is imported and called here, with all that its package does on import.

    Raises:
        WorkloadError: no such module or function, it fails, or it makes no ``torch.nn.Module``.
    """
    made = _call(_factory(named), named)
    if not isinstance(made, nn.Module):
        raise WorkloadError(f"{named} made a {type(made).__name__}, no torch.nn.Module", remedy=HOW)
    return made.eval().to("meta")


def _factory(named: str) -> Callable[[], Any]:
    package, colon, name = named.partition(":")
    if not (package and colon and name):
        raise WorkloadError(f"{named!r} names no function of a module", remedy=HOW)
    module = _import(package)
    factory: Any = getattr(module, name, None)
    if factory is None:
        guess = did_you_mean(name, [n for n in vars(module) if not n.startswith("_")])
        hint = f"did you mean {package}:{guess}?" if guess else HOW
        raise WorkloadError(f"module {package} has no {name!r}", remedy=hint)
    if not callable(factory):
        raise WorkloadError(f"{named} is a {type(factory).__name__}, no function", remedy=HOW)
    made: Callable[[], Any] = factory
    return made


def _import(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name and f"{package}.".startswith(f"{error.name}."):
            remedy = "go to the folder that holds it, or install it: python3 -m pip install …"
            raise WorkloadError(f"no module {error.name!r}", remedy=remedy) from error
        raise _failed(f"import {package}", error) from error
    except (Exception, SystemExit) as error:
        raise _failed(f"import {package}", error) from error


def _call(factory: Callable[[], Any], named: str) -> Any:
    try:
        with torch.inference_mode():
            return factory()
    except (Exception, SystemExit) as error:
        package, _, name = named.partition(":")
        raise _failed(f"import {package}; {package}.{name}()", error) from error


def _failed(code: str, error: BaseException) -> WorkloadError:
    """Somebody else's code failed: its own words, and how to see more of them."""
    words = str(error).strip().splitlines() or ["no message"]
    return WorkloadError(
        f"{type(error).__name__} in your own code: {words[0]}",
        where=code,
        remedy=f"mend it until this works: python3 -c '{code}'",
    )
