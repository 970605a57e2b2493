"""Lines that give a program the memory that was measured, each with the swap that was there."""

from __future__ import annotations

from edgebench.answers.limits import WorkloadAnswer
from edgebench.units import MIB


def paste_lines(answer: WorkloadAnswer) -> dict[str, str]:
    """Lines for Docker and Podman, systemd and Kubernetes; none where the swap can't be written."""
    give, swap = answer.give_bytes, answer.swap_bytes
    if answer.swap_kind == "none":
        swap = 0
    if give is None or swap is None:
        return {}
    most = _short(give)
    lines = {
        "docker": f"docker run --memory={most.lower()} --memory-swap={_short(give + swap).lower()}",
        "systemd": f"systemd-run -p MemoryMax={most} -p MemorySwapMax={_short(swap)}",
    }
    if not swap:
        # A pod has no swap of its own.
        resources = f'requests: {{memory: "{most}i"}}, limits: {{memory: "{most}i"}}'
        lines["kubernetes"] = f"resources: {{{resources}}}"
    return lines


def _short(size_bytes: int) -> str:
    """``412M``, ``8192K``; rounded up."""
    if size_bytes % MIB == 0 or size_bytes >= 64 * MIB:
        return f"{-(-size_bytes // MIB)}M" if size_bytes else "0"
    return f"{-(-size_bytes // 1024)}K"
