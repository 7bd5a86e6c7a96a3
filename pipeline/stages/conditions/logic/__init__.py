"""Formulas over labels and fields, and the proofs about them."""
