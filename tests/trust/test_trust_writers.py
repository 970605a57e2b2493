"""Only one module writes: nothing else opens for writing, makes, renames, owns or removes."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("source")
PACKAGE = Path(__file__).parents[2] / "edgebench"
_THE_ONE = "safe_files.py"
_MODULES = {
    "os": {
        *("mkdir", "makedirs", "rename", "renames", "replace", "remove", "unlink", "rmdir"),
        *(
            "removedirs",
            "chown",
            "lchown",
            "fchown",
            "chmod",
            "lchmod",
            "fchmod",
            "link",
            "symlink",
        ),
        *("mknod", "mkfifo", "truncate", "utime", "setxattr", "removexattr", "chdir", "umask"),
    },
    "shutil": {
        *("rmtree", "move", "copy", "copy2", "copyfile", "copytree", "copymode", "copystat"),
        *("chown", "make_archive", "unpack_archive"),
    },
    "tempfile": {
        *("mkdtemp", "mkstemp", "mktemp", "TemporaryFile", "NamedTemporaryFile"),
        *("TemporaryDirectory", "SpooledTemporaryFile"),
    },
}
#: Methods that change what their path names, or write to the path they are given.
_METHODS = {
    *("write_text", "write_bytes", "mkdir", "unlink", "rmdir", "chmod", "lchmod"),
    *("symlink_to", "hardlink_to", "link_to", "extractall", "extract", "tofile", "to_excel"),
    *("to_hdf", "to_feather", "to_pickle", "savez", "savez_compressed", "savetxt", "save_file"),
    *("urlretrieve", "savefig", "to_parquet", "dump_stats"),
}
_WRITING_FLAG = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND|TMPFILE)")
_MODE = re.compile(r"[rbt]*[wxa+][wxabt+]*")
_KERNEL = "a file of the kernel's, where no user can put anything"
_MEMORY = "into memory"
_WORKER = "in the worker, with the workload's own rights, into the folder made for it"
#: Which call where, and why it may.
ALLOWED = {
    ("pytest_plugin/child.py", "open"): "the null device, for what pytest would print",
    ("cgroups/leftovers.py", "write_text"): _KERNEL,
    ("cgroups/v2.py", "mkdir"): _KERNEL,
    ("cgroups/parent.py", "mkdir"): _KERNEL,
    ("cgroups/leftovers.py", "rmdir"): _KERNEL,
    ("cgroups/files.py", "write_text"): _KERNEL,
    ("cgroups/interface.py", "rmdir"): _KERNEL,
    ("cgroups/interface.py", "write_text"): _KERNEL,
    ("cgroups/process_files.py", "write_text"): _KERNEL,
    ("cgroups/join.py", "open"): _KERNEL,
    ("cgroups/join.py", "chdir"): "the workload's folder, as its user",
    ("caller_process.py", "chdir"): "the program's folder, as its user",
    ("cgroups/swap.py", "write_text"): _KERNEL,
    ("layers/stream.py", "write_text"): _KERNEL,
    ("cgroups/v2.py", "open"): _KERNEL,
    ("cgroups/v2.py", "write_text"): _KERNEL,
    ("run/trial/launch.py", "open"): _KERNEL,
    ("measures/strategies/process.py", "open"): _KERNEL,
    ("cli/__init__.py", "open"): "the null device",
    ("report/figures/__init__.py", "chdir"): "to / and back, while a library is imported",
    ("report/figures/style.py", "savefig"): _MEMORY,
    ("cli/show.py", "to_parquet"): _MEMORY,
    ("cli/predict.py", "to_json"): "plain data of an answer",
    ("cgroups/sampler_process.py", "ZipFile"): "into an open file",
    ("workloads/training/data_sources.py", "TemporaryDirectory"): "a new name and folder, 0700",
    ("measures/strategies/engines.py", "write_text"): _WORKER,
}


def writing(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil"):
            yield node.lineno, f"from {node.module} import"
        if isinstance(node, ast.Call):
            module, _, name = ast.unparse(node.func).rpartition(".")
            if _writes(module, name, node):
                yield node.lineno, name


def _writes(module: str, name: str, call: ast.Call) -> bool:
    if name in _MODULES.get(module or "tempfile", ()):
        return True
    if module and name in _METHODS:
        return True
    words = [ast.unparse(word) for word in (*call.args, *(k.value for k in call.keywords))]
    if name == "open" and module == "os":
        # Flags that are not written out may be any.
        return any(map(_WRITING_FLAG.search, words)) or "os.O_" not in words[1]
    if name in ("open", "fdopen", "ZipFile", "GzipFile", "memmap") and module != "os":
        return any(map(_MODE.fullmatch, (word.strip("'\"") for word in words if "'" in word)))
    if name == "touch" and module:
        # A path's takes no place in memory.
        return not call.args and module != "self._area"
    if name in ("rename", "replace", "save") and module:
        # pathlib's; text's takes two, a frame's takes names.
        return len(call.args) == 1 and not call.keywords and "'" not in words[0]
    return name in ("to_csv", "to_json") and bool(call.args)


FILES = sorted(PACKAGE.rglob("*.py"))


@functools.cache
def writing_in(path: Path) -> list[tuple[int, str]]:
    return list(writing(ast.parse(path.read_text())))


@pytest.mark.promise("Only one module writes files.")
def test_only_one_module_writes() -> None:
    others = {str(path.relative_to(PACKAGE)): path for path in FILES}
    del others[_THE_ONE]
    calls = [(name, *call) for name, path in others.items() for call in writing_in(path)]
    assert [call for call in calls if (call[0], call[2]) not in ALLOWED] == []


def test_what_is_allowed_is_there() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), name) for path in FILES for _, name in writing_in(path)
    }
    assert set(ALLOWED) <= found
