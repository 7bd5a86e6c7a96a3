"""The ways in that are not a webhook: files, exports, object stores and snapshots."""
