# Every target makes its own environment; nothing but Python 3.11+, git and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench crash conformance notebooks kustomize docs clean

# The stamp holds the inputs that decide the environment's content.
$(VENV)/.stamp: pyproject.toml constraints.txt ray-constraints.txt dev-requirements.txt tools-requirements.txt
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt -c ray-constraints.txt -r dev-requirements.txt -e . && \
	  uv pip install --quiet --python $(BIN)/python --no-deps -c constraints.txt -r tools-requirements.txt ; \
	else \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -c ray-constraints.txt -r dev-requirements.txt -e . && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt -r tools-requirements.txt ; \
	fi
	@touch $@

demo: $(VENV)/.stamp
	$(BIN)/hindcast demo

# One process more than cores; the tests of one file stay together, because they share what they set up. The longest files come
# first: see tests/conftest.py.
# Bytecode is kept, even if the environment says otherwise: without it every process compiles every module once more.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.stamp
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

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

# The kustomize base is what the chart renders; a test compares them.
kustomize: $(VENV)/.stamp
	$(BIN)/python -m tests.deploy.kustomize

# The documentation site, in demo-out/docs. It needs no network, neither to build nor to read.
docs: $(VENV)/.stamp
	$(BIN)/python -m docs.generator

# Runs all of them on the bundled log; the results, with their pictures, are in demo-out/notebooks. `make lab` opens them to work in.
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
