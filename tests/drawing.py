"""How many examples the widest properties draw.

In `make test` the examples are those of the test's own text, so the next hundreds would prove what the first prove. `make search`
draws others each time, and many.
"""

from __future__ import annotations

from hypothesis import settings

MANY = max(150, settings.default.max_examples if settings.default is not None else 0)
