"""The HTTP application for readers: the read API under /api/v1/ and the pages under /. It shares nothing with the sink."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from .. import error_answers
from ..access.gate import Gate
from ..access.readers import Readers, readers_of
from ..confinement import memory_bytes
from ..logs import RequestIds
from ..pages.errors import for_reader
from ..pages.html import compile_templates
from ..pages.routes import router as pages
from ..pages.tries import router as tries
from ..published import published_url
from ..routes import explain, fleets, jobs, policies, readiness, runs, views
from ..routes.answers import PREFIX
from ..routes.examples import explain_routes
from ..settings import Settings, is_loopback
from ..work.explanations import Explanations
from ..work.jobs import Jobs
from .asking import Asker
from .following import follow
from .heads import HeadAsGet
from .shared_names import SharedNames

_ABOUT = """Questions about a lake of Kubernetes audit events, and replays of admission policies over it.

Rows come in pages: hand `next` back as `after`, with the same filters, until it is absent. `format=json`, `csv` or `arrow`, or the
Accept header, chooses how rows are written. Times are RFC 3339 in UTC. What could not be known is null or `unknown`, and never
folded into another answer. A header `Warning: 299` names each cluster name that two clusters share. Errors have one shape:
`{"error": {"code", "message", "hint"}}`."""


def create_query_app(settings: Settings) -> FastAPI:
    """The application for one lake. Raises InputError for unusable tokens or keys; starting it raises LakeError.

    While it runs, `app.state` has `asker` (asking.Asker), `jobs` (jobs.Jobs) and `explanations` (explanations.Explanations).
    """
    readers = readers_of(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        asker = Asker(settings.lake, settings.query_seconds_max, settings.query_memory_bytes_max)
        app.state.asker = asker
        published = published_url(asker.lake)
        following = asyncio.create_task(follow(asker.lake, published)) if published else None
        memory_bytes_max = memory_bytes(settings.replay_memory_bytes_max)
        app.state.jobs = Jobs(
            asker.lake, settings.replays_max, settings.replay_seconds_max, memory_bytes_max, settings.replay_output_bytes_max
        )
        app.state.explanations = Explanations(asker, memory_bytes_max)
        _description(app)  # requests that come together at the start would each make it
        try:
            yield
        finally:
            if following is not None:
                following.cancel()
            await app.state.explanations.close()
            await app.state.jobs.close()
            asker.close()

    app = FastAPI(
        title="Hindcast", version="1", description=_ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
    )  # fmt: skip
    app.add_middleware(SharedNames)  # within the gate: a stranger learns no name
    app.add_middleware(Gate, readers=readers, hosts=_hosts(settings, readers), body_seconds_max=settings.body_seconds_max)
    app.add_middleware(RequestIds)
    app.add_middleware(HeadAsGet)
    error_answers.install(app, for_reader)
    for module in (views, explain, runs, readiness, fleets, policies, jobs):
        app.include_router(module.router, responses=error_answers.DESCRIBED)
    app.include_router(pages)
    app.include_router(tries)
    app.add_api_route("/healthz", alive, include_in_schema=False)
    app.openapi = lambda: _description(app)  # type: ignore[method-assign]
    return app


def prepare(app: FastAPI) -> None:
    """Prepare the first answers before requests arrive. It starts no thread."""
    _description(app)
    compile_templates()


async def alive() -> dict[str, bool]:
    """Answer 200 while the process runs."""
    return {"alive": True}


def _hosts(settings: Settings, readers: Readers) -> frozenset[str] | None:
    """If readers prove who they are, or the settings let strangers in, any host name is allowed."""
    is_guarded = not readers.is_open or not is_loopback(settings.query_host)
    return None if is_guarded else frozenset({settings.query_host})


def _description(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI description, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]
        explain_routes(schema)
        app.openapi_schema = schema
    return app.openapi_schema
