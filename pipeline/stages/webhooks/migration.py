"""A webhook compared with the policy that shall replace it, request by request.

What the webhook said is recorded, as far as it left a trace or the request went on; what the policy says is replayed on the object
that validating admission saw. Agreement is about the recorded requests, and the bound says how much disagreement they leave open.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ingest.counted import counted
from queries import LakeReader

from .sql import statement

BOTH_ALLOW, BOTH_DENY = "both allow", "both deny"
STRICTER, LOOSER = "policy stricter", "policy looser"
DENIED_ERROR = "webhook denies, policy error"
# The cells of the matrix, as a reader needs them: disagreement first.
CELLS = (
    LOOSER,
    STRICTER,
    "only the policy matches, and denies",
    DENIED_ERROR,
    "webhook allows, policy error",
    BOTH_DENY,
    BOTH_ALLOW,
    "only the webhook matches",
    "only the policy matches",
    "policy unknown",
    "webhook unknown",
    "webhook unknown, policy does not match",
)


class Witness(NamedTuple):
    """Requests of one cell with one message; see sql/migration_cells.sql."""

    cell: str
    operation: str
    resource: str
    message: str
    requests: int
    same_message: int
    units: int
    example: str


class Pair(NamedTuple):
    """Equal requests that the webhook answered differently; see sql/migration_pairs.sql."""

    resource: str
    namespace: str
    name: str
    user: str
    allowed: str
    denied: str
    requests: int


class Comparison(NamedTuple):
    """A webhook and a policy over the same requests. `units` are independent ones; `disagreeing` of them disagree."""

    witnesses: tuple[Witness, ...]
    pairs: tuple[Pair, ...]
    units: int
    disagreeing: int

    def requests(self, *cells: str) -> int:
        """How many requests are in some cells."""
        return sum(each.requests for each in self.witnesses if each.cell in cells)

    @property
    def decided(self) -> int:
        """Requests that both decided."""
        return self.requests(BOTH_ALLOW, BOTH_DENY, STRICTER, LOOSER)

    @property
    def same_message(self) -> int:
        """Of the requests that both deny, those with the same message."""
        return sum(each.same_message for each in self.witnesses if each.cell == BOTH_DENY)


def compare(
    reader: LakeReader, webhook_verdicts: Path, policy_verdicts: Path, webhook: str, configuration: str | None = None
) -> Comparison:
    """Compare a recorded webhook with a policy. Both paths hold verdicts of finished runs over this lake."""
    connection = reader.connection
    parameters = {
        "webhook_verdicts": str(webhook_verdicts),
        "policy_verdicts": str(policy_verdicts),
        "webhook": webhook,
        "configuration": configuration,
    }
    connection.execute(statement("migration"), parameters)
    found = [Witness(*row) for row in connection.execute(statement("migration_cells")).fetchall()]
    found.sort(key=lambda each: (CELLS.index(each.cell), -each.requests))
    pairs = tuple(Pair(*row) for row in connection.execute(statement("migration_pairs")).fetchall())
    units, disagreeing = connection.execute(statement("migration_units")).fetchall()[0]
    return Comparison(tuple(found), pairs, units, disagreeing)


def claim(found: Comparison, bound: float) -> Sequence[str]:
    """The sentences that the requests allow about a comparison. `bound` is of the rate of disagreeing units, at 95 %."""
    denials = found.requests(BOTH_DENY, LOOSER)
    disagreement = found.requests(STRICTER, LOOSER)
    words = ["no request was decided by both"]
    if found.decided:
        disagreements = f"{disagreement:,} disagreement{'' if disagreement == 1 else 's'}" if disagreement else "no disagreement"
        words = [
            f"{disagreements} in {counted(found.decided, 'request')} that both decided, {denials:,} of them denials of the webhook",
            f"in {found.units:,} units (user, namespace, resource) the rate of disagreement is below {bound:.2%} (95 % confidence)",
        ]
    if not denials + found.requests(DENIED_ERROR):
        words.append("the log holds no denial of the webhook: nothing shows whether the policy denies what the webhook denies")
    if found.pairs:
        words.append(f"the webhook is no function of the request: {len(found.pairs):,} times equal requests got different answers")
    unknown = found.requests("policy unknown", "webhook unknown")
    if unknown:
        words.append(f"{counted(unknown, 'request is', 'requests are')} left out, because one of the two answers is unknown")
    return words


def denials_since(reader: LakeReader, webhook: str, policies: Sequence[str]) -> int:
    """How many requests a webhook denied since policies of these names, and their bindings, were last written."""
    parameters = {"webhook": webhook, "policies": sorted(policies)}
    count: int = reader.connection.execute(statement("denials_since"), parameters).fetchall()[0][0]
    return count
