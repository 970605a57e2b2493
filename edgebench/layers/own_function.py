"""A function or class of the user's own: imported, found and called. Imports no torch itself."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import shlex
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from edgebench.errors import WorkloadError
from edgebench.layers.disk import digest
from edgebench.layers.references import ModelReference
from edgebench.text import did_you_mean


class OwnFunction:
    """The function or class that a reference to code names.

    Args:
        reference: of kind ``code``.
        how: what it should be and how to name it, for messages.
        passed: the arguments that edgebench gives it, beside those of the reference.
    """

    def __init__(self, reference: ModelReference, how: str, passed: Sequence[str] = ()) -> None:
        self.name = reference.name
        self.reference = reference
        self._how, self._passed = how, tuple(passed)
        module, _, function = reference.target.rpartition(":")
        self._module, self._function = module or Path(reference.path or "").stem, function

    def import_code(self) -> ModuleType:
        """Import the user's module.

        Raises:
            WorkloadError: no such module, or it fails.
        """
        self._look_in_folder()
        name, path = self._module, self.reference.path
        try:
            if not path:
                return importlib.import_module(name)
            imported = sys.modules.get(name)
            if imported is not None and getattr(imported, "__file__", None) == path:
                return imported
            spec = importlib.util.spec_from_file_location(name, path)
            if spec is None or spec.loader is None:
                raise ImportError(f"{path} is no Python file")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
        except (Exception, SystemExit) as error:
            lacking = error.name if isinstance(error, ModuleNotFoundError) else None
            if lacking and f"{self._module}.".startswith(f"{lacking}."):
                remedy = "go to the folder that holds it, or install it: python3 -m pip install …"
                raise WorkloadError(f"no module {lacking!r}", remedy=remedy) from error
            raise self._failed(f"import {self._module}", error) from error

    def function(self) -> Callable[..., Any]:
        """Return the function, which takes the arguments of the reference and of edgebench.

        Raises:
            WorkloadError: no such module or function, or it takes other arguments.
        """
        target: Any = getattr(self.import_code(), self._function, None)
        if target is None:
            names = [name for name in vars(self.import_code()) if not name.startswith("_")]
            guess = did_you_mean(self._function, names)
            where = Path(self.reference.path).name if self.reference.path else self._module
            hint = f"did you mean {where}:{guess}?" if guess else self._how
            what = f"module {self._module} has no {self._function!r}"
            raise WorkloadError(what, remedy=hint)
        if not callable(target):
            what = f"{self.name} is no function, but {target!r:.60}"
            raise WorkloadError(what, remedy=self._how)
        function: Callable[..., Any] = target
        # A class is made with the reference's arguments; edgebench's are for what it makes.
        passed = () if inspect.isclass(function) else self._passed
        _check_arguments(function, dict(self.reference.arguments), self.name, passed)
        return function

    def call(self, *values: Any) -> Any:
        """Call it with these values and the reference's arguments.

        Raises:
            WorkloadError: as :meth:`function`, or it fails.
        """
        function = self.function()
        self._look_in_folder()
        try:
            return function(*values, **dict(self.reference.arguments))
        except (Exception, SystemExit) as error:
            named = ", ".join(f"{key}={value!r}" for key, value in self.reference.arguments)
            code = f"import {self._module}; {self._module}.{self._function}({named})"
            raise self._failed(code, error) from error

    def _failed(self, code: str, error: BaseException) -> WorkloadError:
        words = str(error).strip().splitlines() or ["no message"]
        folder = self.reference.folder
        go = f"cd {shlex.quote(folder)} && " if folder and folder != str(Path.cwd()) else ""
        return WorkloadError(
            f"{type(error).__name__} in your own code: {words[0]}",
            where=code,
            remedy=f"fix your code until this works: {go}python3 -c {shlex.quote(code)}",
        )

    def _look_in_folder(self) -> None:
        """Look for modules in the user's folder first, as when Python starts there.

        From then on: modules that a network imports while it runs must be found as well.
        """
        folder = self.reference.folder
        if folder is not None and folder not in sys.path:
            sys.path.insert(0, folder)


def required_arguments(function: Callable[..., Any]) -> list[str]:
    """Name the arguments that a call has to give."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in kinds]


def _check_arguments(
    function: Callable[..., Any], given: dict[str, Any], name: str, passed: Sequence[str]
) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Functions of C may have none.
        return
    try:
        signature.bind(*passed, **given)
    except TypeError as error:
        called = f" (edgebench gives it {', '.join(passed)})" if passed else ""
        takes = ", ".join(signature.parameters) or "nothing"
        raise WorkloadError(
            f"{name}: {error}{called}",
            remedy=f"it takes {takes}; arguments follow a question mark: module:function?depth=3",
        ) from error


def own_files() -> list[Path]:
    """List the files of imported modules that are not Python's, installed or edgebench's."""
    foreign = [Path(path) for path in sysconfig.get_paths().values()]
    foreign.append(Path(__file__).parents[1])
    files = {
        Path(file).resolve()
        for name, module in list(sys.modules.items())
        if name != "__main__" and (file := getattr(module, "__file__", None))
    }
    return sorted(
        file
        for file in files
        if file.suffix == ".py"
        and file.is_file()
        and not any(file.is_relative_to(folder) for folder in foreign)
    )


def refuse_changed_files(prepared: Mapping[str, str], name: str) -> None:
    """Check that the code of a sweep is what it was: file → its digest when it was prepared.

    Raises:
        WorkloadError: one has changed since.
    """
    for file, before in prepared.items():
        if not Path(file).is_file() or digest(Path(file)) != before:
            raise WorkloadError(
                f"the code of {name} changed while it was measured",
                where=file,
                remedy="start the sweep again; it starts a new one with the code of now",
            )
