"""The search of the site without a server: a browser reads neither data nor workers from a folder, and scripts it does.

The theme asks for `search.js` in place of `search.json` where a page comes from a folder, and starts a worker by its address. So
this script holds the index, and the text of the worker.
"""

from __future__ import annotations

import json
from pathlib import Path

_WORKER = """
(() => {
  const text = %s;
  const Plain = window.Worker;
  window.Worker = class extends Plain {
    constructor(address, options) {
      const own = () => URL.createObjectURL(new Blob([text], {type: "text/javascript"}));
      super(/\\/workers\\/search\\./.test(address) ? own() : address, options);
    }
  };
})();
"""


def write_script(site: Path) -> None:
    """Write `search.js` next to the index. Raises ValueError where the theme's files are not as they were."""
    workers = list(site.glob("assets/javascripts/workers/search.*.js"))
    bundles = [path.read_text(encoding="utf-8") for path in site.glob("assets/javascripts/bundle.*.js")]
    if len(workers) != 1 or not all('"search.js"' in text and "__index" in text for text in bundles) or not bundles:
        raise ValueError("the theme searches in another way: see how it reads its index from a folder")
    index = (site / "search.json").read_text(encoding="utf-8")
    worker = json.dumps(workers[0].read_text(encoding="utf-8"))
    (site / "search.js").write_text(f"var __index = {index};{_WORKER % worker}", encoding="utf-8")
