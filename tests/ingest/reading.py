"""The values of a file as ingest reads them, without a lake."""

from __future__ import annotations

from ingest.sources.forms import form_of


def values_of(data: bytes) -> list[bytes]:
    """The lines that the form of `data` gives. Its form must be known."""
    form = form_of(data)
    assert form is not None
    lines = data if form.translate is None else b"".join(form.translate(data)("FILE", iter([data])))
    return lines.split(b"\n")
