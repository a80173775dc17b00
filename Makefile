# Two commands: `make verify` proves and fuzzes the real layouts, `make test` runs the tests.
# Both set up .venv first. A second run of any of them installs nothing.

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(shell command -v $(p) 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Test processes: one a core.
JOBS ?= auto
# Of one property on one configuration; there are well over a thousand such pairs.
NIGHTLY_SECONDS ?= 10

# Named by content, so that a fresh clone, a touched file or a switched branch asks for nothing needless.
STAMP := $(VENV)/.kvproof-$(shell cat pyproject.toml constraints.txt | cksum | cut -d ' ' -f 1)

.PHONY: help setup verify test slow lint format nightly clean

help:
	@echo "make setup      create .venv and install kvproof with its CPU packages"
	@echo "make verify     prove and fuzz the real layouts       (ARGS='--config v4-flash --budget 30s')"
	@echo "make test       run the tests                         (ARGS='tests/unit -x')"
	@echo "make slow       run the long campaigns and wide sweeps that make test leaves out"
	@echo "make lint       format, style, types and import order, as CI checks them"
	@echo "make format     rewrite the files as the formatter wants them"
	@echo "make nightly    prove, fuzz, simulate, measure; a site and a summary (ARGS='--out night')"
	@echo "make clean      remove .venv and what the tools leave behind"

setup: $(STAMP)

$(STAMP):
	@test -n "$(PYTHON)" || { echo "no Python found: install Python 3.11 or later, or set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "$(PYTHON) is older than 3.11: set PYTHON=/path/to/python3.11 or later" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e '.[torch,dev]'
	@rm -f $(VENV)/.kvproof-*
	@touch $@

verify: setup
	$(BIN)/kvproof verify $(ARGS)

test: setup
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

slow: setup
	$(BIN)/python -m pytest -n $(JOBS) -m slow $(ARGS)

lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/lint-imports
	$(BIN)/pyright

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

nightly: setup
	KVPROOF_PROFILE=nightly KVPROOF_NIGHTLY_SECONDS=$(NIGHTLY_SECONDS) $(BIN)/kvproof nightly $(ARGS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks src/*.egg-info
