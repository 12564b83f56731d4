"""The report of a test as JUnit XML, which services for continuous integration read."""

import re
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from sim.experiments.testing.report import TestReport, ViolationKind

_NOT_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, even escaped (section 2.2 of its recommendation)."""


def junit(reports: Sequence[TestReport]) -> str:
    """Return the reports as JUnit XML: a suite for each scenario, a case for each property and one for its runs."""
    suites = [_suite(report) for report in reports]
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>", *suites, "</testsuites>", ""])


def _suite(report: TestReport) -> str:
    failures = len({one.violation.property for one in report.violations})
    errors = int(bool(report.failed) or not report.complete)
    skipped = len(report.never_judged)
    head = (
        f"<testsuite name={_quoted(report.scenario)} tests={_quoted(len(report.properties) + 1)}"
        f" failures={_quoted(failures)} errors={_quoted(errors)} skipped={_quoted(skipped)}>"
    )
    cases = [_case(report, name) for name in report.properties]
    return "\n".join([f"  {head}", *cases, _runs(report), "  </testsuite>"])


def _case(report: TestReport, name: str) -> str:
    parts = [_failure(one) for one in report.of(name)]
    if not parts and name in report.never_judged:
        parts = ['      <skipped message="it could be judged in no run"/>']
    return _element(report, name, parts)


def _runs(report: TestReport) -> str:
    parts = []
    if report.failed:
        first = report.failed[0]
        message = f"{len(report.failed)} of {len(report.results)} runs failed, first {first.case.options}"
        parts = [f"      <error message={_quoted(message)}>{_text(first.problem or '')}</error>"]
    elif not report.complete:
        message = f"{len(report.results)} of {report.planned} runs were carried out"
        parts = [f"      <error message={_quoted(message)}/>"]
    return _element(report, "all runs end without a failure", parts)


def _element(report: TestReport, name: str, parts: list[str]) -> str:
    head = f"    <testcase classname={_quoted(report.scenario)} name={_quoted(name)} file={_quoted(report.file)}"
    return "\n".join([f"{head}>", *parts, "    </testcase>"]) if parts else f"{head}/>"


def _failure(failure: ViolationKind) -> str:
    one = failure.violation
    who = f" ({one.agent})" if one.agent else ""
    message = f"at {one.time:g} s{who}: {one.text}"
    body = "\n".join([f"{failure.runs} runs; {failure.command}", *one.story])
    return f"      <failure type={_quoted(one.kind)} message={_quoted(message)}>{_text(body)}</failure>"


def _text(value: object) -> str:
    return escape(_NOT_XML.sub("\ufffd", str(value)))


def _quoted(value: object) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", str(value)))
