"""Sentences of ``edgebench predict``: what happens at limits, how that is known, and its doubts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from edgebench.boards.storage import AS_IS, storage_words
from edgebench.kills import OBSERVER_EFFECT
from edgebench.results.rounds import START, STEADY
from edgebench.results.spread import SLIGHT
from edgebench.results.workload_key import brief_names
from edgebench.units import format_duration, format_size, times_as_long
from edgebench.words.outcomes import outcome_words

if TYPE_CHECKING:
    from edgebench.boards.storage import StorageSpeed
    from edgebench.slowdown.answer import Answer
    from edgebench.slowdown.prediction import Prediction

#: Settings that name a workload beside its network: of inference, and of training.
_NAMING = ("schedule", "loader", "optimizer")
#: Settings by which workloads of one network are chosen, and their flags.
_CHOOSING = {
    "schedule": "--schedule",
    "loader": "--loader",
    "batch": "--batch",
    "image": "--image",
    "swap_kind": "--swap-kind",
    "storage": "--storage",
}
#: With more workloads of one network than these a sentence tells of all of them.
_MOST = 4
#: From this probability to finish on, a prediction says nothing of kills.
_SURE = 0.9


def prediction_sentence(one: Prediction, name: str, storage: StorageSpeed | None) -> str:
    """Fits, slow or killed, at the given limits; with its interval and its source."""
    finished = sorted((at for at in one.at if at.viable), key=lambda at: at.limit_bytes)
    words = [_finishing(one, finished, name)] if finished else []
    killed = [at for at in one.at if not at.viable]
    seen = [at for at in killed if at.kind == "measured"]
    if seen:
        words.append(", ".join(dict.fromkeys(map(_lost, seen))))
    if len(seen) < len(killed):
        where = ", ".join(format_size(at.limit_bytes) for at in killed if at not in seen)
        words.append(f"probably killed with {where}")
    text = "; ".join(words)
    return f"{text if finished else f'{name} {text}'} ({source_words(one, storage)})."


def prediction_sentences(
    found: Sequence[Prediction], own: Sequence[str], storage: StorageSpeed | None
) -> list[str]:
    """A sentence for each workload; of many workloads of one network one for all.

    Args:
        found: the workloads.
        own: what tells each from the others of its title, as :func:`distinguishing_words` has it.
        storage: the storage that they are predicted for; None: that with which they were measured.
    """
    if len(found) > _MOST and len({one.subject.network for one in found}) == 1:
        return [_summary(found), *choosing_sentences(found)]
    names = prediction_names(found, own)
    every = [
        prediction_sentence(one, name, storage) for one, name in zip(found, names, strict=True)
    ]
    return [*every, *choosing_sentences(found)]


def _summary(found: Sequence[Prediction]) -> str:
    """How many workloads finish at the tightest limit, and how much slower they are."""
    answers = [min(one.at, key=lambda at: at.limit_bytes) for one in found]
    network, size = found[0].subject.network, format_size(answers[0].limit_bytes)
    if len({format_size(at.limit_bytes) for at in answers}) > 1:
        size = "the tightest limit"
    viable = [at for at in answers if at.viable]
    text = f"{len(viable)} of {len(found)} workloads of {network} finish with {size}"
    if any(map(_is_at_risk, viable)):
        text += " in most trials"
    times = [total.slowdown for at in viable if (total := at.phase("total"))]
    if not times:
        return f"{text}."
    if max(times) <= SLIGHT:
        return f"{text}, and are at most 10 % slower."
    low, high = (f"{factor:.3g}" for factor in (min(times), max(times)))
    ends = f"{low} to {high}" if min(times) > SLIGHT and low != high else f"up to {high}"
    return f"{text}, and take {ends} times as long as without a limit."


def _lost(at: Answer) -> str:
    trials = f"{at.ended - at.finished} of {at.ended} trials"
    return f"{outcome_words(at.outcome).brief} with {format_size(at.limit_bytes)} in {trials}"


def source_words(one: Prediction, storage: StorageSpeed | None) -> str:
    """Where the answer is from, as ``from bytes counted in a walk, at storage read=50MB/s``."""
    if one.model is None:
        return "measured" if all(at.kind == "measured" for at in one.at) else "from its own trials"
    from edgebench.slowdown.counted import COUNTED

    if one.model == COUNTED:
        walked = any(curve.walked for curve in one.subject.curves)
        at = f", at storage {storage.label}" if storage else ""
        return f"from bytes counted in {'a walk' if walked else 'its rounds'}{at}"
    if storage:
        return f"{one.model} at storage {storage.label}, where nothing was run"
    return f"model {one.model}, from {one.subject.origin}"


def _finishing(one: Prediction, finished: Sequence[Answer], name: str) -> str:
    """The time at the tightest limit, and from where up it is not slowed."""
    tightest = finished[0]
    size, total = format_size(tightest.limit_bytes), tightest.phase("total")
    if total is None:
        return f"{name} finishes with {size}; how long it takes is unknown"
    measured = tightest.kind == "measured"
    each = " a steady round" if total_name(one) == STEADY else ""
    takes = f"{name} with {size} {'took' if measured else 'takes'}"
    takes += f" {format_duration(total.seconds)}{each}"
    if total.low_s is not None and total.high_s is not None:
        ends = f"{format_duration(total.low_s)} to {format_duration(total.high_s)}"
        trials = f"{tightest.finished} trials" if measured else "9 of 10 trials"
        takes += f" ({trials}: {ends})"
    takes += f", {_as_long(total.slowdown)} as unlimited"
    if start := tightest.phase(START):
        seconds = format_duration(start.seconds)
        takes += f"; its start {'took' if measured else 'takes'} {seconds}, "
        takes += _as_long(start.slowdown)
    if measured and tightest.finished < tightest.ended:
        takes += f"; {tightest.finished} of {tightest.ended} trials finished"
    elif _is_at_risk(tightest):
        assert tightest.probability is not None
        takes += f"; probably killed in {1 - tightest.probability:.0%} of trials"
    if tightest.extrapolated and one.subject.was_run:
        takes += "; extrapolated, because no trial ran at so tight a limit"
    if one.unslowed_bytes and len(one.at) > 1:
        takes += f"; not slowed from {format_size(one.unslowed_bytes)} up"
    return takes


def _is_at_risk(at: Answer) -> bool:
    """Whether more than one of ten trials is killed there, as far as that is known."""
    if at.kind == "measured":
        return at.finished < at.ended
    return at.probability is not None and at.probability < _SURE


def _as_long(factor: float) -> str:
    """``as long``, where three digits show no difference."""
    return "as long" if f"{factor:.3g}" == "1" else times_as_long(factor)


def total_name(one: Prediction) -> str:
    """What ``total`` is of the workload, as it is shown."""
    return next(curve.answer for curve in one.subject.curves if curve.phase == "total")


def prediction_names(found: Sequence[Prediction], own: Sequence[str]) -> Iterator[str]:
    """A short name each, which begins with the network."""
    brief = brief_names(map(prediction_title, found))
    for one, words in zip(found, own, strict=True):
        name, network = brief[prediction_title(one)], one.subject.network
        if name.split(" · ")[0] == network:
            yield name + (words and f" ({words})")
        else:
            yield f"{network} ({' · '.join(filter(None, (name, words)))})"


def distinguishing_words(found: Sequence[Prediction]) -> list[str]:
    """What tells workloads of one title apart: their sweeps, else other settings; else nothing."""
    words = []
    for one in found:
        own = one.subject.settings
        alike = [
            other.subject.settings
            for other in found
            if prediction_title(other) == prediction_title(one)
        ]
        sweeps = [other.get("sweep") for other in alike]
        by_sweep = len(alike) > 1 and len({*sweeps}) == len(sweeps)
        differ = [key for key in own if any(other.get(key) != own[key] for other in alike)]
        shown = ["sweep"] if by_sweep else differ
        words.append(" · ".join(f"{key} {own.get(key)}" for key in shown))
    return words


def prediction_title(one: Prediction) -> str:
    """The network and the settings that name the workload."""
    settings = one.subject.settings
    words = [one.subject.network, *(str(settings[key]) for key in _NAMING if settings.get(key))]
    if settings.get("batch") not in (None, 1):
        words.append(f"batch {settings['batch']:g}")
    words.append(f"swap {settings.get('swap_kind')}")
    return " · ".join([*words, *_storage(str(settings.get("storage", AS_IS)))])


def _storage(storage: str) -> list[str]:
    return [] if storage == AS_IS else [storage_words(storage)]


def choosing_sentences(found: Sequence[Prediction]) -> Iterator[str]:
    """Where one network has several workloads: in what they differ, and the flags to choose."""
    if len(found) == 1 or len({one.subject.network for one in found}) > 1:
        return
    settings = [{"storage": AS_IS, **one.subject.settings} for one in found]
    values = {
        flag: list(dict.fromkeys(_typed(own[key]) for own in settings if key in own))
        for key, flag in _CHOOSING.items()
    }
    differ = {flag: own for flag, own in values.items() if len(own) > 1}
    words = f"{len(found)} workloads of {found[0].subject.network} are known"
    flags = "; ".join(f"{flag} {' or '.join(own)}" for flag, own in differ.items())
    yield f"{words}. Choose with {flags}." if flags else f"{words}."


def _typed(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def about_sentences(one: Prediction) -> Iterator[str]:
    """How the workload is known, its demand, and where it begins to be killed and slowed."""
    unlimited = one.subject.has_unlimited
    measured = "measured without a limit alone" if unlimited else "not measured"
    ran = one.subject.was_run or one.subject.was_killed
    measured = "measured before" if ran else measured
    if any(at.kind == "counted" for at in one.at):
        measured = "measured on another storage"
    words = f"{measured}; other limits by model {one.model}" if one.model else measured
    yield words + (f"; demand {format_size(one.demand_bytes)}" if one.demand_bytes else "")
    if one.least_viable_bytes is not None:
        yield _edge(one)
    if one.unslowed_bytes:
        yield f"slowdown below 1.1 from {format_size(one.unslowed_bytes)} up"


def _edge(one: Prediction) -> str:
    """Where trials are killed; a limit that is viable is one where all finish."""
    if not one.least_viable_bytes:
        lowest = [float(c.limits[0]) for c in one.subject.curves if len(c.limits)]
        tried = f"; trials finished down to {format_size(min(lowest))}" if lowest else ""
        return f"swap can hold all of it, so it is unknown where it is killed{tried}"
    words = f"half of its trials finish at {format_size(one.least_viable_bytes)}"
    return words + (f", 9 of 10 at {format_size(one.sure_bytes)}" if one.sure_bytes else "")


def prediction_notes(one: Prediction) -> Iterator[str]:
    """What the marks in the table mean, and why its answers are in doubt."""
    from edgebench.slowdown.answer import AnswerDoubt

    if any(at.extrapolated for at in one.at):
        known = "no trial under a limit is known"
        if one.fitted:
            known = f"trials are known from {one.fitted[0]:.0%} to {one.fitted[1]:.0%} of demand"
        yield f"* extrapolated: {known}"
    if any(not at.viable for at in one.at) and one.least_viable_bytes:
        least = format_size(one.least_viable_bytes)
        yield f"killed: below {least} it is more likely killed than not"
    modelled = any(at.kind != "measured" for at in one.at)
    if modelled and one.subject.settings.get("swap_kind") == "zram":
        yield "zram: what it takes of RAM comes on top of these limits, but for measured ones"
    if {at.kind for at in one.at} > {"measured"}:
        yield "limits with a number of trials were measured"
    if any(AnswerDoubt.CLIFF in at.doubts for at in one.at):
        yield (
            "the measured limits on both sides differ by more than 2 times: the interval holds both"
        )
    if any(AnswerDoubt.KILLS_VARY in at.doubts for at in one.at):
        yield f"kills differ from trial to trial: see {OBSERVER_EFFECT}"
