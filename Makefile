# Every task of the project. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= python3
OLDEST := v1.34.4
PACKAGES := $(patsubst %/pyproject.toml,%,$(wildcard */pyproject.toml */*/pyproject.toml))
VENV := .venv
BIN := $(VENV)/bin
# For two cores: half of the time of a test of the whole product is waiting.
WORKERS ?= 4
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
export UV_PROJECT_ENVIRONMENT := $(VENV)
unexport PYTHONDONTWRITEBYTECODE # else each of the many programs that are started compiles all that it imports
export UV_NO_PROGRESS := $(if $(CI),1,0)

.DEFAULT_GOAL := help
.PHONY: help setup python-check first-demo images cluster clusters helm browser node-tools start-pages oldest demo docs test test-fast test-python test-image-python test-nodes fuzz newest attack real-modules all-tests checks site-tools lint format types bench profile soak day go charts reference dist release-check workflows scan test-kubernetes bench-change clean

help: ## List the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.synced ## Create the venv and install all packages with their locked dependencies

python-check:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is not Python 3.11 or newer: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot create a venv; as root: apt-get install python3-venv"; exit 1; }

$(VENV)/.synced: uv.lock pyproject.toml $(PACKAGES:%=%/pyproject.toml)
	@test -x $(BIN)/uv || $(MAKE) --no-print-directory python-check
	@test -x $(BIN)/uv || { echo "==> creating $(VENV)"; $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/images/uv.txt; }
	@echo "==> installing the locked dependencies"
	@$(BIN)/uv sync --quiet --frozen --all-packages --all-extras --inexact
	@touch $@

images: setup ## Build the images of the last commit (BASE=python:3.13-slim or root.tar for another base than Debian)
	@$(BIN)/python -m tools.images.build $(if $(BASE),--base '$(BASE)')

cluster: setup images ## Run a control plane and a user cluster, each with a node and these images (Linux, as root), until Ctrl-C
	@$(BIN)/klm local up --nodes $(ARGS)

clusters: setup ## Download or build the API server binaries (once, then cached)
	@$(BIN)/klm local binaries

helm: setup ## Build Helm for the tests of the charts (once)
	@$(BIN)/klm local helm

browser: ## Install Chromium, so that the fleet page is tested in a browser (Debian, as root)
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium)

node-tools: ## Install what builds the base of the images and runs nodes (Debian, as root)
	@test 7 = $$(command -v mmdebstrap containerd runc nft ip iptables ipset | wc -l) && test -x /usr/lib/cni/ptp || (apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends mmdebstrap debian-archive-keyring containerd runc containernetworking-plugins iproute2 nftables iptables ipset)

start-pages: clusters ## Follow the pages of docs/start literally, from a fresh clone of the last commit with an empty home
	KLM_TEST_FRESH_CLONE=1 $(BIN)/python -m pytest tests/e2e/start_pages $(ARGS)

oldest: setup ## Build the oldest supported API server, so that the charts are also tested on it
	@$(BIN)/klm local binaries --kubernetes $(OLDEST)

demo: $(if $(wildcard $(VENV)/.synced),,first-demo) setup $(if $(NODES),node-tools images) ## Show on local clusters how a user's change comes into force (NODES=1: in Pods)
	@$(BIN)/klm demo $(if $(NODES),--nodes) $(ARGS)

first-demo:
	@echo "The first run installs the packages into $(VENV) (half a minute), and downloads kube-apiserver and etcd, or builds them"
	@echo "where they cannot be downloaded (up to 6 minutes); both once. Then the demo: 20 s from the second time on."

test: setup clusters helm site-tools ## Run every check: lint, types, import contracts and all tests
	@$(MAKE) --no-print-directory --keep-going --jobs 2 all-tests checks

all-tests: setup
	$(PYTEST) $(ARGS)

checks: override ARGS := # those of the tests
checks: lint types workflows docs # beside the tests, which wait half of the time

test-nodes: setup clusters helm node-tools images ## Run the tests on real nodes, with these images (Linux, as root; some minutes to build, once)
	@$(BIN)/klm local binaries --nodes
	KLM_TEST_NODES=1 $(BIN)/python -m pytest tests/nodes $(ARGS)

test-kubernetes: setup ## Run the integration tests on the oldest supported API server (KUBERNETES=v1.35.4 for another)
	@set -o pipefail; assets=$$($(BIN)/klm local binaries --kubernetes $(or $(KUBERNETES),$(OLDEST)) | sed -n 's/^binaries: //p') && \
	  KUBEBUILDER_ASSETS=$$assets $(PYTEST) tests/integration $(ARGS)

test-python: python-check ## Run the tests that need no API server on another Python: make test-python PYTHON=/path/to/python3.13
	@$(MAKE) --no-print-directory VENV=.local/python-$$($(PYTHON) -c 'import sys; print(*sys.version_info[:3], sep=".")') test-fast

test-image-python: setup node-tools ## Run the same on the Python of the images (Debian, as root; TARGET=test for every check)
	@$(BIN)/python -m tools.images.debian $(or $(TARGET),test-fast)

test-fast: setup ## Run the tests that need no API server
	$(BIN)/python -m pytest -n $(WORKERS) tests/unit $(ARGS)

newest: setup ## Run the tests of what extends other packages with the newest uvicorn, httptools, httpx and aiohttp
	@$(BIN)/uv run --quiet --frozen --all-packages --all-extras --isolated \
	  --with uvicorn --with httptools --with httpx --with aiohttp \
	  python -m pytest -q -p no:cacheprovider tests/unit/http_guard tests/security/replicas tests/unit/oci $(ARGS)

fuzz: setup ## Run the property tests with random examples, ROUNDS times (10)
	for round in $$(seq $(or $(ROUNDS),10)); do \
	  $(BIN)/python -m pytest -q -n $(WORKERS) -m hypothesis --hypothesis-profile=random tests/unit tests/security $(ARGS) || exit 1; \
	done

attack: setup ## Attack what reads foreign input for MINUTES (4) with random samples (ONLY="events registry"); keep findings
	@$(BIN)/python -m tests.attack $(ONLY) --minutes $(or $(MINUTES),4) $(ARGS)

real-modules: clusters ## Compare random walks with kubectl and Flux for MINUTES (10), then install all real manifests
	@$(BIN)/python -m tests.real_modules --flux --minutes $(or $(MINUTES),10) $(ARGS)
	@KLM_REAL_MANIFESTS="$${KLM_REAL_MANIFESTS:-$(wildcard ../shared/real-manifests)}" $(BIN)/python -m pytest tests/real_modules/test_corpus.py

workflows: setup ## Check the workflows of .github with actionlint and zizmor
	@$(BIN)/python -m tools.release.workflows

scan: setup images ## Look up what is locked, and what the images contain, among known vulnerabilities (osv.dev)
	@$(BIN)/python -m tools.release.scan $(ARGS)

dist: docs helm ## Build what is released into .local/dist: wheels, klm as one file, charts, site, images, SBOM, provenance
	@$(BIN)/python -m tools.release.build

release-check: docs helm clusters ## Build it, install it into an empty place, and run the demos from there
	@$(BIN)/python -m tools.release.build --check $(ARGS)

lint: setup ## Check style, formatting, import contracts and declared dependencies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@for package in $(PACKAGES); do \
	  (cd $$package && $(CURDIR)/$(BIN)/deptry src) || failed="$$failed $$package"; \
	done; test -z "$$failed" || { echo "imports and dependencies disagree in:$$failed"; exit 1; }

format: setup ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: setup ## Check types with mypy --strict
	$(BIN)/mypy

bench: clusters ## Run the benchmarks (ONLY=group for one group) and write one JSON document to benchmarks/results
	@$(BIN)/python -m benchmarks $(ONLY) $(ARGS)

bench-change: clusters ## Measure the commit BASE (HEAD^) and this one in one run (ONLY=kube_runtime), and compare
	@git worktree add --quiet --force --detach .local/base $(or $(BASE),HEAD^) && $(MAKE) --no-print-directory -C .local/base setup
	-cd .local/base && $(BIN)/python -m benchmarks $(or $(ONLY),kube_runtime) --output ../old.json
	@git worktree remove --force .local/base
	$(BIN)/python -m benchmarks $(or $(ONLY),kube_runtime) --output .local/new.json; code=$$?; \
	  $(BIN)/python -m benchmarks.compare .local/old.json .local/new.json; exit $$code

profile: clusters ## Write flame graphs and a table of where the time goes (ONLY=end_to_end, sync_resource or fleet)
	@$(BIN)/python -m benchmarks.profile $(or $(ONLY),end_to_end) $(ARGS)

soak: clusters $(if $(NODES),helm node-tools images) ## Edit Module CRs (ARGS="--seconds 3600"); fail if memory, files or times grow (NODES=1: with faults of nodes)
	@$(BIN)/python -m benchmarks.$(if $(NODES),node_faults,soak) $(ARGS)

day: clusters ## Run a compressed day of a fleet, and judge it (ARGS="--clusters 300 --real 1 --speed 60"; 2 hours, 16 GB by default)
	@$(BIN)/python -m benchmarks.day $(ARGS)

go: setup ## Generate the Go module for Module Managers, libraries/api/go, from the types
	@$(BIN)/python -m libraries.api.generate_go

charts: setup ## Generate the parts of the charts that come from the code: CRDs, roles, options, Watcher
	@$(BIN)/python -m charts.generate

site-tools: setup
	@$(BIN)/uv sync --quiet --frozen --all-packages --all-extras --inexact --group docs

docs: site-tools ## Build the documentation's site; dead links and anchors fail (ARGS="--into FOLDER": beside other versions)
	@$(BIN)/python -m tools.documentation $(ARGS)

reference: setup ## Generate docs/reference and the READMEs of the charts from the code
	@$(BIN)/python -m tools.documentation --reference

clean: ## Delete the results of all tasks, except the cached binaries
	rm -rf $(VENV) .local .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis
