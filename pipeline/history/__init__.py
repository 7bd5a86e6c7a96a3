"""The input of admission and the state of the cluster at the time: recorded audit events turned back into admission requests.

rows of events -> record() -> LogVersions ---+
                                             +-> admission_requests() -> AdmissionRequest | NotReplayed
rows of events and objects -> LogHistory ----+-> at(cluster, ts) -> World; PolicyTimeline -> policies in force
"""

from .event import Event
from .in_force import CHANGE_DELAY, InForce, PolicyTimeline
from .outcome import Admission
from .reconstruct import Discovery, NotReplayed, admission_requests, intended_write
from .snapshots import snapshot_versions
from .versions import LogVersions, Versions
from .world import NEEDED, LogHistory, LogWorld
from .writes import record

__all__ = [
    "CHANGE_DELAY",
    "NEEDED",
    "Admission",
    "Discovery",
    "Event",
    "InForce",
    "LogHistory",
    "LogVersions",
    "LogWorld",
    "NotReplayed",
    "PolicyTimeline",
    "Versions",
    "admission_requests",
    "intended_write",
    "record",
    "snapshot_versions",
]
