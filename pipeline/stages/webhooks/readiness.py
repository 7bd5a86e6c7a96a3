"""What readiness needs to know of webhooks: what they would answer is unknown, unless the log shows it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from queries import LakeReader

from ...cel.minors import DEFAULT
from ...explaining.asked import Asked
from ...explaining.explanation import Told
from ...manifests.documents import Document
from ...requests.authorizers import other_authorizers
from ...runs.window import Window
from ...tables import Table
from ..as_of import AsOf
from ..grouped import GroupedPlan
from ..over_time import OverTime
from ..readiness import Agreed, Place, StageReadiness, StageWords
from .agreement import recorded_agreement
from .as_of import configurations_before, manifests_as_of
from .exempting import WebhookExemptions
from .explain import explain_webhooks
from .interception import interception, reasons
from .load import loads
from .model import AsRecorded, Chain
from .outage import whole_outage
from .over_time import calls_over_time, outage_over_time
from .tables import interception_tables


class WebhookReadiness(StageReadiness[Any, GroupedPlan[Any]]):
    """See StageReadiness."""

    words = StageWords(
        "webhooks",
        "Webhook readiness",
        "ValidatingWebhookConfiguration, MutatingWebhookConfiguration",
        thing="webhook",
        part="webhook",
        passes=("lets it pass", "let it pass"),
        remedy="See that the servers of the webhooks answer, or narrow their rules, selectors or match conditions",
    )
    in_log = True
    # A trace says what a called webhook did: see trace.py. A request that ended before a webhook does not concern it, nor one that
    # something else refused, whatever this webhook would have answered.
    counted = """
        WITH told AS (
            SELECT
                *,
                CASE
                    WHEN decision = 'unreached' THEN 'nomatch'
                    WHEN effect = 'deny' AND decision = 'called' THEN 'deny'
                    WHEN decision = 'called' AND recorded = 'failed closed' AND flip = 'newly-allowed' THEN 'admit'
                    WHEN decision = 'called' AND recorded IN ('denied', 'failed closed') THEN 'refused'
                    WHEN decision IN ('called', 'unknown') AND recorded IS NULL AND detail ->> '$.refused' = 'true' THEN 'nomatch'
                    WHEN decision = 'called' AND recorded IS NULL THEN 'unknown'
                    ELSE decision
                END AS counts
            FROM given
        )
        SELECT * EXCLUDE counts REPLACE (
            CASE counts WHEN 'refused' THEN 'deny' ELSE counts END AS decision,
            CASE counts WHEN 'refused' THEN 'deny' ELSE effect END AS effect,
            CASE counts WHEN 'refused' THEN 'still-denied' ELSE flip END AS flip,
            CASE WHEN counts = 'unknown' THEN coalesce(why, detail ->> '$.unanswered') ELSE why END AS why,
            bypasses_actions OR counts = 'refused' AS bypasses_actions
        )
        FROM told
    """

    def agreement(self, reader: LakeReader, plan: GroupedPlan[Any]) -> Sequence[Agreed]:
        """The traces of recorded webhooks against a replay of the webhooks that the log shows in force."""
        return recorded_agreement(reader, plan.window, plan.kubernetes_version, dict(plan.other_authorizers))

    def prepare(self, reader: LakeReader) -> None:
        """See StageReadiness: how far the webhooks of the time agree with the record."""
        recorded_agreement(reader, Window(), DEFAULT, dict(other_authorizers(reader, Window(), None)))

    def over_time(self, reader: LakeReader, verdicts: Path, window: Window, rules: Any) -> Sequence[OverTime]:
        """The calls, and an outage of all servers for the whole time. The webhooks of the log have no chart of an outage."""
        calls = calls_over_time(loads(reader, verdicts, window, with_bytes=False))
        broken = whole_outage(reader, verdicts, rules) if isinstance(rules, tuple) else None
        return [each for each in (calls, outage_over_time(broken) if broken is not None else None) if each is not None]

    exemptions = WebhookExemptions()

    def uncompilable(self, rules: Any, version: tuple[int, int]) -> Sequence[tuple[str, str]]:
        """See StageReadiness: the match conditions."""
        hooks = Chain(rules, version).webhooks if isinstance(rules, tuple) else ()
        return [(each.source, each.error) for hook in hooks for each in hook.conditions.errors]

    def explain(self, reader: LakeReader, rules: Any, asked: Asked) -> Sequence[Told]:
        """See StageReadiness."""
        return explain_webhooks(reader, AsRecorded.RULES if rules is None else rules, asked)

    def recorded(self, reader: LakeReader, cluster: str, moment: datetime) -> AsOf[Document]:
        """See StageReadiness."""
        return manifests_as_of(reader, cluster, moment)

    def tables(self, reader: LakeReader, title: str, verdicts: Path) -> Sequence[Table]:
        """See StageReadiness: webhooks are called or not."""
        return interception_tables(title, interception(reader, verdicts), reasons(reader, verdicts))

    def as_of(self, reader: LakeReader, cluster: str, moment: datetime, rules: Any, replaces_all: bool) -> Any:
        """See StageReadiness."""
        return configurations_before(reader, cluster, moment, rules, replaces_all)

    def places(self, rules: Any) -> Sequence[Place]:
        """Where each configuration is written."""
        return [Place(each.name, each.source) for each in rules if each.source]
