"""Evaluated gates as JUnit XML and Markdown."""

from xml.etree import ElementTree

import pytest

from fedaudit.reports.gates.gate_evaluation import without_report
from fedaudit.reports.gates.gate_results import GateResults, junit, markdown
from fedaudit.spec.gates import Gate


def gate(outcome, *, attribute=None, reason="12 is at most 40", value=12.0):
    stated = {"figure": "leakage_max", "attribute": attribute, "op": "le", "bound": 40.0}
    return {**stated, "value": value, "outcome": outcome, "reason": reason}


NO_EVIDENCE = gate("insufficient_evidence", value=None, reason="nobody measured it")
FAILED = gate("fail", reason="50 is not at most 40", value=50.0)


def results(*gates, more=()):
    evaluations = [("release", gates), *([(None, more)] if more else [])]
    return GateResults("01890000-0000-7000-8000-000000000000", evaluations)


# What the schema of Jenkins' xUnit plugin (junit-10.xsd) lets an element have.
_CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testsuite", "properties", "testcase", "system-out", "system-err"},
    "properties": {"property"},
    "testcase": {"skipped", "error", "failure", "system-out", "system-err"},
}
_NEEDED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "property": {"name", "value"},
    "testcase": {"name"},
}
_ALLOWED = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "id"},
    "property": {"name", "value"},
    "testcase": {"name", "classname", "time", "group"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
}


def parsed(text):
    """The root, once every element has only what the schema has."""
    root = ElementTree.fromstring(text.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        assert {child.tag for child in element} <= _CHILDREN.get(element.tag, set())
        assert _NEEDED.get(element.tag, set()) <= set(element.keys())
        assert set(element.keys()) <= _ALLOWED.get(element.tag, set())
    return root


def test_a_case_for_each_gate_and_a_suite_for_each_policy():
    root = parsed(junit(results(gate("pass"), FAILED, more=[NO_EVIDENCE])))
    assert dict(root.items()) == {"name": "fedaudit", "tests": "3", "failures": "1", "errors": "1"}
    assert [suite.get("name") for suite in root] == ["release", "gates"]
    passed, failed, unknown = root.iter("testcase")
    assert passed.get("name") == "leakage_max <= 40"
    assert passed.get("classname") == "fedaudit.release"
    assert [child.tag for child in passed] == ["system-out"]
    assert failed.find("failure").get("message") == "50 is not at most 40"
    # Neither passed nor skipped: both would count as well.
    found = dict(unknown.find("error").items())
    assert found == {"type": "insufficient_evidence", "message": "nobody measured it"}
    assert not list(root.iter("skipped"))


@pytest.mark.parametrize("name", ["<b>&\"'", "\ufffe\uffff", "a]]>b", "\U0001f600", "x" * 200])
def test_any_name_is_well_formed(name):
    root = parsed(junit(results(gate("fail", attribute=name, reason=f"{name!r} is <not> there"))))
    [case] = root.iter("testcase")
    assert name[:1] in case.get("name") or "\ufffd" in case.get("name")
    for control in ("\x00", "\x1b", "\ufffe"):
        assert control not in junit(results(gate("fail", reason=f"a{control}b")))


def test_a_comment_says_what_came_of_it():
    text = markdown(results(gate("pass"), FAILED, more=[NO_EVIDENCE]))
    lines = text.splitlines()
    assert lines[0] == "## The gates failed"
    assert "1 passed, 1 failed, 1 not enough evidence." in lines[2]
    assert "### release" in lines
    assert r"| passed | leakage_max \<= 40 | 12 | 12 is at most 40 |" in lines
    assert r"| **failed** | leakage_max \<= 40 | 50 | 50 is not at most 40 |" in lines
    assert r"| **not enough evidence** | leakage_max \<= 40 | – | nobody measured it |" in lines
    assert lines[-1] == "A gate without enough evidence has neither passed nor failed."
    assert markdown(results(gate("pass"))).startswith("## The gates passed\n")
    assert "not enough evidence" in markdown(results(NO_EVIDENCE))


def test_a_comment_shows_names_as_they_are_and_mentions_no_one():
    text = markdown(results(gate("fail", attribute="<img>|@all\n# x", reason="[a](http://b)")))
    assert r"\<img\>\|@<!-- -->all \# x" in text
    assert r"\[a\](http://b)" in text
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 3


def test_json_states_the_whole_and_each_policy():
    stated = results(gate("pass"), more=[FAILED]).as_dict()
    assert (stated["outcome"], stated["reason"], len(stated["gates"])) == ("fail", None, 2)
    evaluations = [(one["policy"], one["outcome"]) for one in stated["evaluations"]]
    assert evaluations == [("release", "pass"), (None, "fail")]
    assert results().as_dict()["reason"] == "no gate was given"


def test_without_a_report_everything_lacks_evidence():
    [found] = without_report([Gate(figure="accuracy", op="ge", value=0.5)], "it is queued")
    stated = (found["outcome"], found["value"], found["reason"])
    assert stated == ("insufficient_evidence", None, "it is queued")
