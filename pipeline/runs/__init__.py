"""The runs of a lake: what each was asked for, whether it is complete, and its files."""

from .kinds import RunKind
from .store import RunStore, StoredRun
from .summary import BindingSummary, Defect, RunSummary

__all__ = ["BindingSummary", "Defect", "RunKind", "RunStore", "RunSummary", "StoredRun"]
