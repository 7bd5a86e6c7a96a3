"""The Kubernetes minor versions whose CEL is known. Commands name them in their help, and load no language for that."""

OLDEST, NEWEST = (1, 30), (1, 37)
