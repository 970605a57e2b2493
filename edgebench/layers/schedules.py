"""Schedules: the order in which a pipeline's layers are loaded and executed.

EdgeCaffe's ``partial``, ``admission`` and ``deepeye`` use several threads. ``stream`` is in
:mod:`edgebench.layers.stream`.
"""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, Protocol

import torch
from torch import nn

from edgebench.errors import WorkloadError
from edgebench.layers.network import (
    Call,
    CallArguments,
    LayeredNetwork,
    LayerPart,
    Sample,
    run_model,
    tensors_in,
    watching,
)

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
        """Record one phase, or one layer in a phase."""


class Schedule(ABC):
    """Runs a pipeline of networks, one round at a time.

    Args:
        networks: the pipeline, in order.
        spans: records every layer's load and execution.
        warm: further executions after the first, where the weights stay in memory.
        workers: threads, where a schedule may use several.
        free_bytes: memory for all networks together, for ``admission``; None: no limit.
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
        #: Brings a round's outputs back into the host's memory, within its time.
        self.fetch: Callable[[Outputs], Outputs] = lambda outputs: outputs
        self._spans = spans
        self._round = 0

    def run(self, inputs: Sequence[Sample], number: int) -> Outputs:
        """Load and execute every layer once; each network's output, in order."""
        self._round = number
        with self._spans.span("round", round=number):
            outputs = self.fetch(self._run(inputs))
            self.after_round()
        return outputs

    @abstractmethod
    def _run(self, inputs: Sequence[Sample]) -> Outputs: ...

    def notes(self) -> dict[str, Any]:
        """Return what a record keeps of all rounds."""
        return {}

    def load(self, network: LayeredNetwork, call: Call) -> None:
        """Load one layer, as a span."""
        with self.layer_span("load", network, call):
            network.load(call)

    def pass_span(self, phase: str, network: LayeredNetwork) -> AbstractContextManager[None]:
        """Record a whole forward pass, with the time between its layers."""
        return self._spans.span(phase, round=self._round, network=network.name)

    def layer_span(
        self, phase: str, network: LayeredNetwork, call: Call
    ) -> AbstractContextManager[None]:
        """Record one layer."""
        return self._spans.span(
            phase, round=self._round, network=network.name, layer=call.order, name=call.part.name
        )

    def forward(
        self,
        network: LayeredNetwork,
        sample: Sample,
        phase: str,
        before: Callable[[Call], None] = lambda call: None,
        after: Callable[[Call], None] = lambda call: None,
    ) -> Any:
        """One forward pass. ``before`` and ``after`` run at each layer, outside its span.

        Raises:
            WorkloadError: it takes another path than the pass that the network was cut by.
        """
        calls = iter(network.calls)
        # Containers with parameters of their own may nest.
        inside: list[tuple[Call, ExitStack]] = []

        def enter(part: LayerPart) -> None:
            call = next(calls, None)
            if call is None or call.part.name != part.name:
                raise _other_path(part.name, call)
            before(call)
            stack = ExitStack()
            if not part.own_only:
                stack.enter_context(self.layer_span(phase, network, call))
            inside.append((call, stack))

        def leave(part: LayerPart, output: object) -> None:
            call, stack = inside.pop()
            stack.close()
            after(call)

        parts = network.cut.parts.values()
        with torch.inference_mode(), watching(parts, enter, leave):
            output = run_model(network.model, sample)
        # A layer that was not called was not loaded either: the output would mean nothing.
        if (call := next(calls, None)) is not None:
            raise _other_path(None, call)
        return output


def _other_path(now: str | None, before: Call | None) -> WorkloadError:
    expected = before.part.name if before else None
    return WorkloadError(
        f"this forward pass calls {now!r} where the one before called {expected!r}",
        remedy="networks whose layers depend on their input can't be scheduled",
    )


class OneByOne(Schedule):
    """Runs one network after the other."""

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        return [self._run_one(net, x) for net, x in zip(self.networks, inputs, strict=True)]

    @abstractmethod
    def _run_one(self, network: LayeredNetwork, sample: Sample) -> Any: ...

    @contextmanager
    def _all_loaded(
        self, network: LayeredNetwork, loaded: Callable[[Call], None] = lambda call: None
    ) -> Iterator[None]:
        """All weights of the network; ``loaded`` runs at the end of each layer's load."""
        calls = network.first_calls()
        for call in calls:
            with self.layer_span("load", network, call):
                network.load(call)
                loaded(call)
        try:
            yield
        finally:
            for call in calls:
                network.unload(call)


class Linear(OneByOne):
    """``linear``: load a layer, execute it, unload it: one layer's weights at a time."""

    def _run_one(self, network: LayeredNetwork, sample: Sample) -> Any:
        return self.forward(network, sample, "first", partial(self.load, network), network.unload)


class Bulk(OneByOne):
    """``bulk``: load all of a network, then execute it, once and then warm."""

    def _run_one(self, network: LayeredNetwork, sample: Sample) -> Any:
        with self._all_loaded(network):
            output = self._pass(network, sample, "first")
            for _ in range(self.warm):
                self._pass(network, sample, "execute")
        return output

    def _pass(self, network: LayeredNetwork, sample: Sample, phase: str) -> Any:
        with self.pass_span(phase, network):
            return self.forward(network, sample, phase)


class Generate(OneByOne):
    """``generate``: a language model reads a prompt, then makes one token after the other.

    It loads all of a network, fills its key-value cache with the prompt, and decodes. Each next
    token is the likeliest. ``prefill`` makes the first, by layer. Each pass of ``decode`` makes one
    more, without hooks, which would take longer than a small layer.

    Args:
        networks: the pipeline, in order.
        spans: records every layer's load, the prefill by layer, and each pass of the decoding.
        new_tokens: how many tokens are made.
    """

    def __init__(self, networks: Sequence[LayeredNetwork], spans: Spans, new_tokens: int) -> None:
        super().__init__(networks, spans)
        self._new_tokens = new_tokens
        self._cache: Any = None
        self._most_cache_bytes = 0

    def notes(self) -> dict[str, Any]:
        """Return the most that key-value caches held."""
        return {"key_value_cache_bytes": self._most_cache_bytes}

    def cache_bytes(self) -> int:
        """Bytes of the tensors in the key-value cache now, each once."""
        sizes = {tensor.data_ptr(): tensor.nbytes for tensor in tensors_in(self._cache)}
        return sum(sizes.values())

    def _run_one(self, network: LayeredNetwork, sample: Sample) -> torch.Tensor:
        with self._all_loaded(network):
            tokens = [self._prefill(network, sample)]
            for _ in range(self._new_tokens - 1):
                tokens.append(self._decode(network, tokens[-1]))
            self._most_cache_bytes = max(self._most_cache_bytes, self.cache_bytes())
            self._cache = None
        return torch.cat(tokens, dim=1)

    def _prefill(self, network: LayeredNetwork, sample: Sample) -> torch.Tensor:
        # A cache of our own, where the network takes one, can be measured while it fills.
        library = sys.modules.get("transformers")
        takes_one = library is not None and isinstance(network.model, library.PreTrainedModel)
        self._cache = library.DynamicCache(config=network.model.config) if takes_one else None  # type: ignore[union-attr]
        given = sample if isinstance(sample, CallArguments) else CallArguments((sample,))
        with self.pass_span("prefill", network):
            output = self.forward(network, self._with_cache(given), "prefill")
            return self._next_token(network, output)

    def _decode(self, network: LayeredNetwork, token: torch.Tensor) -> torch.Tensor:
        sample = self._with_cache(CallArguments(kwargs={"input_ids": token}))
        with self.pass_span("decode", network), torch.inference_mode():
            return self._next_token(network, run_model(network.model, sample))

    def _with_cache(self, given: CallArguments) -> CallArguments:
        cache = {"past_key_values": self._cache, "use_cache": True}
        return CallArguments(given.args, {**given.kwargs, **cache})

    def _next_token(self, network: LayeredNetwork, output: Any) -> torch.Tensor:
        scores = getattr(output, "logits", None)
        self._cache = getattr(output, "past_key_values", None)
        if scores is None or self._cache is None:
            raise WorkloadError(
                "this network generates no text: its output lacks logits or past_key_values",
                where=network.name,
                remedy="leave prompt and new_tokens out, or name a causal language model: "
                "transformers:gpt2",
            )
        likeliest: torch.Tensor = scores[:, -1:].argmax(-1)
        return likeliest


class StoppedError(Exception):
    """Another thread of the schedule failed; its error is the one that counts."""


class ThreadOrder:
    """Steps that threads do and wait for; a failure in one thread ends them all."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._done: set[Hashable] = set()
        self._claimed: set[Hashable] = set()
        self._failure: BaseException | None = None

    def done(self, step: Hashable) -> None:
        """Mark a step as done and wake those who wait for it."""
        with self._condition:
            self._done.add(step)
            self._condition.notify_all()

    def wait(self, step: Hashable) -> None:
        """Wait until a step is done.

        Raises:
            StoppedError: another thread failed meanwhile.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._failure or step in self._done)
            if self._failure:
                raise StoppedError

    def is_done(self, step: Hashable) -> bool:
        """Whether a step is done already."""
        with self._condition:
            return step in self._done

    def claim(self, step: Hashable) -> bool:
        """Take a step to do; False if another thread has it already.

        Raises:
            StoppedError: another thread failed meanwhile.
        """
        with self._condition:
            if self._failure:
                raise StoppedError
            is_free = step not in self._claimed
            self._claimed.add(step)
            return is_free

    def run(self, works: Iterable[Callable[[], None]]) -> None:
        """Run each in a thread of its own, to the end of all; raises the first failure."""

        def guard(work: Callable[[], None]) -> None:
            # A new thread convolves on all cores, whatever was set, until it asks for the setting.
            torch.get_num_threads()
            try:
                work()
            except StoppedError:
                pass
            except BaseException as error:
                with self._condition:
                    self._failure = self._failure or error
                    self._condition.notify_all()

        # Daemons: if one fails to start, those that wait for it don't hold up the exit.
        threads = [threading.Thread(target=guard, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure:
            raise self._failure


class Partial(Schedule):
    """``partial``: one worker executes; all load ahead, over the whole pipeline.

    Loads wait for nothing. An execution waits for its layer's load and its turn.
    """

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        order, outputs = ThreadOrder(), Outputs()

        def execute() -> None:
            for number, sample in enumerate(inputs):
                outputs.append(self._execute(order, number, sample))

        def load_ahead() -> None:
            for number, network in enumerate(self.networks):
                for call in network.calls:
                    self._load_once(order, number, call)

        order.run([execute, *[load_ahead] * (self.workers - 1)])
        return outputs

    def _execute(self, order: ThreadOrder, number: int, sample: Sample) -> Any:
        network = self.networks[number]

        def before(call: Call) -> None:
            # A worker with nothing to execute loads what it waits for.
            self._load_once(order, number, call)
            order.wait((number, call.order))

        return self.forward(network, sample, "first", before, network.unload)

    def _load_once(self, order: ThreadOrder, number: int, call: Call) -> bool:
        if not order.claim((number, call.order)):
            return False
        self.load(self.networks[number], call)
        order.done((number, call.order))
        return True


class Admission(Partial):
    """``admission``: a network starts only when the memory that it needs fits what is free.

    A network needs the bytes of its weights. Free is what the limit leaves beside the runtime, less
    the needs of the networks under way. Each of several workers executes an admitted network, or
    loads ahead for those under way. EdgeCaffe calls this ``masa`` (Cox et al., "Masa: Responsive
    Multi-DNN Inference on the Edge", 2021).
    """

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        order, outputs = ThreadOrder(), dict[int, Any]()
        gate = AdmissionGate([network.weight_bytes for network in self.networks], self.free_bytes)

        def work() -> None:
            while True:
                # Executions go before loads.
                number, ended = gate.start()
                if number is not None:
                    outputs[number] = self._execute(order, number, inputs[number])
                    order.done(("ended", gate.end(number)))
                    continue
                ahead = ((n, call) for n in gate.running for call in self.networks[n].calls)
                if not any(self._load_once(order, n, call) for n, call in ahead):
                    if not gate.waiting:
                        return
                    order.wait(("ended", ended + 1))

        order.run([work] * self.workers)
        return [outputs[number] for number in range(len(self.networks))]


class AdmissionGate:
    """Which networks wait, and which are under way.

    Args:
        needs: bytes that each network needs, in the pipeline's order.
        free_bytes: the most that all of them may take together; None: no limit.
    """

    def __init__(self, needs: Sequence[int], free_bytes: int | None) -> None:
        self._needs = needs
        self._free = free_bytes
        self._lock = threading.Lock()
        self._ended = 0
        self.waiting = list(range(len(needs)))
        self.running: tuple[int, ...] = ()

    def start(self) -> tuple[int | None, int]:
        """Start the first waiting network that fits; returns it, and how many have ended so far.

        A network that is larger than all that is free starts when no other is under way.
        """
        with self._lock:
            used = sum(self._needs[number] for number in self.running)
            free = None if self._free is None or not self.running else self._free - used
            fitting = (n for n in self.waiting if free is None or self._needs[n] <= free)
            number = next(fitting, None)
            if number is not None:
                self.waiting.remove(number)
                self.running += (number,)
            return number, self._ended

    def end(self, number: int) -> int:
        """Free a network's memory once it has run; returns how many have ended."""
        with self._lock:
            self.running = tuple(n for n in self.running if n != number)
            self._ended += 1
            return self._ended


class DeepEye(Schedule):
    """``deepeye``: one lane loads and executes convolutions, another fully connected layers.

    The convolutional part is all before the first fully connected layer. While the first lane works
    on a network's convolutions, the second loads its fully connected part, and those of the
    networks after it; executions go before loads. By then the first lane is on the next network.

    A forward pass can't change threads, so each has its own, and the lanes are turns.
    """

    #: Whether a network's fully connected layers are loaded only when those of the network before
    #: it have run.
    _frugal = False

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        order, second = ThreadOrder(), threading.Lock()
        splits = [_first_connected(network) for network in self.networks]
        outputs: dict[int, Any] = {}

        def load_connected() -> None:
            for number, network in enumerate(self.networks):
                if self._frugal and number > 0:
                    order.wait((number - 1, "executed"))
                for call in network.calls[splits[number] :]:
                    # Earlier networks that are ready to execute in this lane go first.
                    for earlier in range(number):
                        if order.is_done((earlier, "convolved")):
                            order.wait((earlier, "executed"))
                    with second:
                        self.load(network, call)
                order.done((number, "loaded"))

        def execute(number: int) -> None:
            network, split = self.networks[number], splits[number]

            def before(call: Call) -> None:
                if call.order < split:
                    self.load(network, call)
                elif call.order == split:
                    # From here on it is in the second lane: the first takes the next network.
                    order.done((number, "convolved"))
                    order.wait((number, "loaded"))
                    second_lane.enter_context(second)

            with ExitStack() as second_lane:
                if number > 0:
                    order.wait((number - 1, "convolved"))
                sample = inputs[number]
                outputs[number] = self.forward(network, sample, "first", before, network.unload)
                # A network without fully connected layers never got to the second lane.
                order.done((number, "convolved"))
                order.done((number, "executed"))

        numbers = range(len(self.networks))
        order.run([load_connected, *(partial(execute, number) for number in numbers)])
        return [outputs[number] for number in numbers]


class DeepEyeFrugal(DeepEye):
    """``deepeye-frugal``: only one network's fully connected part is in memory at a time."""

    _frugal = True


def _first_connected(network: LayeredNetwork) -> int:
    """Order of the first layer with a fully connected one in it; the number of layers, if none."""
    for call in network.calls:
        module = call.part.module
        inside = [module] if call.part.own_only else module.modules()
        if any(isinstance(part, nn.Linear) for part in inside):
            return call.order
    return len(network.calls)
