# Every target makes its own environment; nothing but Python 3.11+, git and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo quick test seconds counted compare-counted search check bench crash conformance notebooks kustomize docs picture dist clean

# uv makes an environment and installs packages many times faster than pip does. Without uv on the machine it goes into the
# environment; where it cannot be had, or fails (a proxy that only pip knows, say), pip does the work.
ifneq ($(shell command -v uv 2>/dev/null),)
UV := uv
create = uv venv --quiet --allow-existing --seed --python $(PYTHON) $(VENV)
else
UV := $(BIN)/uv
create = $(PYTHON) -m venv $(VENV) && { $(BIN)/python -m pip install $(PIP) -c constraints.txt uv || true; }
endif
PIP := --quiet --disable-pip-version-check
# `$(call install,ARGUMENTS)`. Bytecode is compiled at once: some environments forbid to write it later.
install = { $(UV) pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt $(1) || \
	$(BIN)/python -m pip install $(PIP) -c constraints.txt $(1); }
# The processes that run tests; `auto` is one more than cores.
WORKERS ?= auto
# What the tests need in addition to the application. The checks of CI on other Pythons run few folders, and take less.
TEST_REQUIREMENTS ?= test-requirements.txt
# Bytecode is kept, even if the environment says otherwise: without it every process compiles every module once more.
export PYTHONDONTWRITEBYTECODE =

# Each stamp is newer than the files that decide what was installed. The first one is the application alone: it is all that the
# demonstration needs. What the tests need comes on top of it, and what only those need who change the code.
$(VENV)/.core: pyproject.toml constraints.txt
	@$(create)
	@$(call install,-e .)
	@touch $@

$(VENV)/.tests: $(VENV)/.core $(TEST_REQUIREMENTS) ray-constraints.txt tools-requirements.txt
	@$(call install,-c ray-constraints.txt -r $(TEST_REQUIREMENTS))
	@$(call install,--no-deps -r tools-requirements.txt)
	@touch $@

$(VENV)/.checks: $(VENV)/.tests check-requirements.txt
	@$(call install,-r check-requirements.txt)
	@touch $@

demo: $(VENV)/.core
	$(BIN)/hindcast demo

# The checks that the changed files can reach, in at most two minutes; it says what it left out. BASE names a revision to compare with.
quick: $(VENV)/.checks
	@BASE=$(BASE) $(BIN)/python -m tests.quick

# One process more than cores; the tests of one file stay together, because they share what they set up. The longest files come
# first: see tests/conftest.py.
# It ends with the number of skipped tests and the reasons, and of failed ones the names (-rfEs). TESTS names folders or files; without it all tests run.
test: $(VENV)/.tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -rfEs $(TESTS)

# What each test file takes, for the order of `make test` and the choice of `make quick`.
seconds: $(VENV)/.tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -rfEs --keep-seconds

# What each command does, as counts, written into tests/cases/counted. Its difference is read in review. See tests/counted.
counted: $(VENV)/.tests
	$(BIN)/python -m tests.counted

# The same, compared with the tables. It leaves out what `make test` compares.
compare-counted: $(VENV)/.tests
	$(BIN)/python -m tests.counted --compare --seldom

# The property tests with other examples each time, and more of them. What it finds becomes a case of its own.
search: $(VENV)/.tests
	$(BIN)/python -m pytest -n auto --dist loadfile -m hypothesis --hypothesis-profile=search $(TESTS)

check: $(VENV)/.checks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.tests
	$(BIN)/python -m tests.benchmarks

# An hour at most: every fault at every system call, then hundreds of kills of the real server. `make test` has a short form of both.
crash: $(VENV)/.tests
	$(BIN)/python -m tests.crash walk --pairs 100
	$(BIN)/python -m tests.crash rounds --rounds 300

conformance: $(VENV)/.tests
	$(BIN)/python -m pytest tests/conformance -m conformance -s

# The chart's schema lists the options of the server, and the kustomize base is what the chart renders; tests compare them.
kustomize: $(VENV)/.tests
	$(BIN)/python -m tests.deploy.settings_schema
	$(BIN)/python -m tests.deploy.kustomize

# The documentation site, in demo-out/docs. It needs no network, neither to build nor to read.
docs: $(VENV)/.tests
	$(BIN)/python -m docs.generator

# The wheel and the source archive, in dist/.
dist: $(VENV)/.tests
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

# The picture of a report in README.md. It needs Chromium.
picture: $(VENV)/.tests
	@test -e demo-out/report.html || $(BIN)/hindcast --quiet demo
	$(BIN)/python -m docs.generator.picture

# Runs all of them on the bundled log, and keeps the results, with their pictures, in them. `make lab` opens them to work in.
notebooks: $(VENV)/.tests
	@test -e demo-out/lake || $(BIN)/hindcast --quiet demo --lake-only
	$(BIN)/python -m tests.notebooks.keep

lab: $(VENV)/.tests
	@$(call install,-e ".[notebooks]")
	$(BIN)/jupyter lab notebooks

clean:
	rm -rf $(VENV) dist demo-out bench-out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
