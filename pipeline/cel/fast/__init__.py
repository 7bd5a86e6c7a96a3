"""The fast tier: an expression as generated Python."""
