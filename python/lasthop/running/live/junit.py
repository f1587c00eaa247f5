"""JUnit XML of live runs, for the test reports of CI services.

A test suite has a test case for each run, and one for each expectation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from lasthop.running.live.expect import Finding, shown
from lasthop.running.live.outcome import values

__all__ = ["junit"]

# Characters that XML 1.0 does not allow.
REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(
    name: str, runs: Sequence[Mapping[str, Any]], findings: Sequence[Finding], *, notes: str = ""
) -> str:
    """Returns the XML document.

    Args:
        name: Name of the suite.
        runs: Summary of each run, with `replication` and, if the run failed, `failure`.
        findings: Result of each expectation.
        notes: Text of the suite's `system-err`.
    """
    failures = sum("failure" in run for run in runs) + sum(not one.met for one in findings)
    duration = sum(float(run["time"]) for run in runs)
    suite = ElementTree.Element(
        "testsuite",
        name=_clean(name),
        tests=str(len(runs) + len(findings)),
        failures=str(failures),
        errors="0",
        skipped="0",
        time=f"{duration:.3f}",
    )
    for run in runs:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=_clean(name),
            name=f"run {run['replication']}",
            time=f"{float(run['time']):.3f}",
        )
        if "failure" in run:
            failure = ElementTree.SubElement(case, "failure", message=_clean(run["failure"]))
            failure.text = _clean(run["failure"])
        lines = (f"{key}: {shown(key, value)}" for key, value in values(run).items())
        ElementTree.SubElement(case, "system-out").text = _clean("\n".join(lines))
    for finding in findings:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=_clean(name),
            name=_clean(finding.expectation.text),
            time="0",
        )
        if not finding.met:
            ElementTree.SubElement(case, "failure", message=_clean(str(finding)))
    if notes:
        ElementTree.SubElement(suite, "system-err").text = _clean(notes)
    ElementTree.indent(suite)
    text = ElementTree.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _clean(text: str) -> str:
    return REFUSED.sub("\ufffd", text)
