# Verbs of the project. Each sets up the environment that it needs; Python 3.11 or newer, git and make suffice.

PYTHON ?= python3
VENV ?= .venv
# Tests at a time; most wait for processes and sockets, so a worker per core is right.
WORKERS ?= auto

BIN := $(VENV)/bin
RUN := $(BIN)/python
PYTEST := $(RUN) -m pytest
SETTINGS := pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help demo test check bench gen redcheck faults faults-short soak stack stack-up stack-test dist test-wheel clean

help: ## list the verbs
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Two steps, so that a first look needs little: the commands alone, then everything that tests and checks need.
$(VENV)/.cli: $(SETTINGS)
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) for the commands"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[cli]'
	@touch $@

$(VENV)/.dev: $(SETTINGS) | $(VENV)/.cli
	@echo "setting up $(VENV) for tests and checks"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(VENV)/.cli ## show a recorded session that failed
	@$(BIN)/compass-otel replay examples/failed-session.jsonl

test: $(VENV)/.dev ## run the tests (under 5 minutes)
	$(PYTEST) -n $(WORKERS) --dist worksteal $(ARGS)

check: $(VENV)/.dev ## style, types, import direction, contract, ledger, documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy compass_otel tests examples
	$(BIN)/lint-imports --no-logo
	$(RUN) tests/checks/contract.py check
	$(RUN) tests/checks/ledger.py
	$(RUN) tests/checks/snippets.py

gen: $(VENV)/.dev ## generate the code of the contract
	$(RUN) tests/checks/contract.py gen

redcheck: $(VENV)/.dev ## break the code once per listed rule; a test must go red each time
	$(RUN) tests/checks/redcheck.py $(ARGS)

bench: $(VENV)/.dev ## measure speed and memory, as ratios; ARGS=--full for the long sizes, ARGS=NAME for one
	PYTHONPATH=tests $(RUN) -m bench $(ARGS)

faults: $(VENV)/.dev ## hurt collectors, processes and disks, beside the plain SDK; ARGS=ROW for one row
	PYTHONPATH=tests $(RUN) -m faults.run $(ARGS)

faults-short: $(VENV)/.dev ## the same in seconds, as tests
	$(PYTEST) -m faults $(ARGS)

soak: $(VENV)/.dev ## all faults at random for 20 minutes
	PYTHONPATH=tests $(RUN) -m faults.run soak $(ARGS)

stack: $(VENV)/.dev ## build the Collector and Jaeger, find Prometheus; needs Go
	$(RUN) tests/stack/build.py

stack-up: stack ## start the three on loopback and say where to look; Ctrl-C ends them
	$(RUN) tests/stack/up.py

stack-test: stack ## run the tests in the real programs
	$(PYTEST) -m stack $(ARGS) tests/stack tests/grafana $(wildcard tests/scale)

dist: $(VENV)/.dev ## build the source distribution and the wheel
	@rm -rf dist
	$(RUN) -m build --outdir dist .

test-wheel: dist ## run the tests against the installed wheel
	PYTHON=$(PYTHON) WORKERS=$(WORKERS) $(RUN) tests/checks/wheel.py

clean: ## remove what was made, the environment excepted
	rm -rf build dist .mypy_cache .ruff_cache .import_linter_cache .hypothesis
