"""The authorization stage: which permissions a recorded request needed, and whether other roles and bindings would give them.

`needs_of` reads the permissions from an event, and `meet` asks roles and bindings for one of them. The evaluator of single
questions is `pipeline.authorization`.
"""

from .needs import Ask, Grant, Met, Need, NeedKind, meet
from .questions import Identity, identity_of, needs_of, refusal_of

__all__ = ["Ask", "Grant", "Identity", "Met", "Need", "NeedKind", "identity_of", "meet", "needs_of", "refusal_of"]
