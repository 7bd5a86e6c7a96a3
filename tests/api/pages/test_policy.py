"""The page of a policy as a reader works with it: its contents, its text, its charts, and the way back into the form."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from api.pages.charts import timeline
from api.pages.trial import job_view
from api.work.jobs import Job, Order, State
from pipeline.readiness.model import DayCount
from pipeline.stages.validating.load import load_policy_set, parse_policy_set
from queries import open_lake
from tests.api.conftest import CASES, DEMO
from tests.markup import Element
from tests.walking import Pages, links, main

TEMPLATES = Path(__file__).parents[3] / "api" / "pages" / "templates"
# What a reader of pages stumbled over once.
UNCLEAR = (
    "out of the policy's sight",
    "hides requests",
    "was not there",
    "was applied",
    "before it refused",
    "had changed before",
    "which no policy meets",
    "is what failurepolicy makes",
    "as what it is replayed",
    "carry a verdict",
    "tried over what",
    "the beginning",
    "newest event is of",
    "by anyone",
    "replay replays",
    "brought first",
    "have them removed",
    "is no time",
    "is void",
    "over there",
    "known lines",
    "as none",
    "in 1 parts",
    "1 requests",
    "could not be judged",
    "beside",
    "anew",
    "is told",
)
# Of the pages' own words; evidence is worded elsewhere, and names of policies hold what they like.
UNCLEAR_OF_OURS = ("not known", "nobody", "is none", "silent")


def headings(page: Element) -> list[tuple[str, str]]:
    titles = [found for found in page.all("h2") if "id" in found.attributes]
    return [(found.attributes["id"].removesuffix("-title"), found.words().removesuffix(" #")) for found in titles]


@pytest.mark.parametrize("path", ["/", "/evidence", "policy", "run"])
def test_a_contents_list_leads_to_every_section_and_each_section_to_itself(pages: Pages, path: str) -> None:
    policy = pages.link("/", "image-registry")
    page = pages.page({"policy": policy, "run": "/".join(policy.split("/")[:3])}.get(path, path))
    contents = next(nav for nav in page.all("nav") if nav.attributes["aria-label"] == "On this page")
    listed = [(link.attributes["href"].removeprefix("#"), link.words()) for link in contents.all("a")]
    assert listed == headings(page)
    assert len(listed) >= 3
    assert {f"#{name}" for name, _ in listed} <= set(links(page, "#"))


def test_the_text_of_a_policy_stands_near_the_top_and_can_be_folded(pages: Pages) -> None:
    page = pages.page(pages.link("/", "image-registry"))
    assert [name for name, _ in headings(page)][:2] == ["why", "policy"]
    texts = [entry for entry in page.all("details") if "kind: ValidatingAdmissionPolicy" in entry.words()]
    assert any("variables.refused.size() == 0" in entry.words() for entry in texts)


def placeless(manifests: Iterable[Any]) -> list[Any]:
    """Policies or bindings without the places at which they were written."""

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without(entry) for name, entry in value.items() if name != "source"}
        return [without(entry) for entry in value] if isinstance(value, (list, tuple)) else value

    return [without(dataclasses.asdict(manifest)) for manifest in manifests]


@pytest.mark.parametrize(
    ("name", "files"),
    [(file.stem, file) for file in sorted((DEMO / "policies").glob("*.yaml"))] + [("markup", CASES / "policies.yaml")],
)
def test_edit_and_try_again_fills_the_form_with_the_same_policy(pages: Pages, name: str, files: Path) -> None:
    given = load_policy_set([files])
    policy = next(item for item in given.policies if item.name == name)
    page = pages.page(pages.link("/", name))
    href = next(link.attributes["href"] for link in page.all("a") if link.words() == "Edit and try again")
    text = next(pages.page(href).all("textarea")).text
    found = parse_policy_set([("policies", text)])
    assert placeless(found.policies) == placeless([policy])
    assert placeless(found.bindings) == placeless(given.bindings_of(policy))


def test_a_policy_that_a_replay_did_not_try_cannot_be_edited_from_it(pages: Pages) -> None:
    run = pages.run_of("image-registry")
    assert "did not try" in main(pages.page(f"/try?run={run}&policy=elsewhere", 404))
    assert "no run" in main(pages.page("/try?run=0123456789abcdef&policy=x", 404))


def job(state: State, done: int, planned: int) -> Job:
    return Job("j", "r", Order("x", calibrate=True), datetime.now(UTC), state=state, done=done, planned=planned)


def test_no_bar_is_full_while_a_step_still_runs() -> None:
    assert job_view(job(State.RUNNING, 5, 10)).share == 0.5
    assert job_view(job(State.RUNNING, 5, 10)).counts == "5 of 10 requests"
    for state in (State.RUNNING, State.CALIBRATING, State.REPORTING, State.EXEMPTING):
        view = job_view(job(state, 10, 10))
        assert (view.share, view.counts) == (None, "")


def test_the_steps_of_a_replay_are_those_that_were_asked_for() -> None:
    assert [step.state for step in job_view(job(State.CALIBRATING, 10, 10)).steps] == ["done", "done", "now", "later", "later"]
    short = Job("j", "r", Order("x", exemptions=False), datetime.now(UTC), state=State.WAITING)
    assert [step.state for step in job_view(short).steps] == ["later", "later", "later"]


@pytest.mark.parametrize(
    ("days", "labels"),
    [
        (1, ["1 Nov"]),
        (5, ["1 Nov – 5 Nov"]),
        (10, ["1 Nov", "10 Nov"]),
        (30, ["1 Nov", "16 Nov", "30 Nov"]),
        (100, ["1 Nov", "20 Dec", "7 Feb"]),
    ],
)
def test_a_chart_names_its_first_and_last_day(days: int, labels: list[str]) -> None:
    first = date(2026, 11, 1)
    found = timeline([DayCount(first + timedelta(days=number), 3, 1, 0) for number in range(days)])
    assert found is not None
    assert [tick.label for tick in found.ticks] == labels
    assert all(0 <= tick.x <= 100 for tick in found.ticks)


def test_a_chart_has_both_axes_and_a_unit(pages: Pages) -> None:
    page = pages.page(pages.link("/", "image-registry"))
    drawn = [entry for entry in page.all("div") if entry.attributes.get("class") == "chart"]
    assert drawn
    for chart in drawn:
        axis = next(entry for entry in chart.all("div") if entry.attributes.get("class") == "axis-y")
        top, bottom = (entry.words() for entry in axis.all("span"))
        assert int(top.replace(",", "")) > int(bottom) == 0
        assert f"at most {top} per " in chart.attributes["aria-label"]
        assert [entry.words() for entry in chart.all("text")]
    assert re.search(r"requests per [\w ]+ \(UTC\)", main(page))


def test_pages_say_it_plainly(pages: Pages) -> None:
    policy = pages.link("/", "image-registry")
    paths = ["/", "/evidence", "/violations", "/try", "/runs", policy, "/".join(policy.split("/")[:3])]
    texts = {path: main(pages.page(path)).lower() for path in paths}
    own = {file.name: re.sub(r"\{[#%{].*?[#%}]\}", "", file.read_text(encoding="utf-8")).lower() for file in TEMPLATES.glob("*.j2")}
    found = {(name, words) for name, text in (texts | own).items() for words in UNCLEAR if holds(text, words)}
    found |= {(name, words) for name, text in own.items() for words in UNCLEAR_OF_OURS if holds(text, words)}
    assert found == set()


def holds(text: str, words: str) -> bool:
    return re.search(rf"(?<![\w,-]){words}(?![\w-])", text) is not None


def test_a_denied_workload_is_one_row_with_the_person_who_last_wrote_it(pages: Pages, replayed_lake: Path) -> None:
    """A controller was denied a Pod; the log has the person who last wrote its Deployment."""
    path = pages.link("/", "image-registry")
    rows = pages.answer(f"{path}&table=owners&format=json").json()["rows"]
    text = main(pages.page(f"{path}&table=owners"))
    with closing(open_lake(replayed_lake)) as lake:
        for row in rows:
            kind, _, name = row["workload"].partition("/")
            found = lake.sql(
                "SELECT user_name FROM requests WHERE resource = ? AND namespace = ? AND name = ? AND subresource IS NULL "
                "AND code IN (200, 201) AND verb IN ('create', 'patch', 'update') "
                "AND user_name NOT LIKE 'system:serviceaccount:kube-%' ORDER BY ts DESC LIMIT 1",
                [f"{kind.lower()}s", row["namespace"], name],
            ).fetchall()
            if found and found[0][0] not in row["user"] and not found[0][0].startswith("system:"):
                assert f"last written by {found[0][0]} on" in text
                return
    raise AssertionError("no workload was written by somebody else")
