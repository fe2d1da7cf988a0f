# Each target makes the environment that it needs: .venv, installed again when a pyproject.toml has
# changed. A Python that has fedaudit and its tools already is used as it is: one named by PYTHON,
# one in VENV that was made by hand, or the active one where there is no VENV.

VENV ?= .venv
# Written once everything is installed into VENV.
STAMP := $(VENV)/.fedaudit-installed
# Where `make test-integrations` runs; VENV itself will do, and then has more than `make test` needs.
INTEGRATIONS_VENV ?= .venv-integrations
INTEGRATIONS_STAMP = $(INTEGRATIONS_VENV)/.fedaudit-integrations-installed
# Without what it asks for: that is older releases of what the service and MLflow are installed with,
# and its simulation runs with theirs.
FLOWER = flwr==1.42.0
FLOWER_NEEDS = ray==2.55.1 'protobuf>=5.28,<7' 'grpcio-health-checking<2' iterators pathspec \
	prompt-toolkit pycryptodome requests tomli tomli-w
# Installed into the environment's folder `node`, where there is npm.
SIGSTORE = @sigstore/verify@4.1.3 @sigstore/bundle@5.0.1
# What VENV is made with.
BASE_PYTHON ?= $(shell for name in python3.11 python3; do $$name -c \
	'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$name && break; done)
# Whether a Python has it all installed; -P: it is not enough that the source lies here.
has_fedaudit = $(shell $(1) -P -c 'from importlib.util import find_spec; \
	raise SystemExit(not all(map(find_spec, ("fedaudit", "fedaudit_client", "pytest", "torch"))))' 2>/dev/null && echo yes)

ifeq ($(origin PYTHON),undefined)
  ifeq ($(wildcard $(STAMP)),)
    IN_VENV := $(wildcard $(VENV)/bin/python)
    PYTHON := $(if $(call has_fedaudit,$(or $(IN_VENV),python3)),$(or $(IN_VENV),python3))
  endif
  ifeq ($(PYTHON),)
    PYTHON := $(VENV)/bin/python
    ENVIRONMENT := $(STAMP)
  endif
endif

PYTEST_ARGS ?=
# One more than there are processors, or that this process may use: tests wait for their services.
TEST_PROCESSES ?= $(shell echo $$(( $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1 )))
# What `make mutation` changes, and for how long it judges changes.
MUTATE ?= fedaudit/ledger
MINUTES ?= 30
MUTATION_ARGS ?=
# The commit, or the folder of one, whose answers are right.
BASE ?= main
GOLDEN_ARGS ?=
# Where the data sets lie that are not part of the project.
DATA ?= ../shared/data

# The tensors are small: more threads than one make training slower, and tests run side by side.
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install native demo docs test test-slow test-gpu test-integrations golden mutation lint format bench \
	reproduce screenshots

help:
	@echo "make install    make .venv, with fedaudit and its tools; the others do it by themselves"
	@echo "make native     build the compiled kernels again, after a change to fedaudit/native"
	@echo "make demo       start the service, audit three experiments, show their reports"
	@echo "make test       run the tests but the slow ones"
	@echo "make test-slow  run the tests that take minutes"
	@echo "make test-gpu   run the tests of tensors on cuda:0"
	@echo "make test-integrations  against MLflow, Flower, NVFlare and verifiers of claims"
	@echo "make golden BASE=main  run the same specs in a commit and in this tree: what differs"
	@echo "make mutation MUTATE=fedaudit/ledger  change a folder's code, see whether a test notices"
	@echo "make docs       build the documentation as a site in build/site, with its reference"
	@echo "make lint       ruff, mypy and the boundaries between the rooms"
	@echo "make format     let ruff rewrite what it can"
	@echo "make bench      run the benchmarks"
	@echo "make screenshots  take the pictures of docs/pages.md with the system's Chromium"
	@echo "make reproduce  run the papers' tasks again: the tables and pictures in docs/"

install:
	@test -n "$(BASE_PYTHON)" || { echo "Python 3.11 or newer with its venv module is needed" >&2; exit 1; }
	@echo "installing into $(VENV); the first time takes minutes"
	$(BASE_PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --editable '.[dev]'
	@touch $(STAMP)
	@echo "installed; for the command fedaudit: . $(VENV)/bin/activate"

$(STAMP): pyproject.toml setup.py
	@$(MAKE) --no-print-directory install

native: $(ENVIRONMENT)
	$(PYTHON) setup.py --quiet build_ext --inplace

demo: $(ENVIRONMENT)
	$(PYTHON) -P -m fedaudit.cli.demo --out demo-output \
		--table examples/clinics.csv --registration examples/registrations/clinics.yaml \
		examples/synthetic-groups-k1.yaml examples/synthetic-groups-k2.yaml

# Needs the extra `docs`: $(PYTHON) -m pip install --editable '.[dev,docs]'
docs: $(ENVIRONMENT)
	PYTHONPATH=. $(PYTHON) -m mkdocs build

# With another process in place of one that crashed, the run would wait without an end.
test: $(ENVIRONMENT)
	$(PYTHON) -m pytest -m "not slow" -n $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder \
		--max-worker-restart 0 $(PYTEST_ARGS)

test-slow: $(ENVIRONMENT)
	$(PYTHON) -m pytest -m slow $(PYTEST_ARGS)

# An environment of its own: MLflow's server brings a hundred packages.
$(INTEGRATIONS_STAMP): pyproject.toml
	@test -n "$(BASE_PYTHON)" || { echo "Python 3.11 or newer with its venv module is needed" >&2; exit 1; }
	@echo "installing into $(INTEGRATIONS_VENV); the first time takes minutes"
	test -x $(INTEGRATIONS_VENV)/bin/python || $(BASE_PYTHON) -m venv $(INTEGRATIONS_VENV)
	$(INTEGRATIONS_VENV)/bin/python -m pip install --quiet --editable '.[dev,integrations]'
	$(INTEGRATIONS_VENV)/bin/python -m pip install --quiet --no-deps $(FLOWER)
	$(INTEGRATIONS_VENV)/bin/python -m pip install --quiet $(FLOWER_NEEDS)
	! command -v npm >/dev/null || npm install --silent --prefix $(INTEGRATIONS_VENV)/node $(SIGSTORE)
	@touch $(INTEGRATIONS_STAMP)

test-gpu: $(ENVIRONMENT)
	FEDAUDIT_TEST_DEVICE=cuda:0 $(PYTHON) -m pytest tests/training/test_other_device.py \
		tests/training/test_beside_others.py tests/networks/test_record_gradients.py $(PYTEST_ARGS)

test-integrations: $(INTEGRATIONS_STAMP)
	$(INTEGRATIONS_VENV)/bin/python -m pytest -m integrations \
		tests/publishing tests/reports tests/client/adapters tests/client/test_generated_clients.py \
		$(PYTEST_ARGS)

golden: $(ENVIRONMENT)
	$(PYTHON) -m tests.golden $(BASE) $(GOLDEN_ARGS)

# Needs the extra `mutation`: $(PYTHON) -m pip install --editable '.[dev,mutation]'
mutation: $(ENVIRONMENT)
	$(PYTHON) -m tests.mutation $(MUTATE) --minutes $(MINUTES) $(MUTATION_ARGS)

lint: $(ENVIRONMENT)
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy
	$(PYTHON) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

format: $(ENVIRONMENT)
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

bench: $(ENVIRONMENT)
	$(PYTHON) -m benchmarks --data $(DATA)
	$(PYTHON) -m benchmarks.stored_rounds --data $(DATA)
	$(PYTHON) -m benchmarks.handwriting --data $(DATA)
	$(PYTHON) -m benchmarks.clipped_gradients

screenshots: $(ENVIRONMENT)
	FEDAUDIT_SCREENSHOTS="$(abspath docs/screenshots)" FEDAUDIT_TEST_BROWSER=required \
		$(PYTHON) -m pytest tests/browser/test_every_page.py $(PYTEST_ARGS)

# Those of hours are left out: unipen-table-2.yaml, unipen-figure-8.yaml.
LONG_SWEEPS = examples/papers/unipen-table-2.yaml examples/papers/unipen-figure-8.yaml
SWEEPS ?= $(filter-out $(LONG_SWEEPS),$(wildcard examples/papers/*.yaml))
# Where the service keeps its data, so that it goes on where it stopped.
REPRODUCED ?= reproduced

reproduce: $(ENVIRONMENT)
	$(PYTHON) -m benchmarks.reproductions.played_sweeps --data $(DATA) --out $(REPRODUCED) $(SWEEPS)
	$(PYTHON) -m benchmarks.reproductions.drawn_figures
	$(PYTHON) -m benchmarks.reproductions.side_by_side --write
	$(PYTHON) -m benchmarks.reproductions.synthetic_task --seeds 400
	$(PYTHON) -m benchmarks.reproductions.synthetic_groups --seeds 20
	$(PYTHON) -m benchmarks.reproductions.synthetic_groups --seeds 20 --cohort 7
	$(PYTHON) -m benchmarks.reproductions.hospital_task --data $(DATA) --seeds 30
	$(PYTHON) -m benchmarks.reproductions.hospital_task --data $(DATA) --seeds 30 \
		--client-keys zip --empty-cluster keep
	$(PYTHON) -m benchmarks.reproductions.record_personalised --data $(DATA) --seeds 5
	$(PYTHON) -m benchmarks.reproductions.income_task --data $(DATA) --seeds 10 --write
