"""The stages of admission in the order of the API server: one answer for each recorded request.

A folder of manifests is added to the policies in force. The first refusal is the answer. Later stages see what a mutation changes.
"""
