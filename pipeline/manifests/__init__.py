"""Manifests as kubectl reads them: files, documents with the lines of their fields, and typed fields."""
