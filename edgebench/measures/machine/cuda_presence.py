"""Whether CUDA can be used here, found out without importing torch.

The worker asks torch itself; this is what ``check`` and ``run`` can say before any trial.
"""

from __future__ import annotations

import ctypes
import re
from importlib.util import find_spec
from pathlib import Path

_DRIVER = "libcuda.so.1"
#: A line of torch's ``version.py``; None where it is built without.
_CUDA = re.compile(r"^cuda\s*(?::[^=]*)?=\s*(.+)$", re.MULTILINE)
_VERSION = re.compile(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
#: cuda.h
_NO_DEVICE = 100
PROCESSOR_ALONE = (
    "install a torch with CUDA (pytorch.org/get-started; on a Jetson NVIDIA's own), or leave "
    '"cuda" out of accelerator'
)
NO_DRIVER = 'install NVIDIA\'s driver (nvidia-smi shows it), or leave "cuda" out of accelerator'


def why_no_cuda(version_file: Path | None = None, driver: str = _DRIVER) -> tuple[str, str] | None:
    """Why CUDA can't be used, and what helps; None if it can.

    Args:
        version_file: of the torch to look at; None: the one that would be imported.
        driver: the name of the driver's library.
    """
    if reason := _why_not_in_torch(version_file or _version_file()):
        return reason, PROCESSOR_ALONE
    reason = _why_not_by_driver(driver)
    return (reason, NO_DRIVER) if reason else None


def _version_file() -> Path | None:
    found = find_spec("torch")
    return Path(found.origin).with_name("version.py") if found and found.origin else None


def _why_not_in_torch(file: Path | None) -> str | None:
    """A torch that is not there, or that can't be read, says so when it is imported."""
    try:
        text = file.read_text(errors="replace") if file else ""
    except OSError:
        return None
    built, version = _CUDA.search(text), _VERSION.search(text)
    if not built or built[1].strip() != "None":
        return None
    name = f"torch {version[1]}" if version else "it"
    return f"this torch has no CUDA: {name} is built without it"


def _why_not_by_driver(name: str) -> str | None:
    """By the driver's own functions; they make no context."""
    try:
        library = ctypes.CDLL(name)
        code = int(library.cuInit(0))
        count = ctypes.c_int(0)
        code = code or int(library.cuDeviceGetCount(ctypes.byref(count)))
    except (OSError, AttributeError):
        return f"no CUDA driver is installed ({name} is not found)"
    if code == _NO_DEVICE or (not code and not count.value):
        return "the CUDA driver finds no GPU"
    return f"the CUDA driver doesn't start (error {code})" if code else None
