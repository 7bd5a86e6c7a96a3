"""Explanations of one verdict: the values that decided, and the smallest change that would pass."""
