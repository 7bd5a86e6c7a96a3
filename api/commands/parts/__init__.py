"""Parts that commands share, and steps too large for the file of their command."""
