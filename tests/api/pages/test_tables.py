"""Tables of the pages: sorted, searched and downloaded, over whole lists and not only over what a page shows."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.pages.tables import Asked, Column, file_of, table
from ingest.errors import InputError
from pipeline.report.markup import user
from queries import open_lake
from tests.markup import Element
from tests.walking import Pages, links, main

COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("name", "Name", lambda row: row["name"]),
    Column("count", "Count", lambda row: row["count"], "n"),
    Column("note", "", lambda row: row["note"]),
)
ROWS = [
    {"name": "Beta", "count": 2, "note": "=1+1"},
    {"name": "alpha", "count": None, "note": "first"},
    {"name": "gamma", "count": 10, "note": "\x1b[31m"},
]


def names(**asked: str) -> list[str]:
    return [row["name"] for row in table(replace(Asked(), **asked), "things", "Things", COLUMNS, ROWS, 2).rows]


def test_a_table_shows_some_rows_until_it_is_asked_for() -> None:
    assert names() == ["Beta", "alpha"]
    assert names(table="others", sort="name") == ["Beta", "alpha"]
    assert names(table="things") == ["Beta", "alpha", "gamma"]


def test_rows_are_sorted_whatever_their_case_and_those_without_a_value_come_last() -> None:
    assert names(table="things", sort="name") == ["alpha", "Beta", "gamma"]
    assert names(table="things", sort="count") == ["Beta", "gamma", "alpha"]
    assert names(table="things", sort="-count") == ["gamma", "Beta", "alpha"]
    with pytest.raises(InputError, match="'size' is not a column"):
        names(table="things", sort="size")


def test_a_text_is_looked_for_in_all_columns_also_in_those_that_are_not_shown() -> None:
    assert names(table="things", find="FIRST") == ["alpha"]
    found = table(Asked(table="things", find="zzz"), "things", "Things", COLUMNS, ROWS)
    assert (found.rows, found.found, found.total) == ([], 0, 3)


def test_a_click_on_a_head_sorts_and_the_next_one_turns_the_order() -> None:
    asked = Asked("/page", (("namespace", "shop"),), "things", "-count", "a")
    heads = table(asked, "things", "Things", COLUMNS, ROWS).heads
    assert [head.order for head in heads] == ["", "descending"]
    assert heads[0].href == "/page?namespace=shop&table=things&sort=name&find=a#table-things"
    assert heads[1].href == "/page?namespace=shop&table=things&sort=count&find=a#table-things"
    unsorted = table(Asked("/page"), "things", "Things", COLUMNS, ROWS).heads
    assert unsorted[1].href == "/page?table=things&sort=-count#table-things"


def test_a_download_has_every_column_and_no_formula() -> None:
    asked = Asked(table="things", sort="name", form="csv")
    response = file_of({"things": table(asked, "things", "Things", COLUMNS, ROWS, 1)}, asked)
    assert response.headers["content-disposition"] == 'attachment; filename="hindcast-things.csv"'
    rows = list(csv.DictReader(io.StringIO(bytes(response.body).decode())))
    assert [row["name"] for row in rows] == ["alpha", "Beta", "gamma"]
    assert [row["note"] for row in rows][:2] == ["first", "'=1+1"]
    with pytest.raises(InputError, match="no table 'else'"):
        file_of({"things": None}, Asked(table="else", form="csv"))


@pytest.mark.parametrize(
    ("name", "shown", "title"),
    [
        ("alice", "alice", None),
        ("system:serviceaccount:shop:web", "sa shop:web", "system:serviceaccount:shop:web"),
        ("a" * 30 + "-" + "b" * 30, "a" * 19 + "…" + "b" * 19, "a" * 30 + "-" + "b" * 30),
        (None, "", None),
        ("<b>", "<b>", None),
    ],
)
def test_a_user_stands_on_one_line_with_the_whole_name_as_its_title(name: str | None, shown: str, title: str | None) -> None:
    markup = user(name)
    assert markup.striptags() == shown
    assert ("title=" in markup) == (title is not None)
    assert title is None or f'title="{title}"' in markup
    assert "<b>" not in markup


def rows_of(page: Element, name: str) -> list[list[str]]:
    box = next(entry for entry in page.all("div") if entry.attributes.get("id") == f"table-{name}")
    return [[cell.words() for cell in row.children] for row in next(box.all("tbody")).all("tr")]


def downloaded(pages: Pages, path: str) -> list[dict[str, Any]]:
    response = pages.answer(path)
    assert response.status_code == 200, response.text
    assert response.headers["content-disposition"].startswith("attachment")
    rows: list[dict[str, Any]] = response.json()["rows"]
    return rows


def test_every_table_of_a_page_is_sorted_by_its_own_heads_and_downloaded(pages: Pages) -> None:
    path = pages.link("/", "image-registry")
    page = pages.page(path)
    boxes = [
        entry.attributes["id"].removeprefix("table-") for entry in page.all("div") if "sheet" in entry.attributes.get("class", "")
    ]
    assert {"days", "owners", "critical", "namespaces"} <= set(boxes)
    for name in boxes:
        own = [href for href in links(page, f"table={name}") if "format=json" in href]
        rows = downloaded(pages, own[0])
        assert rows
        assert len(rows) >= len(rows_of(page, name))
    by_requests = [int(row[1]) for row in rows_of(pages.page(f"{path}&table=owners&sort=requests"), "owners")]
    assert by_requests == sorted(by_requests)
    assert len(by_requests) > 12


def test_a_search_on_a_policy_page_keeps_the_rows_that_hold_the_text(pages: Pages) -> None:
    path = pages.link("/", "image-registry")
    owners = downloaded(pages, f"{path}&table=owners&format=json")
    assert len({(row["namespace"], row["workload"]) for row in owners}) == len(owners)
    namespace = owners[-1]["namespace"]
    found = downloaded(pages, f"{path}&table=owners&find={namespace}&format=json")
    assert 0 < len(found) < len(owners)
    assert all(namespace in str(row) for row in found)


def test_a_list_is_sorted_and_searched_as_a_whole(pages: Pages, replayed_lake: Path) -> None:
    reader = open_lake(replayed_lake)
    alices = reader.sql(
        "SELECT count(*) FROM violations WHERE contains(lower(concat_ws(' ', policy, binding, message, user_name, namespace, name, "
        "verb, resource, subresource)), 'alice')"
    ).fetchall()[0][0]
    reader.close()
    oldest = rows_of(pages.page("/violations?table=violations&sort=ts"), "violations")
    newest = rows_of(pages.page("/violations"), "violations")
    assert oldest[0][2] < newest[0][2]
    assert oldest[0][2] < oldest[-1][2]
    by_message = [row["message"] for row in downloaded(pages, "/violations?table=violations&sort=-message&format=json")]
    assert by_message == sorted(by_message, key=str.casefold, reverse=True)
    found = downloaded(pages, "/violations?table=violations&find=Alice&format=json")
    assert len(found) == alices > 0
    assert "No row contains" in main(pages.page("/violations?table=violations&find=zzzzz"))
    run = pages.run_of("image-registry")
    whole = downloaded(pages, f"/runs/{run}/requests?policy=image-registry&table=requests&format=json")
    some = downloaded(pages, f"/runs/{run}/requests?policy=image-registry&table=requests&find=alice&format=json")
    assert 0 < len(some) < len(whole)
    assert all("alice" in str(row).lower() for row in some)


def test_a_list_names_the_object_also_where_the_server_generated_its_name(pages: Pages, replayed_lake: Path) -> None:
    reader = open_lake(replayed_lake)
    generated = reader.sql(
        "SELECT audit_id, namespace, recorded_object(response_object, request_object) ->> '$.metadata.generateName' AS name "
        "FROM requests WHERE name IS NULL AND verb = 'create' AND audit_id IN (SELECT audit_id FROM violations) "
        "AND request_object ->> '$.metadata.generateName' IS NOT NULL LIMIT 1"
    ).fetchall()
    reader.close()
    assert generated
    audit_id, namespace, name = generated[0]
    row = rows_of(pages.page(f"/violations?table=violations&find={audit_id}"), "violations")[0]
    assert row[0].startswith(f"create pods {namespace}/{name}")
    assert len(row[0]) > len(f"create pods {namespace}/{name}")


def test_the_api_link_of_a_list_has_the_same_filters(pages: Pages) -> None:
    page = pages.page("/violations?policy=image-registry&namespace=shop-dev&since=2026-11-01&user=alice")
    href = next(href for href in links(page, "/api/v1/"))
    assert href == "/api/v1/violations?since=2026-11-01&namespace=shop-dev&policy=image-registry&user=alice"
    assert pages.answer(href).status_code == 200
