"""The cost of an expression: bounds and estimates before it runs, and the metered cost of a run."""
