"""The type checker of CEL, and what it rejects."""
