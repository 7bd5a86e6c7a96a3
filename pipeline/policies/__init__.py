"""What the stages of CEL share: policies as a model, their inputs and limits, and how they are compiled, evaluated and traced."""

from ingest.user_cache import user_cache

from ..cel.syntax import tables

tables.kept_in = user_cache
