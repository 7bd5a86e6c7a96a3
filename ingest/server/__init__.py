"""The files of an API server: its audit policy, its log and its metrics."""
