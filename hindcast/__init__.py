"""Hindcast in notebooks and scripts: everything that these need is a name of this module.

import hindcast

lake = hindcast.open_lake("demo-out/lake")
lake.violations().pl()
report = hindcast.readiness("demo-out/lake", [Path("my-policies")])
hindcast.frames(report)["policies"]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline import compare_with_log, load_policy_set, parse_policy_set, plan_replay, plan_replay_from_log, run_replay
    from pipeline.calls import Replay, frames, readiness, replay, rollout, rows
    from pipeline.manifests.files import manifests_of
    from pipeline.readiness import Judgement, ReadinessRules, decide_again, judge, outcomes_of, verdicts_of
    from pipeline.readiness.report import Report
    from pipeline.report.html import to_html
    from pipeline.report.markdown import to_markdown
    from pipeline.runs.window import Window
    from pipeline.stages.conditions.decode import chains_of
    from pipeline.stages.conditions.explain import explain as explain_chain
    from pipeline.stages.schema.replay.figures import figures as field_figures
    from pipeline.stages.stage import Asked
    from pipeline.stages.webhooks.as_of import configurations_as_of
    from pipeline.stages.webhooks.behaviour import behaviour as webhook_behaviour
    from pipeline.stages.webhooks.load import loads as webhook_loads
    from pipeline.stages.webhooks.outage import outage as webhook_outage
    from queries import LakeReader, open_lake, view_names

# Where each name is; loaded on first use, because most scripts need few of them. Another name there stands after a colon.
_PUBLIC = {
    "Asked": "pipeline.stages.stage",
    "Judgement": "pipeline.readiness",
    "LakeReader": "queries",
    "ReadinessRules": "pipeline.readiness",
    "Replay": "pipeline.calls",
    "Report": "pipeline.readiness.report",
    "Window": "pipeline.runs.window",
    "chains_of": "pipeline.stages.conditions.decode",
    "compare_with_log": "pipeline",
    "configurations_as_of": "pipeline.stages.webhooks.as_of",
    "decide_again": "pipeline.readiness",
    "explain_chain": "pipeline.stages.conditions.explain:explain",
    "field_figures": "pipeline.stages.schema.replay.figures:figures",
    "frames": "pipeline.calls",
    "judge": "pipeline.readiness",
    "load_policy_set": "pipeline",
    "manifests_of": "pipeline.manifests.files",
    "open_lake": "queries",
    "outcomes_of": "pipeline.readiness",
    "parse_policy_set": "pipeline",
    "plan_replay": "pipeline",
    "plan_replay_from_log": "pipeline",
    "readiness": "pipeline.calls",
    "replay": "pipeline.calls",
    "rollout": "pipeline.calls",
    "rows": "pipeline.calls",
    "run_replay": "pipeline",
    "to_html": "pipeline.report.html",
    "to_markdown": "pipeline.report.markdown",
    "verdicts_of": "pipeline.readiness",
    "view_names": "queries",
    "webhook_behaviour": "pipeline.stages.webhooks.behaviour:behaviour",
    "webhook_loads": "pipeline.stages.webhooks.load:loads",
    "webhook_outage": "pipeline.stages.webhooks.outage:outage",
}

__all__ = [
    "Asked",
    "Judgement",
    "LakeReader",
    "ReadinessRules",
    "Replay",
    "Report",
    "Window",
    "chains_of",
    "compare_with_log",
    "configurations_as_of",
    "decide_again",
    "explain_chain",
    "field_figures",
    "frames",
    "judge",
    "load_policy_set",
    "manifests_of",
    "open_lake",
    "outcomes_of",
    "parse_policy_set",
    "plan_replay",
    "plan_replay_from_log",
    "readiness",
    "replay",
    "rollout",
    "rows",
    "run_replay",
    "to_html",
    "to_markdown",
    "verdicts_of",
    "view_names",
    "webhook_behaviour",
    "webhook_loads",
    "webhook_outage",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, other = _PUBLIC[name].partition(":")
    return getattr(importlib.import_module(module), other or name)


def __dir__() -> list[str]:
    return sorted(__all__)
