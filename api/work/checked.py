"""Reads the manifests of an order before its job starts, so that the answer to a broken text does not depend on time."""

from __future__ import annotations

from ..commands.policies import parse_policies
from ..given import given_of
from ..posted import check_posted
from .gating import GateQuestion
from .jobs import Order


def check_order(order: Order) -> None:
    """Raise InputError, with the line, for a text that is not YAML or JSON, and for manifests that no stage can read."""
    question = GateQuestion.from_json(order.gate) if order.gate else None
    versions = (question.policies, question.against) if question else ((("policies", order.policies),),)
    for texts in filter(None, versions):
        for name, text in texts:
            check_posted(text, name)
        if given_of(texts).judges_policies:
            parse_policies(texts)
