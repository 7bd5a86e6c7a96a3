"""The HTTP application: one router per file in routes/ and one error shape."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from .. import error_answers
from ..access.origin import OwnNames
from ..logs import RequestIds
from ..routes import admission, audit, health
from ..settings import Settings, is_loopback
from .services import Services, open_services, start_services, stop_services


def create_app(settings: Settings, services: Services | None = None) -> FastAPI:
    """The application for one lake. It opens services at its start unless they are given, and closes them at its stop.

    Starting raises LakeError when the spool is held by another server or cannot be written.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = services or open_services(settings)
        app.state.services = opened
        try:
            await start_services(opened)
            yield
        finally:
            await stop_services(opened)

    app = FastAPI(title="Hindcast", lifespan=lifespan, docs_url=None, redoc_url=None)
    if settings.identities is None and settings.client_ca is None and is_loopback(settings.host):
        # Any process that reaches the address may write, and any web page can make a browser on this machine reach it.
        app.add_middleware(OwnNames, names=frozenset({settings.host}))
    app.add_middleware(RequestIds)
    error_answers.install(app)
    app.include_router(audit.router)
    app.include_router(admission.router)
    app.include_router(health.router)
    return app
