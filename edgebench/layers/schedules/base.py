"""What every schedule is, and the steps they are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol

import torch

from edgebench.errors import WorkloadError
from edgebench.layers.cut import Call, LayerPart, watching
from edgebench.layers.network import LayeredNetwork
from edgebench.layers.samples import Sample, run_model

#: What each network returned: a tensor, or tensors in any nesting.
Outputs = list[Any]


class Spans(Protocol):
    """Where a schedule records what begins and ends (a worker's recorder)."""

    def span(
        self,
        phase: str,
        *,
        round: int | None = None,  # noqa: A002 - the event's key
        network: str | None = None,
        layer: int | None = None,
        name: str | None = None,
    ) -> AbstractContextManager[None]:
        """One phase, or one layer in a phase."""


class Schedule(ABC):
    """Runs a pipeline of networks, one round at a time.

    Args:
        networks: the pipeline, in order.
        spans: told of every layer's load and execution.
        warm: further executions after the first, where the weights stay in memory.
        workers: threads that load and execute, where a schedule has a free choice.
        free_bytes: what the networks may take together, where a schedule counts it; None: no limit.
    """

    def __init__(
        self,
        networks: Sequence[LayeredNetwork],
        spans: Spans,
        warm: int = 0,
        workers: int = 2,
        free_bytes: int | None = None,
    ) -> None:
        self.networks = list(networks)
        self.warm = warm
        self.workers = workers
        self.free_bytes = free_bytes
        #: Called at the end of each round, within its time.
        self.after_round: Callable[[], None] = lambda: None
        #: Brings the outputs of a round back into the host's memory, within its time.
        self.fetched: Callable[[Outputs], Outputs] = lambda outputs: outputs
        self._spans = spans
        self._round = 0

    def run(self, inputs: Sequence[Sample], number: int) -> Outputs:
        """Load and execute every layer once; each network's output, in order."""
        self._round = number
        with self._spans.span("round", round=number):
            outputs = self.fetched(self._run(inputs))
            self.after_round()
        return outputs

    @abstractmethod
    def _run(self, inputs: Sequence[Sample]) -> Outputs: ...

    def load(self, network: LayeredNetwork, call: Call) -> None:
        """Load one layer, as a span."""
        with self._layer("load", network, call):
            network.load(call)

    def _whole(self, phase: str, network: LayeredNetwork) -> AbstractContextManager[None]:
        """One forward pass and nothing else: with what happens between its layers."""
        return self._spans.span(phase, round=self._round, network=network.name)

    def _layer(
        self, phase: str, network: LayeredNetwork, call: Call
    ) -> AbstractContextManager[None]:
        place = {"layer": call.order, "name": call.part.name}
        return self._spans.span(phase, round=self._round, network=network.name, **place)  # type: ignore[arg-type]

    def forward(
        self,
        network: LayeredNetwork,
        sample: Sample,
        phase: str,
        before: Callable[[Call], None] = lambda call: None,
        after: Callable[[Call], None] = lambda call: None,
    ) -> Any:
        """One forward pass. ``before`` and ``after`` run at each layer, outside its span."""
        steps = _Steps(network, lambda call: self._layer(phase, network, call), before, after)
        parts = network.cut.parts.values()
        with torch.inference_mode(), watching(parts, steps.enter, steps.leave):
            output = run_model(network.model, sample)
        steps.end()
        return output


class _Steps:
    """Follows a forward pass from call to call; containers of own parameters may nest."""

    def __init__(
        self,
        network: LayeredNetwork,
        span: Callable[[Call], AbstractContextManager[None]],
        before: Callable[[Call], None],
        after: Callable[[Call], None],
    ) -> None:
        self._calls = iter(network.calls)
        self._span, self._before, self._after = span, before, after
        self._inside: list[tuple[Call, ExitStack]] = []

    def enter(self, part: LayerPart) -> None:
        call = next(self._calls, None)
        if call is None or call.part.name != part.name:
            raise _other_path(part.name, call)
        self._before(call)
        stack = ExitStack()
        if not part.own_only:
            stack.enter_context(self._span(call))
        self._inside.append((call, stack))

    def end(self) -> None:
        """What was never called was never loaded either: the output would mean nothing."""
        if (call := next(self._calls, None)) is not None:
            raise _other_path(None, call)

    def leave(self, part: LayerPart, output: object) -> None:
        call, stack = self._inside.pop()
        stack.close()
        self._after(call)


def _other_path(now: str | None, before: Call | None) -> WorkloadError:
    expected = before.part.name if before else None
    return WorkloadError(
        f"this forward pass calls {now!r} where the one before called {expected!r}",
        remedy="networks whose layers depend on their input can't be scheduled",
    )


@contextmanager
def unloading(network: LayeredNetwork, calls: Sequence[Call]) -> Iterator[None]:
    """Give these calls' weights back at the end."""
    try:
        yield
    finally:
        for call in calls:
            network.unload(call)
