# Every target makes its own environment; nothing but Python 3.11+, git and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench crash conformance notebooks clean

# The stamp holds the inputs that decide the environment's content.
$(VENV)/.stamp: pyproject.toml constraints.txt dev-requirements.txt
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt -r dev-requirements.txt -e . ; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r dev-requirements.txt -e . ; \
	fi
	@touch $@

demo: $(VENV)/.stamp
	$(BIN)/hindcast demo

# One process per core; the tests of one file stay together, because they share what they set up.
test: $(VENV)/.stamp
	$(BIN)/python -m pytest -n auto --dist loadfile

check: $(VENV)/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.stamp
	$(BIN)/python -m tests.benchmarks

# An hour at most: every fault at every system call, then hundreds of kills of the real server. `make test` has a short form of both.
crash: $(VENV)/.stamp
	$(BIN)/python -m tests.crash walk --pairs 100
	$(BIN)/python -m tests.crash rounds --rounds 300

conformance: $(VENV)/.stamp
	$(BIN)/python -m pytest tests/conformance -m conformance -s

# Runs all four on the bundled log; the results, with their pictures, are in demo-out/notebooks. `make lab` opens them to work in.
notebooks: $(VENV)/.stamp
	@mkdir -p demo-out/notebooks
	@test -e demo-out/lake || $(BIN)/hindcast --quiet demo --lake-only
	$(BIN)/python -m jupyter execute notebooks/*.ipynb --output=$(CURDIR)/demo-out/notebooks/{notebook_name}

lab: $(VENV)/.stamp
	@if command -v uv >/dev/null 2>&1; then uv pip install --quiet --python $(BIN)/python -c constraints.txt -e ".[notebooks]" ; \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[notebooks]" ; fi
	$(BIN)/jupyter lab notebooks

clean:
	rm -rf $(VENV) demo-out bench-out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
