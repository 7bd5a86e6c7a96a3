"""The stage of admission webhooks: which recorded requests the webhooks of given configurations would have been called for.

`configurations_of` reads manifests, `Chain` holds the webhooks in the order of calls, and `calls_of` decides about one request. No
webhook is asked: its answers are known only where the log shows them.
"""

from .calling import Call, Called, Subject, calls_of
from .decode import configuration_from_object, configurations_of
from .model import Chain, Configuration, Phase, Webhook
from .trace import Trace, trace_of

__all__ = [
    "Call",
    "Called",
    "Chain",
    "Configuration",
    "Phase",
    "Subject",
    "Trace",
    "Webhook",
    "calls_of",
    "configuration_from_object",
    "configurations_of",
    "trace_of",
]
