"""Credentials are taken out of events before they are stored."""
