"""The table of empty fields names fields that the published schemas have."""

from __future__ import annotations

from pipeline.openapi import built_in_documents, go_fields
from pipeline.openapi.written import is_written_here

SCHEMAS = {
    name.rpartition(".")[2]: schema
    for each in built_in_documents()
    for name, schema in each["components"]["schemas"].items()
    if not is_written_here(name)
}


def test_each_field_of_the_table_is_published_and_optional_or_required_as_it_says() -> None:
    """A slip in a name would silently do nothing."""
    for struct, field in go_fields._POINTERS | go_fields._PLAIN_NUMBERS:
        schema = SCHEMAS[struct]
        assert field in schema["properties"], (struct, field)
        assert field not in schema.get("required", ()), (struct, field)
    for struct, field in go_fields._POINTERS:
        assert SCHEMAS[struct]["properties"][field]["type"] in ("string", "boolean"), (struct, field)
    for struct, field in go_fields._PLAIN_NUMBERS:
        assert SCHEMAS[struct]["properties"][field]["type"] in ("integer", "number"), (struct, field)
    for struct, field in go_fields._REQUIRED_AND_OMITTED:
        assert field in SCHEMAS[struct]["required"], (struct, field)
    for struct, field in go_fields._LISTS_WRITTEN | go_fields._TEXTS_WRITTEN:
        assert field in SCHEMAS[struct]["properties"], (struct, field)
