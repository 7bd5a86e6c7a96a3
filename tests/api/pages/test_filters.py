"""Filters in the address: since, until, namespace, cluster and policy mean the same on every page, and go along with the reader."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from api.pages.selection import Selection, of_day
from ingest.errors import InputError
from queries import LakeReader, open_lake
from tests.markup import Element
from tests.walking import Pages, links, main

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(replayed_lake: Path) -> Iterator[LakeReader]:
    reader = open_lake(replayed_lake)
    yield reader
    reader.close()


def figures(page: Element) -> dict[str, tuple[int, int, int]]:
    """Policy -> matched, would deny, unknown, of the cards of a page."""
    found = {}
    for entry in page.all("li"):
        counts = next((item for item in entry.all("dl") if item.attributes.get("class") == "counts"), None)
        if counts is not None:
            # The last one is a bar of the same figures.
            matched, denied, unknown = (int(cell.words().replace(",", "")) for cell in [*counts.all("dd")][:3])
            found[next(entry.all("a")).words()] = (matched, denied, unknown)
    return found


def counted(lake: LakeReader, run: Path, policy: str, where: str) -> tuple[int, int]:
    """Requests of a run that a policy matched, and those that it would deny, told independently of the pages: no dry runs."""
    text = (
        f"SELECT count(DISTINCT v.audit_id), count(DISTINCT v.audit_id) FILTER (v.effect = 'deny') "
        f"FROM '{run / 'verdicts.parquet'}' AS v JOIN requests AS r USING (cluster, audit_id, ts) "
        f"WHERE v.policy = '{policy}' AND v.decision <> 'nomatch' AND {where} "
        "AND v.audit_id NOT IN (SELECT audit_id FROM events WHERE request_uri LIKE '%dryRun=%')"
    )
    matched, denied = lake.sql(text).fetchall()[0]
    return int(matched), int(denied)


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("namespace=shop-dev", "r.namespace = 'shop-dev'"),
        ("since=2026-11-21T03:25:00Z", "ts >= '2026-11-21T03:25:00Z'"),
        ("until=2026-11-21T03:25:00Z&namespace=shop-prod", "ts < '2026-11-21T03:25:00Z' AND r.namespace = 'shop-prod'"),
        ("cluster=demo", "v.cluster = 'demo'"),
        ("cluster=elsewhere", "false"),
    ],
)
def test_the_overview_and_the_policy_page_count_the_selected_requests(
    pages: Pages, lake: LakeReader, replayed_lake: Path, query: str, where: str
) -> None:
    page = pages.page(f"/?{query}")
    while "are being counted" in main(page):
        page = pages.page(f"/?{query}")
    run = replayed_lake / "runs" / pages.run_of("image-registry")
    expected = counted(lake, run, "image-registry", where)
    assert figures(page)["image-registry"][:2] == expected
    assert "Each verdict is of the whole replay" in main(page)
    assert "NOT READY" in main(page)
    whole = pages.link("/", "image-registry")
    narrowed = pages.page(f"{whole}&{query}")
    text = main(narrowed)
    pairs = [[child.words() for child in entry.children[:2]] for entry in narrowed.all("div") if len(entry.children) > 1]
    assert ["matched", f"{expected[0]:,}"] in pairs
    assert ["would deny", f"{expected[1]:,}"] in pairs
    assert "The verdict and the rest of this page are of the whole replay" in text


def test_a_policy_filter_leaves_one_card_and_says_so_where_there_is_none(pages: Pages) -> None:
    assert set(figures(pages.page("/?policy=image-registry"))) == {"image-registry"}
    assert figures(pages.page("/?policy=image-registry")) == {"image-registry": figures(pages.page("/"))["image-registry"]}
    assert "No replay of this lake tried no-such-policy" in main(pages.page("/?policy=no-such-policy"))


def test_filters_go_along_from_page_to_page(pages: Pages) -> None:
    kept = {"since": ["2026-11-21T03:00:00Z"], "namespace": ["shop-dev"]}
    path = "/?since=2026-11-21T03:00:00Z&namespace=shop-dev"
    page = pages.page(path)
    main_links = [link.attributes["href"] for link in next(page.all("nav")).all("a")]
    policy = next(href for href in links(page, "/policy?") if "policy=image-registry" in href)
    requests = next(
        href for href in links(pages.page(policy), "/requests?") if "outcome=deny" in href and "namespace=shop-dev" in href
    )
    listed = links(pages.page(requests), "/request?")
    assert len(main_links) == 5
    for href in (*main_links, policy, requests, listed[0]):
        given = parse_qs(urlsplit(href).query)
        assert {name: given.get(name) for name in kept} == kept, href
    # A request's own cluster is no filter that the reader chose.
    back = [link.attributes["href"] for link in next(pages.page(listed[0]).all("nav")).all("a")]
    assert all("cluster=" not in href and "namespace=shop-dev" in href for href in back)


def test_the_recorded_failures_of_the_overview_are_those_of_the_selection(pages: Pages, lake: LakeReader) -> None:
    where = "namespace = 'shop-dev' AND policy = 'image-registry'"
    failures = lake.sql(f"SELECT count(*) FROM violations WHERE {where}").fetchall()[0][0]
    path = "/?namespace=shop-dev&table=recorded&find=image-registry&format=json"
    rows = pages.answer(path).json()["rows"]
    assert failures > 0
    assert sum(row["failures"] for row in rows) == failures


def test_the_evidence_is_narrowed_by_time_cluster_and_namespace(pages: Pages, lake: LakeReader) -> None:
    def writes(query: str) -> int:
        while (response := pages.answer(f"/evidence?{query}table=levels&format=json")).status_code != 200:
            assert "no table" in response.text
        return sum(row["writes"] for row in response.json()["rows"])

    def expected(where: str) -> int:
        return int(lake.sql(f"SELECT count(*) FROM admission_writes WHERE ran <> 'no' AND {where}").fetchall()[0][0])

    assert writes("") == expected("true")
    assert writes("namespace=shop-dev&") == expected("namespace = 'shop-dev'") > 0
    assert writes("since=2026-11-21T03:25:00Z&") == expected("ts >= '2026-11-21T03:25:00Z'") > 0
    while "Hindcast still reads" in (text := main(pages.page("/evidence?cluster=elsewhere"))):
        pass
    assert "No write is recorded in this selection" in text
    assert "Nothing was ingested in this selection" in text
    assert "No loss is known in this selection" in text


def test_the_form_to_try_a_policy_takes_the_window_along(pages: Pages) -> None:
    values = {
        field.attributes.get("name"): field.attributes.get("value") for field in pages.page("/try?since=7d&until=1d").all("input")
    }
    assert (values["since"], values["until"]) == ("7d", "1d")


def test_a_window_is_checked_and_lies_over_what_lasts() -> None:
    chosen = Selection(since="2d", until="2026-11-22T00:00:00Z")
    assert chosen.window(NOW) == (datetime(2026, 11, 20, 12, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC))
    with pytest.raises(InputError, match="is not before"):
        Selection(since="1d", until="2d").window(NOW)
    before, within = datetime(2026, 11, 19, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC)
    assert chosen.overlaps(before, within, NOW)
    assert chosen.overlaps(within, NOW, NOW)
    assert chosen.overlaps(None, None, NOW)
    assert not chosen.overlaps(before, before, NOW)
    assert not chosen.overlaps(NOW, NOW, NOW)
    assert of_day(within.date()) == {"since": "2026-11-21", "until": "2026-11-22"}
