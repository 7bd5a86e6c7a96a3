"""The pages over the bundled log: they say what the lake says, they are whole, and nothing in an event becomes markup."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pyarrow.parquet as pq
import pytest

from api.pages.html import ago, duration
from api.settings import Settings
from ingest.lake import Lake
from queries import LakeReader, open_lake
from tests.api.conftest import MARKUP
from tests.markup import Element, faults, read_page
from tests.querying import QueryClient
from tests.walking import Pages, links, main

LINKS_OF_A_KIND = 4
POLICY = Path(__file__).parents[3] / "api" / "demo" / "policies" / "deny-external-ips.yaml"


@pytest.fixture(scope="module")
def lake(replayed_lake: Path) -> Iterator[LakeReader]:
    reader = open_lake(replayed_lake)
    yield reader
    reader.close()


def count(lake: LakeReader, view: str, where: str = "true") -> int:
    return int(lake.sql(f"SELECT count(*) FROM {view} WHERE {where}").fetchall()[0][0])


def test_the_overview_shows_every_policy_with_its_verdict_and_figures(pages: Pages, lake: LakeReader) -> None:
    page = pages.page("/")
    entries = {next(entry.all("a")).words(): entry.words() for entry in page.all("li") if any(entry.all("dl"))}
    assert {"services-have-specs", "secrets-are-immutable", "nobody-asks", "markup"} < set(entries)
    assert {"deny-external-ips", "image-registry"} < set(entries)
    assert "NOT READY" in entries["deny-external-ips"]
    assert "INSUFFICIENT EVIDENCE" in entries["nobody-asks"]
    assert "no matched request" in entries["nobody-asks"]
    assert f"{count(lake, 'events'):,}" in main(page)


def test_a_policy_page_has_the_figures_of_its_verdicts(pages: Pages, lake: LakeReader, replayed_lake: Path) -> None:
    path = pages.link("/", "image-registry")
    page = pages.page(path)
    verdicts = replayed_lake / "runs" / path.split("/")[2] / "verdicts.parquet"
    of_policy = f"'{verdicts}' WHERE policy = 'image-registry'"
    denied, messages = lake.sql(
        f"SELECT count(DISTINCT audit_id) FILTER (effect = 'deny'), "
        f"list(DISTINCT message) FILTER (effect = 'deny' AND message <> '') FROM {of_policy}"
    ).fetchall()[0]
    figures = {entry.children[0].words(): entry.children[1].words() for entry in page.all("div") if _is_figure(entry)}
    assert figures["would be denied"] == f"{denied:,}"
    assert any(message in main(page) for message in messages)
    assert "expression: variables.refused.size() == 0" in main(page)
    marked = [row.words() for row in page.all("div") if "marked" in row.attributes.get("class", "")]
    assert any("variables.refused.size() == 0" in row for row in marked)
    assert f"would have denied {denied:,} requests" in main(page)


def _is_figure(entry: Element) -> bool:
    return [child.tag for child in entry.children[:2]] == ["dt", "dd"]


def test_the_links_of_the_overview_and_of_policies_lead_to_pages(pages: Pages) -> None:
    seen: set[str] = set()
    of_kind: Counter[str] = Counter()
    for start in ("/", pages.link("/", "deny-external-ips"), pages.link("/", "secrets-are-immutable")):
        for href in links(pages.page(start), "/"):
            kind = re.sub(r"[0-9a-f]{16}", "RUN", urlsplit(href).path)
            if href in seen or kind.startswith(("/static/", "/api/")) or "table=" in href or of_kind[kind] == LINKS_OF_A_KIND:
                continue
            seen.add(href)
            of_kind[kind] += 1
            pages.page(href)
    assert {
        "/",
        "/try",
        "/evidence",
        "/violations",
        "/runs/RUN",
        "/runs/RUN/policy",
        "/runs/RUN/requests",
        "/runs/RUN/request",
    } <= set(of_kind)


def test_the_report_of_a_replay_is_a_page_and_a_browser_finds_it(pages: Pages) -> None:
    run_id = pages.run_of("image-registry")
    report = pages.link(f"/runs/{run_id}", "The report as one page")
    assert "<h1>Policy readiness</h1>" in pages.answer(report).text
    policy = pages.answer(report).headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    api = f"/api/v1/runs/{run_id}/readiness"
    answer = pages.answer(f"{api}?rule=days_min%3D1", headers={"Accept": "text/html,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{report}?rule=days_min%3D1")
    assert "policies" in pages.answer(api, headers={"Accept": "application/json"}).json()


def test_the_list_of_requests_holds_each_once_and_goes_on(pages: Pages, lake: LakeReader, replayed_lake: Path) -> None:
    run = pages.run_of("image-registry")
    path = f"/runs/{run}/requests?policy=image-registry&outcome=deny"
    found: list[str] = []
    while path:
        page = pages.page(path)
        found += [parse_qs(urlsplit(href).query)["audit_id"][0] for href in links(page, "/request?")]
        path = next((href for href in links(page, "after=")), "")
    verdicts = replayed_lake / "runs" / run / "verdicts.parquet"
    expected = lake.sql(
        f"SELECT DISTINCT audit_id FROM '{verdicts}' WHERE policy = 'image-registry' AND effect = 'deny'"
    ).fetchall()
    assert set(found) == {name for (name,) in expected}


def test_filters_narrow_the_list_and_stay_in_the_form(pages: Pages) -> None:
    run = pages.run_of("deny-external-ips")
    page = pages.page(f"/runs/{run}/requests?policy=deny-external-ips&namespace=data-prod&since=2026-11-21&until=2026-11-22")
    assert len(links(page, "/request?")) == 1
    values = {field.attributes["name"]: field.attributes.get("value") for field in page.all("input")}
    assert (values["namespace"], values["since"], values["until"]) == ("data-prod", "2026-11-21", "2026-11-22")
    assert "No request of this replay fits" in main(pages.page(f"/runs/{run}/requests?user=nobody"))
    assert "is not a time" in main(pages.page(f"/runs/{run}/requests?since=yesterday", 400))
    assert "is not before" in main(pages.page(f"/runs/{run}/requests?since=2026-11-22&until=2026-11-21", 400))


def test_a_request_page_says_who_when_what_and_what_was_changed(pages: Pages, lake: LakeReader) -> None:
    run = pages.run_of("image-registry")
    page = pages.page(f"/runs/{run}/requests?policy=image-registry&outcome=deny&user=alice")
    text = main(pages.page(links(page, "/request?")[0]))
    assert "alice" in text
    assert "images outside the allow list" in text
    audit_id = lake.sql(
        "SELECT audit_id FROM requests WHERE verb = 'update' AND resource = 'deployments' AND subresource IS NULL AND code = 200 "
        "ORDER BY ts DESC LIMIT 1"
    ).fetchall()[0][0]
    page = pages.page(f"/request?cluster=demo&audit_id={audit_id}")
    assert "Before: " in main(page)
    assert [row.words() for row in page.all("del")]
    assert [row.words() for row in page.all("ins")]


def test_a_request_whose_body_was_withheld_says_so(pages: Pages, lake: LakeReader) -> None:
    audit_id = lake.sql("SELECT audit_id FROM requests WHERE resource = 'secrets' AND verb = 'create' LIMIT 1").fetchall()[0][0]
    text = main(pages.page(f"/request?cluster=demo&audit_id={audit_id}"))
    assert "Metadata" in text
    assert "Not known" in text or "without bodies" in text


def test_recorded_failures_and_denials_are_listed(pages: Pages, lake: LakeReader) -> None:
    page = pages.page("/violations?policy=image-registry")
    assert len(links(page, "/request?")) == min(50, count(lake, "violations", "policy = 'image-registry'"))
    page = pages.page("/violations?kind=denials&policy=no-latest")
    assert "no-latest" in main(page)
    assert "is not a kind of record" in main(pages.page("/violations?kind=everything", 400))


def test_the_evidence_page_has_the_ledger_levels_and_sources(pages: Pages, lake: LakeReader) -> None:
    page = pages.page("/evidence?table=levels&find=secrets")
    text, rows = main(page), {row.children[0].words(): [cell.words() for cell in row.children[1:]] for row in page.all("tr")}
    writes = count(lake, "admission_writes", "resource = 'secrets' AND ran <> 'no'")
    withheld = count(lake, "admission_writes", "resource = 'secrets' AND level = 'Metadata' AND ran <> 'no'")
    assert [rows["secrets"][index] for index in (0, 3)] == [f"{writes:,}", f"{withheld:,}"]
    assert "were recorded at level Metadata, without bodies" in text
    assert "audit.jsonl.zst" in text


def test_markup_in_an_event_or_a_policy_stays_text_everywhere(pages: Pages) -> None:
    run = pages.run_of("markup")
    visited = [
        "/",
        "/violations",
        pages.link("/", "markup"),
        str(httpx.URL(f"/runs/{run}/requests", params={"policy": "markup", "user": MARKUP, "namespace": MARKUP})),
    ]
    listed = pages.page(visited[-1])
    visited += links(listed, "/request?")[:2]
    visited += [href for href in links(pages.page("/violations"), "/request?") if "script" in href][:1]
    assert len(visited) >= 6
    shown = 0
    for path in visited:
        page = pages.page(path)
        shown += MARKUP in page.text
        assert not list(page.all("img"))
        assert not [script for script in page.all("script") if "src" not in script.attributes]
        assert "<script>alert" not in pages.answer(path).text
    assert shown >= 4


def test_every_page_forbids_what_is_not_ours(pages: Pages) -> None:
    for path in ("/", "/try", "/evidence", "/violations", "/runs/none", "/static/hindcast.css"):
        headers = pages.answer(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    for name in ("hindcast.css", "hindcast.js"):
        text = pages.answer(f"/static/{name}").text
        assert "http://" not in text
        assert "https://" not in text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs/0123456789abcdef", 404),
        ("/runs/..%2F..%2Fmanifest", 404),
        ("/runs/0123456789abcdef/policy?policy=x", 404),
        ("/request?cluster=demo&audit_id=none", 404),
        ("/request", 422),
        ("/violations?after=nonsense", 400),
        ("/replays/none", 404),
        ("/static/secrets", 404),
    ],
)
def test_what_is_not_there_is_said_as_a_page(pages: Pages, path: str, status: int) -> None:
    response = pages.answer(path)
    assert response.status_code == status
    if "text/html" in response.headers["content-type"]:
        assert faults(read_page(response.text)) == []
        assert "Back to the policies" in response.text
    else:
        assert path == "/runs/..%2F..%2Fmanifest"


def test_a_mistake_in_a_policy_is_shown_at_its_line_and_nothing_typed_is_lost(pages: Pages) -> None:
    text = POLICY.read_text().replace("!has(object.spec.externalIPs)", "!has(object.spec.externalIPs")
    response = pages.answer("/try", "POST", data={"policies": text, "since": "9999d"})
    page = read_page(response.text)
    assert response.status_code == 400
    assert faults(page) == []
    line = next(number for number, row in enumerate(text.splitlines(), 1) if "!has(" in row)
    assert f"Line {line} of the manifests" in main(page)
    assert "Syntax error" in main(page)
    area = next(page.all("textarea"))
    assert area.attributes["aria-invalid"] == "true"
    assert area.text.strip() == text.strip()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"policies": ""}, "nothing was given"),
        ({"policies": "a: [", "since": "1d"}, "neither YAML nor JSON"),
        ({"policies": "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"}, "found no ValidatingAdmissionPolicy"),
        ({"policies": "x", "since": "soon"}, "is not a time"),
        ({"policies": "x", "since": "1d", "until": "2d"}, "is not before"),
        ({"policies": "x", "kubernetes_version": "new"}, "is not a version"),
    ],
)
def test_other_mistakes_are_said_on_the_form(pages: Pages, form: dict[str, str], said: str) -> None:
    response = pages.answer("/try", "POST", data=form)
    page = read_page(response.text)
    assert (response.status_code, faults(page)) == (400, [])
    assert said in main(page)


def test_a_policy_is_tried_under_each_minor_that_is_known(pages: Pages) -> None:
    form = pages.answer("/try").text
    offered = [f"1.{minor}" for minor in range(37, 29, -1)]
    assert re.findall(r'<option value="(1[.]\d+)"', form) == offered
    assert re.findall(r'<option value="(1[.]\d+)" selected', form) == ["1.36"]


def test_a_policy_is_tried_from_a_file_without_a_script(pages: Pages) -> None:
    changed = POLICY.read_text().replace("deny-external-ips", "tried-here")
    response = pages.answer(
        "/try", "POST", files={"file": ("policy.yaml", changed)}, data={"policies": "", "until": "2026-11-21T03:26:00Z"}
    )
    assert response.status_code == 303, response.text
    path = response.headers["location"]
    deadline = time.monotonic() + 120
    while (response := pages.answer(path)).status_code == 200:
        page = read_page(response.text)
        assert faults(page) == []
        refresh = [meta for meta in page.all("meta") if meta.attributes.get("http-equiv") == "refresh"]
        assert refresh
        assert [entry.attributes["aria-live"] for entry in page.all("p") if "aria-live" in entry.attributes] == ["polite"]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert response.status_code == 303
    assert "tried-here" in main(pages.page(response.headers["location"]))
    assert "tried-here" in main(pages.page("/"))


def test_a_replay_can_be_cancelled(pages: Pages) -> None:
    text = POLICY.read_text().replace("deny-external-ips", "cancelled-here")
    path = pages.answer("/try", "POST", data={"policies": text, "calibrate": "on"}).headers["location"]
    assert pages.answer(f"{path}/cancel", "POST").status_code == 303
    assert "was cancelled" in main(pages.page(path))
    assert pages.answer("/replays/none/cancel", "POST").status_code == 404


def test_an_empty_lake_has_pages_too(tmp_path: Path) -> None:
    Lake.create(tmp_path / "lake").close()
    with QueryClient(Settings(lake=tmp_path / "lake")) as client:
        empty = Pages(client)
        assert "no events yet" in main(empty.page("/"))
        for path in ("/try", "/violations", "/evidence"):
            empty.page(path)


def test_what_was_worked_out_before_the_newest_events_is_said_to_be(
    demo_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(demo_lake, tmp_path / "lake")
    monkeypatch.setattr("api.ask.asking._LOOK_AGAIN_SECONDS", 0.0)
    with QueryClient(Settings(lake=tmp_path / "lake", query_seconds_max=200)) as client:
        found = Pages(client)
        while "Hindcast still reads" in (text := main(found.page("/evidence"))):
            pass
        assert "newest events" not in text
        with Lake.open(tmp_path / "lake").writer() as writer:
            table = pq.read_table(open_lake(tmp_path / "lake").files.events[0]).slice(0, 10)
            writer.commit(writer.write("events", "demo", table))
        assert "It does not hold the newest events yet" in main(found.page("/evidence"))
        assert "do not hold the newest events yet" in main(found.page("/"))


def test_times_are_said_as_people_say_them() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    spans = {timedelta(seconds=5): "less than a minute ago", timedelta(minutes=1): "1 minute ago", timedelta(days=2): "2 days ago"}
    assert {span: ago(now - span, now) for span in spans} == spans
    assert ago(now + timedelta(1), now) == "in the future by this clock"
    assert ago(None, now) == "never"
    assert [duration(seconds) for seconds in (3.21, 300, 9000, 200000)] == ["3.21 s", "5 min", "2.5 h", "2.31 days"]
