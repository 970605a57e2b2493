"""Rounds of an inference workload, taking turns with another process of the same kind.

Run: ``inference_rounds.py SPEC FROM TO ENDS``: the worker's spec as JSON, the descriptors that
turns come from and go to (-1: it takes none), and whether to end when the other does. In the end
it prints each round's seconds as JSON; until then it says nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time

from edgebench.workloads.engines.engine import run_inference
from edgebench.workloads.events import SpanPlace
from edgebench.workloads.recorder import Recorder, Started


class TurnTaking(Recorder):
    """A recorder that begins a round when it is this process's turn, and then gives the turn."""

    seconds: list[float]
    turns: tuple[int, int, bool]
    _round: tuple[int, float] | None = None

    def start(self, place: SpanPlace, *ending: Started) -> Started:
        """As it was; a round waits for its turn first."""
        if place.phase == "round":
            self._wait()
        began = time.monotonic()
        started = super().start(place, *ending)
        if place.phase == "round":
            self._round = started.number, began
        return started

    def end(self, *ending: Started) -> None:
        """As it was; after a round it is the other's turn."""
        super().end(*ending)
        if self._round and self._round[0] in [one.number for one in ending]:
            self.seconds.append(time.monotonic() - self._round[1])
            self._round = None
            with contextlib.suppress(OSError):
                os.write(self.turns[1], b".")

    def _wait(self) -> None:
        come_from, _, ends = self.turns
        if come_from >= 0 and not os.read(come_from, 1) and ends:
            os._exit(0)


def main(words: list[str]) -> None:
    """Run the rounds."""
    spec = json.loads(words[0])
    recorder = TurnTaking(spec["descriptors"])
    recorder.seconds = []
    recorder.turns = int(words[1]), int(words[2]), words[3] == "True"
    run_inference(spec["settings"], recorder)
    sys.stdout.write(json.dumps({"round_s": recorder.seconds}) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
