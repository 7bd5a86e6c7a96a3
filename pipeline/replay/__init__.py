"""Replay: plan, run, compare."""

from .execute import run_replay, runs_folder
from .plan import ReplayPlan, Window, plan_replay
from .recorded import plan_replay_from_log
from .summary import BindingSummary, RunSummary
from .verdicts import VERDICTS

__all__ = [
    "VERDICTS",
    "BindingSummary",
    "ReplayPlan",
    "RunSummary",
    "Window",
    "plan_replay",
    "plan_replay_from_log",
    "run_replay",
    "runs_folder",
]
