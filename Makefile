# Every task of the project. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
UV_VERSION := 0.13.8
OLDEST := v1.34.4
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard */pyproject.toml))
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
export UV_PROJECT_ENVIRONMENT := $(VENV)
export UV_NO_PROGRESS := $(if $(CI),1,0)

.DEFAULT_GOAL := help
.PHONY: help setup clusters helm oldest demo test test-fast lint format types bench charts clean

help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.synced ## Create the venv and install the locked dependencies

$(VENV)/.synced: uv.lock pyproject.toml */pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one: make PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/uv || { echo "==> creating $(VENV)"; $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	@echo "==> installing the locked dependencies"
	@$(BIN)/uv sync --quiet --frozen --all-packages --all-extras --inexact
	@touch $@

clusters: setup ## Fetch or build the API server binaries (once; later starts take them from the cache)
	@$(BIN)/klm local binaries

helm: setup ## Build Helm for the tests of the charts (once)
	@$(BIN)/klm local helm

oldest: setup ## Build the oldest API server that is supported, so that the charts are tested on it too
	@$(BIN)/klm local binaries --kubernetes $(OLDEST)

demo: setup ## Show a user's change travel from cluster to cluster and back
	@$(BIN)/klm demo

test: lint types clusters helm ## Run every check: lint, types, import contracts and all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

test-fast: setup ## Run the tests that need no API server
	$(BIN)/python -m pytest -n $(WORKERS) tests/unit $(ARGS)

lint: setup ## Check style, formatting and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@for package in $(PACKAGES); do \
	  (cd $$package && ../$(BIN)/deptry src) || failed="$$failed $$package"; \
	done; test -z "$$failed" || { echo "imports and dependencies disagree in:$$failed"; exit 1; }

format: setup ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup ## Check types, strictly
	$(BIN)/mypy

bench: clusters ## Run the benchmarks (ONLY=group for one group), one JSON line a figure
	@$(BIN)/python -m benchmarks $(ONLY)

charts: setup ## Write what the charts repeat of the code: CRDs, rights, options, the Watcher
	@$(BIN)/python -m charts.generate

clean: ## Remove what the tasks made, the binaries' cache excepted
	rm -rf $(VENV) .local .mypy_cache .ruff_cache .pytest_cache .hypothesis
