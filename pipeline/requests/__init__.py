"""Recorded requests with their evidence. Knows no manifest."""
