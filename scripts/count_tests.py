#!/usr/bin/env python3
"""Counts what a ctest run did: scripts/count_tests.py JUNIT_XML [GTEST_JSON_DIR]  ->  "passed failed skipped"

ctest knows programs; GoogleTest programs also leave a JSON report each (GTEST_OUTPUT=json:DIR/), by which their cases are
counted. A program without a report, or one that failed while its report shows no failure (a crash, a timeout), counts as
one test.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree


def cases_of(report):
    """(passed, failed, skipped) of one GoogleTest report."""
    passed = failed = skipped = 0
    for suite in json.loads(report.read_text(encoding="utf-8"))["testsuites"]:
        for case in suite["testsuite"]:
            if case.get("failures"):
                failed += 1
            elif case.get("result") == "SKIPPED":
                skipped += 1
            elif case.get("status") == "RUN":
                passed += 1
    return passed, failed, skipped


def count(junit, reports):
    total = [0, 0, 0]
    for program in xml.etree.ElementTree.parse(junit).getroot().iter("testcase"):
        is_failed = program.find("failure") is not None or program.get("status") == "fail"
        is_skipped = not is_failed and program.get("status") in ("notrun", "disabled")
        report = reports / f"{program.get('name')}.json" if reports else None
        if report and report.exists() and not is_skipped:
            try:
                cases = cases_of(report)
            except (ValueError, KeyError):
                cases = (0, 0, 0)  # cut short by a crash
            if is_failed and cases[1] == 0:
                cases = (cases[0], 1, cases[2])
        elif is_skipped:
            cases = (0, 0, 1)
        else:
            cases = (0, 1, 0) if is_failed else (1, 0, 0)
        total = [sum(pair) for pair in zip(total, cases)]
    return total


if __name__ == "__main__":
    print(*count(sys.argv[1], pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None))
