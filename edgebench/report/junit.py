"""A sweep's points as JUnit XML, as pytest writes it, for CI servers.

Each point has the same properties under one name: ``demand_bytes``, ``peak_bytes``, ``start_s``,
``steady_s`` (seconds, medians over trials), ``slowdown`` and ``finished`` (a share of its trials).
What wasn't measured is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from edgebench.results.point_facts import PointFacts
from edgebench.results.rounds import START, STEADY
from edgebench.results.sweep_reader import Sweep


def junit_xml(sweep: Sweep, points: Sequence[PointFacts]) -> str:
    """Make a test case of each point, with properties; a failure where no trial finished.

    A kill at a limit is a result where its workload finished at another one, and so is a trial
    that a search stopped.
    """
    suite = ElementTree.Element("testsuite", name=f"edgebench.{sweep.name}", tests=str(len(points)))
    failures = 0
    finishing = {point.key for point in points if point.finished and not point.is_unlimited}
    for point in points:
        steady = point.times_s.get(STEADY) or point.times_s.get("total")
        start = point.times_s.get(START)
        finished = point.outcomes.get("ok", 0)
        measures = {
            "demand_bytes": point.demand_bytes,
            "peak_bytes": point.peak_bytes.median if point.peak_bytes else None,
            "start_s": start.median if start else None,
            "steady_s": steady.median if steady else None,
            "slowdown": point.slowdown,
            "finished": finished / sum(point.outcomes.values()),
        }
        swap = point.limits.swap_kind
        name = f"{point.workload} at {point.limits.label}"
        name += "" if swap == "none" else f", {swap} swap"
        # XML can't hold control characters.
        name = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "?", name)
        seconds = f"{steady.median if steady else 0.0:.6f}"
        case = ElementTree.SubElement(
            suite, "testcase", classname="edgebench", name=name, time=seconds
        )
        properties = ElementTree.SubElement(case, "properties")
        for key, value in measures.items():
            if value is not None:
                ElementTree.SubElement(properties, "property", name=key, value=f"{value:.17g}")
        planned = {"oom-killed", *(("timeout",) if not point.planned else ())}
        expected = point.key in finishing and planned.issuperset(point.outcomes)
        expected = expected and not point.is_unlimited
        if not finished and not expected:
            failures += 1
            outcomes = ", ".join(f"{count} {name}" for name, count in point.outcomes.items())
            ElementTree.SubElement(case, "failure", message=outcomes)
    suite.set("failures", str(failures))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
