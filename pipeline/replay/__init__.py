"""Replay: plan, run, compare."""

from .compare import Agreement, compare_with_log, disagreements
from .execute import run_replay, runs_folder
from .plan import ReplayPlan, Window, plan_replay
from .recorded import plan_replay_from_log
from .summary import BindingSummary, RunSummary
from .verdicts import VERDICTS

__all__ = [
    "VERDICTS",
    "Agreement",
    "BindingSummary",
    "ReplayPlan",
    "RunSummary",
    "Window",
    "compare_with_log",
    "disagreements",
    "plan_replay",
    "plan_replay_from_log",
    "run_replay",
    "runs_folder",
]
