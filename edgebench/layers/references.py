"""What a person names: networks, schedules and loaders, and functions of their own. No torch.

A network is named by a reference, which is parsed as text; no user's code runs until an
:class:`OwnFunction` is asked for it.

==============================  =================================================================
``resnet18``                    a network that edgebench knows by name
``package.module:function``     a function or class of the user's that returns a ``nn.Module``
``folder/file.py:function``     the same in a file
``transformers:PATH``           a ``config.json`` of transformers, or the folder that holds one
``transformers:gpt2``           one that comes with edgebench (:data:`CONFIGURATIONS`)
``model.pt2``                   a program saved by ``torch.export``
``model.onnx`` ``.tflite`` …    a file that another engine runs
``model.pt`` ``.jit`` …         a program of TorchScript
==============================  =================================================================

A question mark begins the arguments of a call: ``package.module:function?depth=3&wide=true``.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import shlex
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, quote

from edgebench.errors import UsageError, WorkloadError
from edgebench.layers.disk import digest
from edgebench.layers.names import CONFIGURATIONS, NETWORKS
from edgebench.safe_files import open_to_read, real_path
from edgebench.text import did_you_mean

#: Endings that both TorchScript and checkpoints have.
UNSURE = (".pt", ".pth")
_WEIGHTS = (".safetensors", ".bin", ".ckpt", *UNSURE)
#: Files with a network that no engine here loads.
_FOREIGN = (
    *(".engine", ".ggml", ".gguf", ".h5", ".hdf5", ".hef", ".joblib", ".mlmodel", ".mlpackage"),
    *(".mnn", ".ort", ".param", ".pb", ".pdmodel", ".pkl", ".plan", ".pte", ".rknn", ".task"),
    ".trt",
)
_EXPORTED_MARKS = {"archive_format", "serialized_exported_program.json", "models/model.json"}


def refuse_model_file(text: str, relative_to: Path) -> None:
    """Check that a text is no file with a network or weights that no engine here loads.

    Raises:
        UsageError: it is one; says what it is and what to type.
    """
    path = Path(text)
    file = (relative_to / path.expanduser()) if "\0" not in text else path
    suffix = path.suffix.lower()
    if suffix in _FOREIGN or (file / "saved_model.pb").is_file():
        raise UsageError(
            f"no engine of edgebench loads {path.name}",
            where=text,
            remedy="convert it to an .onnx, .tflite or .keras file, or measure the program that "
            f"loads it: edgebench minimum --file {shlex.quote(text)} -- python3 infer.py",
        )
    if (file / "config.json").is_file():
        raise UsageError(
            f"{path.name} is a folder of transformers", where=text, remedy=f"transformers:{text}"
        )
    if suffix in UNSURE and not file.exists():
        file = real_path(file)
        raise UsageError(f"no file {file}", where=text, remedy=f"ls {file.parent}")
    if suffix in UNSURE and _EXPORTED_MARKS & _zipped_names(file):
        raise UsageError(
            f"{path.name} is a program of torch.export under another ending",
            where=text,
            remedy=f"mv {shlex.quote(text)} {shlex.quote(str(path.with_suffix('.pt2')))}",
        )
    if suffix in _WEIGHTS:
        raise UsageError(
            f"{path.name} is a checkpoint: it holds weights and no network",
            where=text,
            remedy="name the code that makes the network, package.module:function; to load this "
            "file into it, type edgebench init mymodel.py:Net, and write below [workload]: "
            f'checkpoint = {{"mymodel.py:Net" = "{path.name}"}}; or save the network as '
            "TorchScript: torch.jit.trace(net, x).save('net.pt')",
        )


def is_model_file(text: str) -> bool:
    """Whether a text has the ending of a file with a network or weights."""
    return Path(text).suffix.lower() in (*_FOREIGN, *_WEIGHTS)


def _zipped_names(file: Path) -> set[str]:
    """Return the names in a zip file without their first folder; none if it is no zip file."""
    try:
        with open_to_read(file) as opened, zipfile.ZipFile(opened) as archive:
            return {name.partition("/")[2] or name for name in archive.namelist()}
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return set()


KNOWN, CODE, TRANSFORMERS, EXPORTED = "known", "code", "transformers", "pt2"
#: A file's ending → the kind of reference that it makes.
FILE_KINDS = {
    ".pt2": EXPORTED,
    ".onnx": "onnx",
    ".tflite": "tflite",
    ".keras": "keras",
    **dict.fromkeys((".jit", ".torchscript", ".ptl", *UNSURE), "torchscript"),
}
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_HOW = (
    "name a known network (resnet18), package.module:function, file.py:function, "
    "transformers:FOLDER, or a .pt2, .onnx, .tflite, .keras or TorchScript file"
)
_WORDS = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class ModelReference:
    """A network as a person named it.

    Attributes:
        kind: one of ``known``, ``code``, ``transformers``, or of :data:`FILE_KINDS`.
        name: what results call the network; a path is no part of it.
        target: what to build: a known name, ``module:function``, a function of the file at
            ``path``, or the name of another file.
        arguments: of the call, as pairs of names and values.
        path: the file or folder, absolute; None for what is found by name alone.
        folder: absolute; the user's modules are searched here first.
    """

    kind: str
    name: str
    target: str
    arguments: tuple[tuple[str, Any], ...] = ()
    path: str | None = None
    folder: str | None = None

    @property
    def slug(self) -> str:
        """The name as part of a file's name."""
        return re.sub(r"[^A-Za-z0-9_.=-]+", "-", self.name).strip("-.")

    def to_json(self) -> dict[str, Any]:
        """Plain data, for settings and requests."""
        return {**asdict(self), "arguments": dict(self.arguments)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ModelReference:
        """Read what :meth:`to_json` wrote."""
        return cls(**{**data, "arguments": tuple(data["arguments"].items())})


def parse_reference(text: str, relative_to: Path) -> ModelReference:
    """Parse a reference; relative paths start at ``relative_to``.

    The user's modules are searched in the current folder.

    Raises:
        UsageError: it names nothing, or a file that is not there.
    """
    if text in NETWORKS:
        return ModelReference(KNOWN, text, text)
    named, _, query = text.partition("?")
    arguments = _arguments(query, text)
    scheme, colon, rest = named.partition(":")
    suffix = Path(named).suffix.lower()
    # A .pt file may be a checkpoint, too.
    is_program = suffix not in UNSURE or "\0" in named
    if suffix in FILE_KINDS and not is_program:
        # A program's zip file has constants and code beside its data.
        zipped = _zipped_names(relative_to / Path(named).expanduser())
        is_program = "constants.pkl" in zipped and any(name.startswith("code/") for name in zipped)
    if suffix in FILE_KINDS and is_program:
        if query:
            raise UsageError(f"{named} is a file and takes no arguments", where=text, remedy=named)
        path = _existing_file(named, relative_to)
        return ModelReference(FILE_KINDS[suffix], _label(path.name), path.name, path=str(path))
    if colon and scheme == TRANSFORMERS:
        if not rest:
            raise UsageError(f"{text!r} names no network", where=text, remedy=_HOW)
        asked = f"?{query}" if query else ""
        if rest in CONFIGURATIONS and not (relative_to / rest).exists():
            return ModelReference(TRANSFORMERS, _label(text), rest, arguments)
        path = _existing(rest, relative_to)
        label = path.parent.name if path.name == "config.json" else path.name
        name = _label(f"{TRANSFORMERS}:{label}{asked}")
        return ModelReference(TRANSFORMERS, name, label, arguments, path=str(path))
    if colon:
        return _code(text, named, arguments, relative_to)
    refuse_model_file(text, relative_to)
    if Path(text).suffix == ".py":
        raise UsageError(
            f"{text!r} names no function in that file", where=text, remedy=f"name one: {text}:Net"
        )
    guess = did_you_mean(text, NETWORKS)
    raise UsageError(f"no network {text!r}", remedy=f"did you mean {guess!r}?" if guess else _HOW)


def names_network(text: str) -> bool:
    """Whether a text has the form of a reference; the network need not exist."""
    named = text.partition("?")[0]
    scheme, colon, _ = named.partition(":")
    is_file = Path(named).suffix.lower() in FILE_KINDS
    return text in NETWORKS or is_file or bool(colon and scheme)


def portable_text(reference: ModelReference) -> str:
    """Write a reference as a text that can be parsed in any folder: its paths are absolute."""
    query = "&".join(f"{key}={quote(str(value))}" for key, value in reference.arguments)
    query = f"?{query}" if query else ""
    if reference.kind == TRANSFORMERS:
        return f"{TRANSFORMERS}:{reference.path or reference.target}{query}"
    if reference.kind == CODE and reference.path:
        return f"{reference.path}:{reference.target}{query}"
    return reference.path or f"{reference.target}{query}"


def _code(
    text: str, named: str, arguments: tuple[tuple[str, Any], ...], relative_to: Path
) -> ModelReference:
    where, _, function = named.rpartition(":")
    if not _DOTTED.fullmatch(function):
        raise UsageError(
            f"{text!r} names no function", where=text, remedy=f"name one: {where}:make_network"
        )
    folder = str(Path.cwd())
    if where.endswith(".py") or "/" in where:
        path = _existing_file(where, relative_to)
        name = _label(f"{path.name}{text[len(where) :]}")
        return ModelReference(CODE, name, function, arguments, str(path), str(path.parent))
    if not _DOTTED.fullmatch(where):
        raise UsageError(f"{where!r} is no module's name", where=text, remedy=_HOW)
    return ModelReference(CODE, _label(text), f"{where}:{function}", arguments, folder=folder)


def _arguments(query: str, text: str) -> tuple[tuple[str, Any], ...]:
    try:
        pairs = parse_qsl(query.replace("+", "%2B"), strict_parsing=True) if query else []
    except ValueError:
        pairs = []
    if (query and not pairs) or any(not key.isidentifier() for key, _ in pairs):
        raise UsageError(
            f"{query!r} are no arguments",
            where=text,
            remedy="write them as name=value&name=value: package.module:function?depth=3",
        )
    return tuple((key, _value(value)) for key, value in pairs)


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    # Other values of Python's are left as text: settings are JSON.
    return value if isinstance(value, (int, float)) else text


def _existing(path: str, relative_to: Path) -> Path:
    file = real_path(relative_to / Path(path).expanduser())
    if "\0" in path or not file.exists():
        raise UsageError(f"no file {file}", where=path, remedy=f"ls {file.parent}")
    return file


def _existing_file(path: str, relative_to: Path) -> Path:
    file = _existing(path, relative_to)
    if not file.is_file():
        raise UsageError(f"{file} is no file", where=path, remedy=f"ls -l {file}")
    return file


def _label(text: str) -> str:
    # A pipeline's networks are joined by a plus sign, so no name has one.
    return text.replace("+", "-")


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
