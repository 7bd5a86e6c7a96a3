"""What the built-in validation says of fields that mutating policies changed: cited rules, a file per group of kinds.

A rule says which fields it knows, and yields the errors that the server would have. What no rule knows stays in doubt.
"""
