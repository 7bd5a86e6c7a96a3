"""The checks of the Pod Security Standards: each version of each, with the texts of k8s.io/pod-security-admission (policy).

Each file is one check or two that share a rule. table.py lists all, and says which of them a level has at a version.
"""
