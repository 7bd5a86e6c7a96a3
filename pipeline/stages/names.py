"""Names of stages that options of commands show. To read them here loads no stage; a test compares them with the registry."""

from __future__ import annotations

# The stage that is meant where none is named.
DEFAULT = "validating"
# The stages whose rules the log shows.
IN_LOG = ("validating", "mutating", "webhooks", "pod-security")
