"""The schemas of built-in kinds that come with Hindcast.

`kubernetes-1.36.json` holds what an API server 1.36.2 published at `/openapi/v3` for core/v1, apps/v1 and autoscaling/v1, without
descriptions and without paths. `written.py` has six groups more. Fields differ little between minor versions.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from .schemas import Schemas
from .written import written_document

_FILE = "kubernetes-1.36.json"


@cache
def built_in_documents() -> tuple[dict[str, Any], ...]:
    """One OpenAPI v3 document; its `paths` say only which kind each resource has."""
    document = json.loads(resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8"))
    more = written_document()
    document["paths"] |= more["paths"]
    document["components"]["schemas"] |= more["components"]["schemas"]
    return (document,)


@cache
def built_in_schemas() -> Schemas:
    """The built-in kinds and their schemas; no custom resource is among them."""
    return Schemas((), built_in_documents())
