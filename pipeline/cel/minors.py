"""The Kubernetes minor versions whose CEL is known. Commands name them in their help, and load no language for that."""

from typing import Final

OLDEST: Final = (1, 30)
NEWEST: Final = (1, 37)
DEFAULT: Final = (1, 36)  # of a server whose version is not given
EVERY: Final = tuple((1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1))


def words_of(version: tuple[int, int]) -> str:
    """A version as people write it: `1.36`."""
    return f"{version[0]}.{version[1]}"
