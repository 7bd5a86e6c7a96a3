"""Replay: plan, run, compare."""

from .compare import Agreement, compare_with_log, disagreements
from .difference import ExpressionDifference, difference
from .execute import run_replay, runs_folder
from .plan import ReplayPlan, Window, plan_replay
from .recorded import plan_replay_from_log, policies_as_of
from .summary import BindingSummary, RunSummary
from .verdicts import VERDICTS

__all__ = [
    "VERDICTS",
    "Agreement",
    "BindingSummary",
    "ExpressionDifference",
    "ReplayPlan",
    "RunSummary",
    "Window",
    "compare_with_log",
    "difference",
    "disagreements",
    "plan_replay",
    "plan_replay_from_log",
    "policies_as_of",
    "run_replay",
    "runs_folder",
]
