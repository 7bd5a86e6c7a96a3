"""Messages to owners: each goes to one who can change something, and no name of a stranger adds a line to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from unicodedata import category

import pytest

from pipeline.readiness.counting.writers import Writer
from pipeline.readiness.model import Identity, Owner
from pipeline.readiness.report import Report
from pipeline.report.messages import denied_places, messages, to_messages

from .conftest import END, HOSTILE, REGISTRY, START

BY = date(2026, 6, 1)
PLAIN = Owner(
    "pay", "pods", "Deployment/cart", "dana", 3, START, END, "too many replicas", "a1", difference="set spec.replicas to 5"
)
PLACE = ("pay", "Deployment/cart")


def report_on(report: Report, *owners: Owner) -> Report:
    return replace(report, policies=(replace(REGISTRY, owners=owners),))


@pytest.mark.parametrize(
    ("owner", "writers", "to"),
    [
        (replace(PLAIN, team="checkout", team_source="Deployment/cart: team"), {PLACE: Writer("alice", END)}, "team checkout"),
        (PLAIN, {PLACE: Writer("alice", END)}, "alice"),
        (PLAIN, {}, "dana"),
        (replace(PLAIN, identity=Identity.CONTROL_PLANE), {}, "whoever looks after namespace pay"),
        (replace(PLAIN, identity=Identity.NODE, namespace=""), {}, "whoever looks after the cluster"),
    ],
)
def test_a_message_goes_to_who_can_change_something(
    report: Report, owner: Owner, writers: dict[tuple[str, str], Writer], to: str
) -> None:
    (found,) = messages(report_on(report, owner), writers, BY)
    assert found.to == to
    assert found.why
    for words in ("Deployment/cart", "too many replicas", "to pass: set spec.replicas to 5", "a1", "by 2026-06-01"):
        assert words in found.body
    assert "Today they are not refused." in found.body


def test_one_message_holds_all_of_a_team(report: Report) -> None:
    owners = [replace(PLAIN, unit=f"Deployment/d{number}", team="checkout", requests=number + 1) for number in range(25)]
    other = replace(PLAIN, unit="Deployment/other", team="search", requests=1)
    found = messages(report_on(report, *owners, other), {}, BY)
    assert [each.to for each in found] == ["team checkout", "team search"]
    assert found[0].subject == "25 workloads will be refused by image-registry"
    assert "and 5 more workloads" in found[0].body
    assert denied_places(report_on(report, *owners)) == [("pay", f"Deployment/d{number}") for number in reversed(range(25))]


def test_names_of_strangers_add_no_line(report: Report) -> None:
    hostile = Owner("pay", "pods", HOSTILE, HOSTILE, 3, START, END, HOSTILE, HOSTILE, difference=HOSTILE, team=HOSTILE)
    lines = to_messages(messages(report_on(report, hostile), {("pay", HOSTILE): Writer(HOSTILE, END)}, BY)).splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["To", "Because", "Subject"]
    assert lines[3] == ""
    assert not [line for line in lines if line.startswith("second line")]
    assert not [sign for line in lines for sign in line if category(sign) in ("Cc", "Cf")]


def test_without_a_denied_workload_nobody_is_written_to(report: Report) -> None:
    assert to_messages(messages(report_on(report), {}, BY)) == "No workload would have been denied: there is no message to send.\n"
