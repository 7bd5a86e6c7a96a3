"""Custom resource schemas: what an API server makes of a definition, and of an object under a definition."""
