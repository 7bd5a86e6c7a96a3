"""Ask the lake: DuckDB views over recorded audit events, and thin typed access to them.

reader = open_lake("lake")
reader.violation_rollup(["policy", "namespace"]).show()
"""

from .lake import DIMENSIONS, LakeReader, open_lake, rollup_columns, rows_of, view_names

__all__ = ["DIMENSIONS", "LakeReader", "open_lake", "rollup_columns", "rows_of", "view_names"]
