"""What recorded failures can be counted by."""

from __future__ import annotations

# The arguments of the macro `violation_rollup`, in the order of its columns.
DIMENSIONS = ("policy", "binding", "message", "namespace", "user", "resource", "workload", "day", "cluster")
