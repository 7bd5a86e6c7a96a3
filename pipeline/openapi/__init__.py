"""Schemas of kinds, as OpenAPI v3 describes them: those of built-in kinds come with Hindcast, others from documents of a cluster.

`built_in_schemas()` answers which kinds a resource has, and the schema of each kind with its list types, keys and map types.
"""

from .built_in import built_in_documents, built_in_schemas
from .schemas import Schema, Schemas

__all__ = ["Schema", "Schemas", "built_in_documents", "built_in_schemas"]
