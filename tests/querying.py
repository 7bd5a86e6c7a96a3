"""Asks the query application in this process, its event loop in a thread of its own."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal

from api.ask.query_app import create_query_app
from api.settings import Settings

API = "/api/v1"
ORIGIN = "http://127.0.0.1:7444"
_PATIENCE_SECONDS = 300.0


class QueryClient:
    """One life of the application; leaving the context ends it in order."""

    def __init__(self, settings: Settings, **headers: str) -> None:
        self.app = create_query_app(settings)
        self._headers = headers
        self._entering = start_blocking_portal()

    def __enter__(self) -> QueryClient:
        self._portal = self._entering.__enter__()
        self._lifespan = self._portal.wrap_async_context_manager(self.app.router.lifespan_context(self.app))
        self._lifespan.__enter__()
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers=self._headers, timeout=60)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._portal.call(self._client.aclose)
        self._lifespan.__exit__(kind, error, trace)
        self._entering.__exit__(kind, error, trace)

    def send(self, method: str, path: str, **given: Any) -> httpx.Response:
        """One request, whatever comes of it; `path` is below the API's prefix unless it begins with `http`."""
        url = path if path.startswith("http") else f"{API}{path}"

        async def ask() -> httpx.Response:
            return await self._client.request(method, url, **given)

        return self._portal.call(ask)

    def get(self, path: str, **given: Any) -> Any:
        """The JSON of an answer that must be 200; keywords are query parameters."""
        response = self.send("GET", path, params=given)
        assert response.status_code == 200, (response.status_code, response.text)
        return response.json()

    def refused(self, path: str, **given: Any) -> tuple[int, dict[str, str]]:
        """The status and the error of an answer."""
        response = self.send("GET", path, params=given)
        return response.status_code, response.json()["error"]

    def rows(self, path: str, **given: Any) -> list[dict[str, Any]]:
        """All rows, page after page."""
        found: list[dict[str, Any]] = []
        after: dict[str, str] = {}
        while True:
            page = self.get(path, **given, **after)
            found += page["rows"]
            if page["next"] is None:
                return found
            after = {"after": page["next"]}

    def ended(self, job_id: str) -> dict[str, Any]:
        """A job of replay once it ended, well or not."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            job: dict[str, Any] = self.get(f"/replays/{job_id}")
            if job["state"] in ("finished", "failed", "cancelled"):
                return job
            time.sleep(0.1)
        raise AssertionError(f"the replay did not end: {job}")

    def replayed(self, manifests: str, **given: Any) -> dict[str, Any]:
        """The finished job of a replay of manifests; keywords are query parameters."""
        response = self.send("POST", "/replays", params=given, headers={"Content-Type": "application/yaml"}, content=manifests)
        assert response.status_code == 202, response.text
        job = self.ended(response.json()["job_id"])
        assert job["state"] == "finished", job
        return job

    def page(self, path: str, *, is_explained: bool = False) -> str:
        """A page, once its verdicts are computed, and with `is_explained` its explanation, too."""
        awaited = ["Hindcast computes the verdicts", *(["Hindcast computes the explanation"] if is_explained else [])]
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            response = self.send("GET", f"{ORIGIN}{path}")
            assert response.status_code == 200, response.text
            if not any(words in response.text for words in awaited):
                return response.text
            time.sleep(0.2)
        raise AssertionError(f"{path} still computes what it shows")
