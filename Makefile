# `make install` makes .venv and installs everything into it; the other targets use .venv where it
# exists, and the active Python otherwise.

VENV ?= .venv
PYTHON ?= $(if $(wildcard $(VENV)/bin/python),$(VENV)/bin/python,python3)
# What `make install` makes the environment with.
BASE_PYTHON ?= $(shell for name in python3.11 python3; do $$name -c '' 2>/dev/null && echo $$name && break; done)
PYTEST_ARGS ?=
# What `make mutation` changes, and for how long it judges changes.
MUTATE ?= fedaudit/ledger
MINUTES ?= 30
MUTATION_ARGS ?=
# Where the data sets lie that are not part of the project.
DATA ?= ../shared/data

# The tensors are small: more threads than one make training slower, and tests run side by side.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-data mutation lint format bench reproduce screenshots

help:
	@echo "make install    make .venv and install fedaudit and its tools into it"
	@echo "make demo       start the service, audit two experiments, show both reports"
	@echo "make test       run the tests but the slow ones"
	@echo "make test-slow  run the tests that take minutes"
	@echo "make test-data  train on the real data by a running service: the table in docs/federations.md"
	@echo "make mutation MUTATE=fedaudit/ledger  change a folder's code, see whether a test notices"
	@echo "make lint       ruff, mypy and the boundaries between the rooms"
	@echo "make format     let ruff rewrite what it can"
	@echo "make bench      run the benchmarks"
	@echo "make screenshots  take the pictures of docs/pages.md with the system's Chromium"
	@echo "make reproduce  run the papers' tasks again: the figures in docs/"

install:
	$(BASE_PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --editable '.[dev]'
	@echo "installed; next: . $(VENV)/bin/activate"

demo:
	$(PYTHON) -P -m fedaudit.cli.demo --out demo-output \
		examples/synthetic-groups-k1.yaml examples/synthetic-groups-k2.yaml

test:
	$(PYTHON) -m pytest -m "not slow" -n auto --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-slow:
	$(PYTHON) -m pytest -m slow $(PYTEST_ARGS)

test-data:
	FEDAUDIT_TEST_DATA_DIR="$(abspath $(DATA))" $(PYTHON) -m pytest -m slow \
		tests/end_to_end/test_federations_real_data.py $(PYTEST_ARGS)

# Needs the extra `mutation`: $(PYTHON) -m pip install --editable '.[dev,mutation]'
mutation:
	$(PYTHON) -m tests.mutation $(MUTATE) --minutes $(MINUTES) $(MUTATION_ARGS)

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

bench:
	$(PYTHON) -m benchmarks --data $(DATA)
	$(PYTHON) -m benchmarks.stored_rounds --data $(DATA)
	$(PYTHON) -m benchmarks.handwriting --data $(DATA)
	$(PYTHON) -m benchmarks.clipped_gradients
	$(PYTHON) -m benchmarks.record_budgets
	$(PYTHON) -m benchmarks.record_coins
	$(PYTHON) -m benchmarks.large_table
	$(PYTHON) -m benchmarks.report_pages
	$(PYTHON) -m benchmarks.fairness_cost --data $(DATA)
	$(PYTHON) -m benchmarks.permutation_null
	$(PYTHON) -m benchmarks.disclosure_cost

screenshots:
	FEDAUDIT_SCREENSHOTS="$(abspath docs/screenshots)" FEDAUDIT_TEST_BROWSER=required \
		$(PYTHON) -m pytest tests/browser/test_every_page.py $(PYTEST_ARGS)

reproduce:
	$(PYTHON) -m benchmarks.reproductions.synthetic_task --seeds 100
	$(PYTHON) -m benchmarks.reproductions.synthetic_groups --seeds 20
	$(PYTHON) -m benchmarks.reproductions.synthetic_groups --seeds 20 --cohort 7
	$(PYTHON) -m benchmarks.reproductions.hospital_task --data $(DATA) --seeds 30
	$(PYTHON) -m benchmarks.reproductions.record_personalised --data $(DATA) --seeds 5
	$(PYTHON) -m benchmarks.reproductions.income_task --data $(DATA) --seeds 10
