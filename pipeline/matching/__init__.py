"""Decides whether a request matches a policy, a binding or a webhook. Knows no CEL.

`match(criteria, request, world)` answers yes, no or unknown, and always says why.
"""

from .equivalence import Conversion, Equivalent, equivalents
from .match import Match, Matcher, MatchResources, match
from .rules import Rule, Target, is_excluded, is_review
from .selectors import EVERYTHING, LabelSelector, Requirement, SelectorError, labels_of, selector_from_object

__all__ = [
    "EVERYTHING",
    "Conversion",
    "Equivalent",
    "LabelSelector",
    "Match",
    "MatchResources",
    "Matcher",
    "Requirement",
    "Rule",
    "SelectorError",
    "Target",
    "equivalents",
    "is_excluded",
    "is_review",
    "labels_of",
    "match",
    "selector_from_object",
]
