"""Pages that are sections of README.md, so that no text has two places."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
SECTIONS = {
    "first-report.md": "A first report in five minutes",
    "your-cluster.md": "Your own cluster",
    "decide.md": "From a verdict to a decision",
    "roles.md": "The smallest roles for what a user did",
    "webhooks.md": "Webhooks and definitions",
    "server.md": "Running the server",
    "python.md": "Python",
}
_LINKS = {"CHANGELOG.md": "changelog.md"}


def pages() -> dict[str, str]:
    """The pages by file name. Raises KeyError for a section that README.md does not have."""
    found = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    return {file: f"# {title}\n{_linked(found[title])}" for file, title in SECTIONS.items()}


def _linked(text: str) -> str:
    """The text with links as seen from docs/."""
    return re.sub(r"\]\((?:docs/)?([\w./-]+\.md)(#[\w-]+)?\)", lambda hit: f"]({_LINKS.get(hit[1], hit[1])}{hit[2] or ''})", text)
