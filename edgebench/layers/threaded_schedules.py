"""Schedules of several threads: EdgeCaffe's ``partial``, ``admission`` and ``deepeye``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import nn

from edgebench.layers.network import Call, LayeredNetwork
from edgebench.layers.samples import Sample
from edgebench.layers.schedules import Outputs, Schedule


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
        """Load a layer unless another worker has or does; whether it was loaded here."""
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

    def _run(self, inputs: Sequence[Sample]) -> Outputs:
        lanes = _Lanes(self.networks)
        outputs: dict[int, Any] = {}

        def network_thread(number: int) -> None:
            network, split = self.networks[number], lanes.splits[number]

            def before(call: Call) -> None:
                if call.order < split:
                    self.load(network, call)
                elif call.order == split:
                    # From here on it is in the second lane: the first takes the next network.
                    lanes.order.done((number, "convolved"))
                    lanes.order.wait((number, "loaded"))
                    second_lane.enter_context(lanes.second)

            with ExitStack() as second_lane:
                if number > 0:
                    lanes.order.wait((number - 1, "convolved"))
                sample = inputs[number]
                outputs[number] = self.forward(network, sample, "first", before, network.unload)
                # A network without fully connected layers never got to the second lane.
                lanes.order.done((number, "convolved"))
                lanes.order.done((number, "executed"))

        numbers = range(len(self.networks))
        passes = [partial(network_thread, number) for number in numbers]
        lanes.order.run([partial(self._load_connected, lanes), *passes])
        return [outputs[number] for number in numbers]

    def _load_connected(self, lanes: _Lanes) -> None:
        for number in range(len(self.networks)):
            self._load_part(lanes, number)

    def _load_part(self, lanes: _Lanes, number: int) -> None:
        """Load the fully connected part of one network, layer by layer."""
        network = self.networks[number]
        for call in network.calls[lanes.splits[number] :]:
            lanes.let_pass(number)
            with lanes.second:
                self.load(network, call)
        lanes.order.done((number, "loaded"))


class DeepEyeFrugal(DeepEye):
    """``deepeye-frugal``: only one network's fully connected part is in memory at a time.

    A network's fully connected layers are loaded when those of the network before it have run.
    """

    def _load_connected(self, lanes: _Lanes) -> None:
        for number in range(len(self.networks)):
            if number > 0:
                lanes.order.wait((number - 1, "executed"))
            self._load_part(lanes, number)


class _Lanes:
    """Where the networks of one round are, and who is in the second lane."""

    def __init__(self, networks: Sequence[LayeredNetwork]) -> None:
        self.order = ThreadOrder()
        self.second = threading.Lock()
        self.splits = [_first_connected(network) for network in networks]

    def let_pass(self, number: int) -> None:
        """Wait for the networks before this one that are ready to execute in the second lane."""
        for earlier in range(number):
            if self.order.is_done((earlier, "convolved")):
                self.order.wait((earlier, "executed"))


def _first_connected(network: LayeredNetwork) -> int:
    """Order of the first layer with a fully connected one in it; the number of layers, if none."""
    for call in network.calls:
        module = call.part.module
        inside = [module] if call.part.own_only else module.modules()
        if any(isinstance(part, nn.Linear) for part in inside):
            return call.order
    return len(network.calls)
