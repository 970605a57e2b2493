"""Limits as they are written in Python: ``"300M"``, a number of bytes, ``"75%"``, None."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from edgebench.boards.storage import AS_IS, parse_storage
from edgebench.errors import UsageError, WorkloadError
from edgebench.need import need_of
from edgebench.records import LimitSetting, TrialRecord
from edgebench.units import parse_share, parse_size, parse_swap


@dataclass(frozen=True)
class AskedLimits:
    """Limits of which a share of the demand is not yet resolved.

    ``setting`` has no memory limit where ``share`` (of the workload's own demand) is set.
    """

    setting: LimitSetting
    share: float | None = None

    @property
    def unlimited(self) -> LimitSetting:
        """The same without a memory limit."""
        return replace(self.setting, label="max", memory_bytes=None)

    def resolved(self, unlimited: TrialRecord) -> LimitSetting:
        """Return the limits, a share taken of the demand that the unlimited trial showed.

        Raises:
            WorkloadError: it showed none, since it did not finish.
        """
        if self.share is None:
            return self.setting
        if (need := need_of(unlimited)) is None:
            why = f"{unlimited.outcome}: {unlimited.reason}"
            raise WorkloadError(
                f"demand is unknown, so {self.setting.label} of it can't be resolved: it did not "
                f"finish without a limit ({why})",
                remedy="fix that first, or give a size, as 300M",
            )
        size = max(1, round(self.share * need.total_bytes))
        return replace(self.setting, memory_bytes=size)


def asked_limits(
    memory: str | int | None,
    swap: str | int = "none",
    cores: int | None = None,
    cpu_quota: float | None = None,
    storage: str = AS_IS,
) -> AskedLimits:
    """Return the limits that these words and numbers ask for; an int is bytes.

    Raises:
        UsageError: not a size, swap, number of cores, quota or storage speed.
    """
    label = "max" if memory is None else str(memory)
    share = parse_share(label)
    kind, swap_bytes = parse_swap(f"{swap}B" if type(swap) is int and swap > 0 else swap)
    setting = LimitSetting(
        label,
        None if share is not None else parse_size(label),
        kind,
        swap_bytes,
        None if cores is None else int(_positive("cores", cores, int)),
        None if cpu_quota is None else _positive("cpu_quota", cpu_quota, int, float),
        parse_storage(str(storage)).label,
    )
    return AskedLimits(setting, share)


def _positive(name: str, value: float, *kinds: type) -> float:
    if type(value) not in kinds or not 0 < value < float("inf"):
        raise UsageError(f"{name}={value!r} is not possible", remedy=f"a number above 0: {name}=2")
    return value
