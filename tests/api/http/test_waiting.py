"""Answers about the whole lake that several readers ask for at the same time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.ask.asking import Asker
from api.ask.questions import Filters, Paging
from api.pages.evidence import EvidenceView, evidence_view
from api.pages.selection import Selection
from api.pages.tables import Asked
from api.routes.answers import whole_view


@pytest.mark.parametrize("first", ["page", "program"])
def test_a_page_and_a_program_share_one_answer(demo_lake: Path, first: str) -> None:
    async def ask_both(asker: Asker) -> tuple[EvidenceView, list[dict[str, object]]]:
        page = evidence_view(asker, datetime(2026, 11, 3, tzinfo=UTC), Selection(), Asked())
        rows = whole_view(asker, "sources", Filters(), Paging())
        if first == "page":
            view, found = await asyncio.gather(page, rows)
        else:
            found, view = await asyncio.gather(rows, page)
        return view, found.dicts()

    asker = Asker(demo_lake, 60.0, 2 << 30)
    view, rows = asyncio.run(ask_both(asker))
    assert rows
    sources = view.tables["sources"]
    assert sources is not None
    assert sources.rows == rows
