# Needs only python3 (3.11 or later, with venv) and make. Everything else is installed into .venv by the rules below.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FOLDERS := codegen dialects frontend lowering rewrites runtime semantics tools
.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-all zoo check bench clean

# One stamp for each set of extras, remade when pyproject.toml changes.  Byte code is made as pip does for a wheel, so
# that the first run is as quick as later ones.  The install is a path, not a finder: a finder comes after all paths, so a
# script beside a checkout would take the checkout's folder, which bears the package's name, for the package.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --config-settings editable_mode=compat --editable '.[$(1)]'
	@$(BIN)/python -m compileall -q -j 0 sardonyx $(FOLDERS)
	@touch $@
endef

$(VENV)/stamp-base: pyproject.toml
	$(call install,demo)
$(VENV)/stamp-test: pyproject.toml
	$(call install,test)
$(VENV)/stamp-check: pyproject.toml $(VENV)/stamp-test
	$(call install,check)

help: ## this list
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(VENV)/stamp-base ## compile and run a real model through every level
	@$(BIN)/python examples/demo.py

test: $(VENV)/stamp-test ## all tests; the long suites by a fifth (which fifth, the commit's hash says), under 25 minutes on 2 cores
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --fifth

test-fast: $(VENV)/stamp-test ## the tests that take no time, under 90 s
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not long"

test-all: $(VENV)/stamp-test zoo ## every test, with an empty cache; also all of the zoo
	SARDONYX_ZOO_REQUIRED=1 SARDONYX_CACHE=$$(mktemp -d) $(BIN)/python -m pytest -q -n 2 --dist worksteal

zoo: $(VENV)/stamp-test ## fetch the real models that tests run on where they are there: 46 of 18 packages, 85 MB
	$(BIN)/python tests/zoo/fetch.py

check: $(VENV)/stamp-check ## ruff, pyright (strict), import contracts, and what the wheel holds
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/typing && mkdir -p build/typing/sardonyx && cp -r sardonyx/. $(FOLDERS) build/typing/sardonyx
	$(BIN)/pyright --pythonpath $(BIN)/python
	cd build/typing && $(CURDIR)/$(BIN)/lint-imports ../../pyproject.toml
	$(BIN)/python -m pytest -q tests/test_packaging.py

bench: $(VENV)/stamp-test ## kernels and models against their limits and peers, alone on the machine please
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/vector_math.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/models.py --threads 2
	$(BIN)/python benchmarks/sizes.py

clean: ## remove what the other targets made
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
