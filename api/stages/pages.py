"""What a stage alone has on the page of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.policies.verdict import STAGE
from pipeline.stages.conditions.ruling import NAME as CONDITIONS
from pipeline.stages.registry import MUTATING, WEBHOOKS
from pipeline.stages.schema.replay.rows import NAME as SCHEMA

from ..ask.reads import Source
from ..pages.tables import Asked
from ..stored_runs import Run
from .conditions.page import chain_tables
from .mutating.page import mutating_tables
from .schema.page import schema_tables
from .webhooks.load_page import load_of_run, outage_of_run


@dataclass(frozen=True)
class OwnParts:
    """Figures by name, and tables by name: those that come before, between and after the tables of every stage."""

    figures: Mapping[str, Any]
    first: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)
    last: Mapping[str, Any] = field(default_factory=dict)


def own_parts(source: Source, run: Run, asked: Asked) -> OwnParts:
    """The parts of a finished replay that only its stage has."""
    has_load = run.stage == WEBHOOKS.name
    calls, load = load_of_run(source, run, asked) if has_load else (None, {})
    outage, outages = outage_of_run(source, run, asked) if has_load else (None, {})
    is_of_chains = run.stage == CONDITIONS
    tables = {
        **(schema_tables(source, run.run_id, asked) if run.stage == SCHEMA else {}),
        **(mutating_tables(source, run.run_id, asked) if run.stage == MUTATING.name else {}),
    }
    figures = {"has_load": has_load, "is_of_chains": is_of_chains, "calls": calls, "outage": outage}
    return OwnParts(figures, {**load, **outages}, tables, chain_tables(source, run.run_id, asked) if is_of_chains else {})


def is_of_policies(run: Run) -> bool:
    """Whether a replay judged policies, so that readiness reports and pages of policies are about it."""
    return run.stage == STAGE
