"""Synthetic strings with known reuse: a cyclic scan, and a training step's activations."""

from __future__ import annotations

from collections.abc import Sequence

from edgebench.slowdown.references import References, Script


def cyclic(sizes: Sequence[int], passes: int) -> References:
    """The same tensors in the same order, pass after pass: weights, execution by execution."""
    script = Script()
    scanned = [piece for size in sizes for piece in script.new(size)]
    for number in range(passes):
        script.touch(scanned, number)
    return script.done()


def last_in_first_out(sizes: Sequence[int], steps: int) -> References:
    """Activations of a training step: made forward, used backward in reverse and given back.

    Task ``2 · step`` is the forward pass, ``2 · step + 1`` the backward.
    """
    script = Script()
    for step in range(steps):
        made = [script.new(size) for size in sizes]
        for pieces in made:
            script.touch(pieces, 2 * step, write=True)
        for pieces in reversed(made):
            script.touch(reversed(pieces), 2 * step + 1)
            script.free(pieces)
    return script.done()
