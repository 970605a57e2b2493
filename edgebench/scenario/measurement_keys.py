"""The tables of how trials are measured: ``[sampler]``, ``[memory]`` and ``[around]``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, WrapValidator, model_validator

from edgebench.measures.registry import with_own_trial
from edgebench.measures.strategy import StrategyOptions
from edgebench.scenario.keys import Axis, Seconds, Size, TomlTable, one_of

if TYPE_CHECKING:
    from typing_extensions import Self

#: Settings of a point: what runs in the background of its trials, outside their cgroups.
BACKGROUND, INTERVALS = "background_bytes", "system_intervals_s"

#: A dump takes half a second: with smaller steps a trial would do nothing else.
_LEAST_DUMP = 1 << 20


class BackgroundKeys(TomlTable):
    """A background load that takes and frees memory; how often the system's memory is read."""

    background: Axis[
        Annotated[Size, WrapValidator(lambda value, size: 0 if value == "none" else size(value))]
    ] = Field(default=(0,), examples=['["none", "512M"]'])
    system_intervals_s: Axis[Annotated[Seconds, Field(ge=0.01, le=3600)]] | None = Field(
        default=None, alias="system_memory", examples=['["5s", "100ms"]']
    )

    def settings(self) -> Iterator[dict[str, Any]]:
        """What each value of its axis adds to a point's settings; nothing where none is asked."""
        reads = {INTERVALS: list(self.system_intervals_s)} if self.system_intervals_s else {}
        for size in self.background:
            quiet = size == 0 and len(self.background) == 1
            yield reads if quiet else {**reads, BACKGROUND: size}


class SamplerKeys(TomlTable):
    """How often the cgroup's accounting is read from outside, and whether sensors are.

    With an interval it is always read so often; without one every millisecond while it changes.
    """

    interval_s: Annotated[Seconds, Field(ge=0.0001, le=60)] | None = Field(
        default=None, alias="interval", examples=['"1ms"']
    )
    stat_interval_s: Annotated[Seconds, Field(ge=0.0001, le=60)] | None = Field(
        default=None, alias="stat_interval", examples=['"10ms"']
    )
    sensors: bool = Field(default=True, examples=["false"])

    @model_validator(mode="after")
    def _stat_is_slower(self) -> Self:
        least_s = 0.001 if self.interval_s is None else self.interval_s
        if self.stat_interval_s is not None and self.stat_interval_s < least_s:
            raise ValueError("stat_interval is shorter than interval; make it at least as long")
        return self


class MemoryKeys(TomlTable):
    """Which memory strategies run beside those that always do; each has its own trials."""

    strategies: Axis[Annotated[str, one_of("strategy", lambda: tuple(with_own_trial()))]] = Field(
        default=(), examples=['["process", "torch"]']
    )
    timeout_s: Seconds | None = Field(default=None, alias="timeout", examples=['"10m"'])
    dump_every_bytes: Annotated[Size, Field(ge=_LEAST_DUMP)] = Field(
        default=StrategyOptions.dump_every_bytes, alias="dump_every", examples=['"8M"']
    )
