"""The common parts of the read API's routes: the asker, the known parameters, and the wanted format of rows."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request

from ingest.errors import InputError

from ..ask import reads
from ..ask.asking import Asker
from ..ask.formats import RowFormat, chosen_format
from ..ask.listing import Page
from ..ask.questions import Filters, Paging
from ..ask.waiting import view_at_last

PREFIX = "/api/v1"


async def whole_view(asker: Asker, name: str, filters: Filters, paging: Paging) -> Page:
    """A page of a small view over the whole lake, which is kept. Raises BusyError if it is not ready in time."""
    rows = await view_at_last(asker, name)
    return await asker.ask(reads.table_page, name, rows, filters, paging)


def known_parameters(request: Request) -> None:
    """Raise InputError for a query parameter that the description does not name: a typing error must not look like an answer."""
    described = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()].get("parameters", ())
    known = sorted(entry["name"] for entry in described if entry["in"] == "query")
    for name in request.query_params:
        if name not in known:
            raise InputError(f"{ascii(name)[:60]} is not a parameter here", f"it takes {', '.join(known) or 'no parameters'}")


def _format_of(
    request: Request,
    given: Annotated[
        RowFormat | None, Query(alias="format", description="how rows are written; without it, as the Accept header says")
    ] = None,
) -> RowFormat:
    return chosen_format(request, given)


Form = Annotated[RowFormat, Depends(_format_of)]
