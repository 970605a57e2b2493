"""The micro-benchmarks: convolutions, and timed passes over areas of memory and of files.

Convolutions are those of Agarwal et al., "Performance Analysis of Machine Learning Model Training
on Low Power Devices": as many channels out as in, inputs of one size, kernel and batch varied.

A scan touches memory page by page without a numeric library. Everything is done a chunk at a time
by ``memoryview``, which copies and strides in C: reading in order runs at the speed of ``memcpy``,
as reading weights does. What swap and disks did meanwhile is read from ``/proc/vmstat``, which
counts for the whole machine: nothing else may swap or read files while a scan runs.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import resource
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgebench.layers.disk import evict
from edgebench.workloads.events import READY
from edgebench.workloads.recorder import Recorder, collected_rounds

if TYPE_CHECKING:
    from torch import nn

PAGE = mmap.PAGESIZE
CHUNK = 1 << 20
_BOTH = mmap.PROT_READ | mmap.PROT_WRITE
_VMSTAT, _DISKSTATS = Path("/proc/vmstat"), Path("/proc/diskstats")
#: Pages of a pass in random order: enough to time, not enough to last.
_RANDOM_PAGES = 2048
#: The harness's answer with a limit.
_ANSWER_BYTES = 32


class ScannedArea:
    """Memory that is scanned: anonymous, or the tail of a file that is mapped.

    The tail, for the kernel reads ahead beyond what is scanned, and would take room for it.

    Settings: ``of`` and ``planned_share``, which name it in what it notes; ``size_bytes``, a
    multiple of the page size; ``file``, what to map, or None for anonymous memory; ``disk``, whose
    requests are counted, as ``254:0``, or None; ``seed``.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._about = {key: settings[key] for key in ("of", "planned_share")}
        self._file = Path(settings["file"]) if settings["file"] else None
        self._size = int(settings["size_bytes"])
        self._seed = int(settings["seed"])
        self._disk = settings["disk"]
        #: Pass → the number of the last one.
        self._passes: dict[str, int] = {}
        # Chunks differ by where in the pool they start, so that no two pages are the same.
        self._pool = os.urandom(CHUNK + PAGE)
        self._scratch = bytearray(CHUNK)
        self._open()

    def _open(self) -> None:
        fd = -1 if self._file is None else os.open(self._file, os.O_RDONLY)
        try:
            flags = mmap.MAP_PRIVATE | (mmap.MAP_ANONYMOUS if self._file is None else 0)
            # Private and writable, as the loaders map; a file's area is never written.
            offset = 0 if self._file is None else os.fstat(fd).st_size - self._size
            self._pages = mmap.mmap(fd, self._size, flags=flags, prot=_BOTH, offset=offset)
        finally:
            if fd >= 0:
                os.close(fd)
        self._view = memoryview(self._pages)

    def close(self) -> None:
        """Free it; a file's pages leave the page cache too, or they would take room of the next."""
        self._view.release()
        self._pages.close()
        if self._file:
            evict(self._file)

    def make_pass(self, name: str) -> dict[str, Any]:
        """Make one of :data:`PASSES`; returns the keys of a ``Scan``."""
        cold, touch = PASSES[name]
        if cold and self._file:
            self.close()
            self._open()
        number = self._passes[name] = self._passes.get(name, -1) + 1
        before, faults, requests = _vmstat(), _major_faults(), _requests(self._disk)
        start_ns = time.perf_counter_ns()
        touched = touch(self)
        seconds = (time.perf_counter_ns() - start_ns) / 1e9
        faults, after, requested = _major_faults() - faults, _vmstat(), _requests(self._disk)
        moved = {key: after[key] - before[key] for key in after}
        return {
            **self._about,
            "what": name,
            "number": number,
            "size_bytes": self._size,
            "resident_bytes": self.resident_bytes(),
            "touched_bytes": touched,
            "seconds": seconds,
            "in_bytes": moved["file_in"] if self._file else moved["swap_in"],
            "out_bytes": moved["swap_out"],
            "major_faults": faults,
            "requests": None if requests is None or requested is None else requested - requests,
        }

    def resident_bytes(self) -> int:
        """Count the bytes that are in RAM; of a file, in the page cache."""
        pages = self._size // PAGE
        vector = ctypes.create_string_buffer(pages)
        libc = ctypes.CDLL(None, use_errno=True)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(self._size), vector):
            number = ctypes.get_errno()
            raise OSError(number, f"mincore: {os.strerror(number)}")
        # Bit 0 alone tells; the others are reserved.
        return sum(byte & 1 for byte in vector.raw) * PAGE

    # What a pass does. Each returns the bytes that it touched.

    def write_pages(self) -> int:
        """Write one byte to each page."""
        for start in range(0, self._size, CHUNK):
            part = self._view[start : start + CHUNK : PAGE]
            part[:] = self._pool[: len(part)]
        return self._size

    def fill(self) -> int:
        """Write every byte, with what can't be compressed."""
        for number, start in enumerate(range(0, self._size, CHUNK)):
            part = self._view[start : start + CHUNK]
            offset = number * 61 % PAGE
            part[:] = self._pool[offset : offset + len(part)]
        return self._size

    def read(self) -> int:
        """Copy every byte out, in order."""
        for start in range(0, self._size, CHUNK):
            part = self._view[start : start + CHUNK]
            self._scratch[: len(part)] = part
        return self._size

    def read_randomly(self) -> int:
        """Read a byte of each of some pages in random order, other pages in each pass."""
        if self._file:
            # Or the kernel reads ahead around each page, and a fault can't be told from a transfer.
            self._pages.madvise(mmap.MADV_RANDOM)
        view, count = self._view, self._size // PAGE
        pages, seed = min(_RANDOM_PAGES, count), self._seed + self._passes["random"]
        for page in random.Random(seed).sample(range(count), pages):
            view[page * PAGE]
        return pages * PAGE

    def read_file(self) -> int:
        """Read the tail of the file with ``read(2)``, in order, as the loader ``copy`` does."""
        assert self._file
        done = 0
        fd = os.open(self._file, os.O_RDONLY)
        try:
            os.lseek(fd, -self._size, os.SEEK_END)
            while got := os.readv(fd, [self._scratch]):
                done += got
        finally:
            os.close(fd)
        return done


#: Name → whether the file is evicted before it, and what it does.
PASSES: dict[str, tuple[bool, Callable[[ScannedArea], int]]] = {
    "touch": (False, ScannedArea.write_pages),
    "fill": (False, ScannedArea.fill),
    "read": (False, ScannedArea.read),
    "write": (False, ScannedArea.write_pages),
    "random": (True, ScannedArea.read_randomly),
    "map": (True, ScannedArea.read),
    "copy": (True, ScannedArea.read_file),
}


def _vmstat() -> dict[str, int]:
    lines = (line.split() for line in _VMSTAT.read_text(errors="replace").splitlines())
    counters = {name: int(value) for name, value in lines}
    swap_in, swap_out = counters.get("pswpin", 0) * PAGE, counters.get("pswpout", 0) * PAGE
    # What comes from swap passes through the block layer too; its unit is KiB.
    return {
        "swap_in": swap_in,
        "swap_out": swap_out,
        "file_in": counters["pgpgin"] * 1024 - swap_in,
    }


def _requests(disk: str | None) -> int | None:
    """Count the disk's reads since the start, merged ones singly; None: unknown."""
    lines = (
        (line.split() for line in _DISKSTATS.read_text(errors="replace").splitlines())
        if disk
        else ()
    )
    return next((int(w[3]) + int(w[4]) for w in lines if f"{w[0]}:{w[1]}" == disk), None)


def _major_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def run_scan(settings: dict[str, Any], recorder: Recorder) -> None:
    """Scan one area after another, and note what each pass took.

    Settings: ``gc``; ``areas``, each with the settings of a :class:`ScannedArea` and ``passes``,
    names of :data:`PASSES`.
    """
    passes = []
    with collected_rounds(settings) as before_pass:
        for about in settings["areas"]:
            with closing(ScannedArea(about)) as scanned:
                for name in about["passes"]:
                    before_pass()
                    passes.append(scanned.make_pass(name))
    recorder.note(passes=passes)


def run_hot_base(settings: dict[str, Any], recorder: Recorder) -> None:
    """Import torch, have the limit set to what it uses, and scan; torch works between the passes.

    Settings: ``gc``; ``area``, as of the scan workload, in which ``size_bytes`` None is
    ``planned_share`` of the limit. The harness sets the limit (its setting ``room_bytes``).
    """
    with recorder.span("import"):
        # Lazy: a scan imports no engine.
        from edgebench.workloads.engines.torch import import_torch

        import_torch(recorder)
    # Ask the harness for the limit, and wait until it is set.
    assert recorder.control is not None
    os.write(recorder.control, READY)
    limit = int(os.read(recorder.control, _ANSWER_BYTES))
    work, about = _small_network(), dict(settings["area"])
    if about["size_bytes"] is None:
        about["size_bytes"] = int(about["planned_share"] * limit) // PAGE * PAGE
    scanned, passes = ScannedArea(about), []
    with collected_rounds(settings) as before_pass:
        for name in about["passes"]:
            before_pass()
            figures = scanned.make_pass(name)
            work()
            # What stays of the area now leaves the runtime the rest.
            passes.append({**figures, "resident_bytes": scanned.resident_bytes()})
    recorder.note(passes=passes)


def _small_network() -> Callable[[], object]:
    """Return a function that does a little of what networks do."""
    import torch

    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 15 * 15, 10),
    ).eval()
    image = torch.zeros(1, 3, 32, 32)

    def work() -> None:
        with torch.inference_mode():
            network(image)

    return work


def run_convolution(settings: dict[str, Any], recorder: Recorder) -> None:
    """Make the passes, each a round of its own with the phases ``forward`` and ``backward``.

    Settings: ``kernel``, ``stack`` (how many convolutions in a row), ``batch``, ``backward``
    (whether gradients of input and weights are computed too), ``channels``, ``image``, ``warm``
    (first passes that no one counts), ``passes``, ``threads``, ``seed``, ``gc``.
    """
    with recorder.span("import"):
        from edgebench.workloads.engines.torch import import_torch

        import_torch(recorder, (), settings["threads"])
        import torch
    torch.manual_seed(settings["seed"])
    with recorder.span("init"):
        layers = convolutions(settings)
        size = settings["image"]
        images = torch.randn(settings["batch"], settings["channels"], size, size)
        images.requires_grad_(settings["backward"])
    with collected_rounds(settings) as before_pass:
        for number in range(settings["warm"] + settings["passes"]):
            before_pass()
            if not settings["backward"]:
                with torch.inference_mode(), recorder.span("forward", round=number):
                    layers(images)
                continue
            with recorder.span("forward", round=number):
                output = layers(images)
            # What the layer above would hand down: its making is no part of this time.
            gradient = torch.ones_like(output)
            with recorder.span("backward", round=number):
                output.backward(gradient)
            images.grad = None
            layers.zero_grad(set_to_none=True)
            del output, gradient


def convolutions(settings: dict[str, Any]) -> nn.Sequential:
    """Make the convolutions in a row; the output keeps the image's size, but for even kernels.

    An even kernel has no middle: each takes one row and column away.
    """
    from torch import nn

    channels, kernel = settings["channels"], settings["kernel"]
    layers = (
        nn.Conv2d(channels, channels, kernel, padding=(kernel - 1) // 2)
        for _ in range(settings["stack"])
    )
    return nn.Sequential(*layers)
