"""Who may write and who may read: names, tokens and certificates."""
