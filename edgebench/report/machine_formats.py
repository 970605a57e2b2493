"""A sweep's points in the formats of programs that follow numbers over time.

Each point has the same measures under one name: ``demand_bytes``, ``peak_bytes``, ``start_s``,
``steady_s`` (seconds, medians over trials), ``slowdown`` and ``finished`` (a share of its trials).
What wasn't measured is left out.

Sources: Bencher Metric Format and Google Benchmark's JSON, as their documentation describes them;
OpenMetrics 1.0; JUnit XML as pytest writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from xml.etree import ElementTree

from edgebench.results.point_facts import PointFacts
from edgebench.results.rounds import START, STEADY
from edgebench.results.sweep_reader import Sweep

#: OpenMetrics escapes these in the value of a label.
_ESCAPED = {"\\": r"\\", '"': r"\"", "\n": r"\n"}
_HELP = {
    "demand_bytes": "What it needs where nothing limits it",
    "peak_bytes": "Median of the most memory that it held",
    "start_s": "Median seconds of a first round",
    "steady_s": "Median seconds of later rounds, or of the whole trial",
    "slowdown": "Time over the time without a limit",
    "finished": "Share of its trials that finished",
}


def _measures(point: PointFacts) -> dict[str, float]:
    """Measure → its value, of those that the point has."""
    steady = point.times_s.get(STEADY) or point.times_s.get("total")
    start = point.times_s.get(START)
    found = {
        "demand_bytes": point.demand_bytes,
        "peak_bytes": point.peak_bytes.median if point.peak_bytes else None,
        "start_s": start.median if start else None,
        "steady_s": steady.median if steady else None,
        "slowdown": point.slowdown,
        "finished": point.outcomes.get("ok", 0) / sum(point.outcomes.values()),
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _name(point: PointFacts) -> str:
    """Stable from sweep to sweep: the workload, its limit, and its swap where it has any."""
    kind = point.limits.swap_kind
    swap = "" if kind == "none" else f", {kind} swap"
    return f"{point.workload} at {point.limits.label}{swap}"


def bencher_json(sweep: Sweep, points: Sequence[PointFacts]) -> str:
    """Bencher Metric Format: benchmark → measure → value."""
    made = {
        _name(point): {k.replace("_", "-"): {"value": v} for k, v in _measures(point).items()}
        for point in points
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def google_benchmark_json(sweep: Sweep, points: Sequence[PointFacts]) -> str:
    """Google Benchmark's JSON: the steady time of each point, its other measures as counters."""
    environment = sweep.environment
    benchmarks = []
    for point in points:
        counters = _measures(point)
        # A point without times has no benchmark's first number.
        if (seconds := counters.pop("steady_s", None)) is not None:
            benchmarks.append(
                {
                    "name": _name(point),
                    "run_name": _name(point),
                    "run_type": "iteration",
                    "repetitions": 1,
                    "repetition_index": 0,
                    "threads": 1,
                    "iterations": point.outcomes.get("ok", 0),
                    "real_time": seconds * 1e3,
                    # Its readers want one; the processor's share is not known apart.
                    "cpu_time": seconds * 1e3,
                    "time_unit": "ms",
                    **counters,
                }
            )
    context = {
        "date": environment.get("captured_utc"),
        "host_name": sweep.device,
        "executable": "edgebench",
        "num_cpus": environment.get("cpu_cores"),
        "library_version": environment.get("edgebench"),
    }
    made = {"context": context, "benchmarks": benchmarks}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def openmetrics_text(sweep: Sweep, points: Sequence[PointFacts]) -> str:
    """OpenMetrics: a gauge for each measure, labelled with device, workload and limit."""
    return "\n".join([*_gauges(sweep, points), "# EOF"]) + "\n"


def _gauges(sweep: Sweep, points: Sequence[PointFacts]) -> Iterator[str]:
    for name, meaning in _HELP.items():
        own = [(point, m[name]) for point in points if name in (m := _measures(point))]
        # OpenMetrics spells units out.
        full = re.sub("_s$", "_seconds", f"edgebench_{name}")
        if own:
            yield f"# TYPE {full} gauge"
            yield f"# HELP {full} {meaning}"
        for point, value in own:
            labels = {"device": sweep.device, "workload": point.workload}
            told = {**labels, "limit": point.limits.label, "swap": point.limits.swap_kind}
            inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in told.items())
            yield f"{full}{{{inner}}} {value:.17g}"


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(sign, sign) for sign in text)


def junit_xml(sweep: Sweep, points: Sequence[PointFacts]) -> str:
    """JUnit XML: a test case for each point, a failure where no trial finished, and properties."""
    suite = ElementTree.Element("testsuite", name=f"edgebench.{sweep.name}", tests=str(len(points)))
    failures = 0
    for point in points:
        measures = _measures(point)
        seconds = f"{measures.get('steady_s', 0.0):.6f}"
        case = ElementTree.SubElement(
            suite, "testcase", classname="edgebench", name=_plain(_name(point)), time=seconds
        )
        properties = ElementTree.SubElement(case, "properties")
        for key, value in measures.items():
            ElementTree.SubElement(properties, "property", name=key, value=f"{value:.17g}")
        if not measures["finished"]:
            failures += 1
            outcomes = ", ".join(f"{count} {name}" for name, count in point.outcomes.items())
            ElementTree.SubElement(case, "failure", message=outcomes)
    suite.set("failures", str(failures))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _plain(text: str) -> str:
    """Without the control characters that XML can't hold."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "?", text)


#: The format's name → what writes it.
MACHINE_FORMATS: dict[str, Callable[[Sweep, Sequence[PointFacts]], str]] = {
    "bencher": bencher_json,
    "google-benchmark": google_benchmark_json,
    "openmetrics": openmetrics_text,
    "junit": junit_xml,
}
