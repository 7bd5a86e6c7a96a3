"""What all pages' addresses share: errors are pages, filters are checked, and each page gets what it asks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute

from ingest.errors import HindcastError, InputError

from ..errors import classify
from .errors import error_page
from .html import KEPT_EVERYWHERE
from .selection import Selection, selection_of
from .tables import Asked, asked_of


class PageRoute(APIRoute):
    """A route whose errors are pages, too, because users read them."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route, with Hindcast's own errors caught."""
        handle = super().get_route_handler()
        known = sorted({*_query_names(self.dependant), *KEPT_EVERYWHERE})

        async def answer(request: Request) -> Response:
            try:
                _check_names(request, known)
                return await handle(request)
            except HindcastError as error:
                return error_page(request, classify(error)[1], error.message, error.hint)
            except RequestValidationError as error:
                first = error.errors()[0]
                return error_page(request, 422, f"{'.'.join(map(str, first['loc']))}: {first['msg']}", "correct the address")

        return answer


def _query_names(dependant: Dependant) -> Iterator[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _query_names(inner)


def _check_names(request: Request, known: Sequence[str]) -> None:
    """Reject a filter that the page does not know: it must not pass for one that was applied. Raises InputError."""
    for name in request.query_params:
        if name not in known:
            raise InputError(
                f"{ascii(name)[:60]} is not a parameter of this page", f"it takes {', '.join(known) or 'no parameters'}"
            )


def page_router() -> APIRouter:
    """A router for pages."""
    return APIRouter(route_class=PageRoute, include_in_schema=False, default_response_class=HTMLResponse)


Selected = Annotated[Selection, Depends(selection_of)]
Asks = Annotated[Asked, Depends(asked_of)]
