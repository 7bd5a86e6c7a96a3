"""The figures of a report: whom denials hit, how often, and with which bounds."""
