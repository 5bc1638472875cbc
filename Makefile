# Two commands are enough for a first look: `make demo` and `make test`. Both build .venv on first use.

PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/installed
# more options for pytest: make test PYTEST="-k compare"
PYTEST ?=
# pip shows what it does, except in CI, where its bars fill the log
QUIET := $(if $(CI),--quiet)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help install demo test nightly lint types docs bench load drill gauntlet calibration packages lock clean

help: ## what each target does
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## the pinned environment in .venv

$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is needed and was not found" >&2; exit 4; }
	@echo "building .venv from requirements.lock (a minute or two, once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --no-compile $(QUIET) -r requirements.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## a subnet of sixteen miners through the real service, until interrupted (ONCE=1: then end)
	$(BIN)/forensics demo $(if $(ONCE),--once)

# two workers on two cores
test nightly: export OMP_NUM_THREADS ?= 1
test: $(STAMP) ## every test but the slow ones
	$(BIN)/pytest -n 2 -m "not slow" $(PYTEST)

nightly: $(STAMP) ## every test, the slow ones included
	$(BIN)/pytest -n 2 $(PYTEST)

lint: $(STAMP) ## style, and which package may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP) ## mypy, strict
	$(BIN)/mypy

docs: $(STAMP) ## write docs/cli.md, errors, OpenAPI and schemas from the code itself (CHECK=1: only say whether it is current)
	$(BIN)/python -m forensics.cli.document $(if $(CHECK),--check)
	$(BIN)/python -m forensics.api.document $(if $(CHECK),--check)
	$(BIN)/python docs/schemas/generate.py $(if $(CHECK),--check)

bench: $(STAMP) ## speed and memory, by stage
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.search
	$(BIN)/python -m benchmarks.attest
	$(BIN)/python -m benchmarks.scoring

load: $(STAMP) ## verdict reads under load, with wrk, as the number of known models grows
	$(BIN)/python -m benchmarks.load

drill: $(STAMP) ## the log under a million leaves, kill -9 and tampering, on SQLite and PostgreSQL
	$(BIN)/python -m benchmarks.log

gauntlet: $(STAMP) ## recall and false accusations over families and attacks (QUICK=1: three minutes)
	$(BIN)/python -m benchmarks.gauntlet $(if $(QUICK),--quick)

calibration: $(STAMP) ## measure the tails that decisions rest on, on families no test uses
	$(BIN)/python -m benchmarks.gauntlet.calibrate

packages: $(STAMP) ## fetch the real checkpoints that the `models` tests use
	$(BIN)/python -m benchmarks.packages fetch

lock: $(STAMP) ## resolve pyproject.toml again under constraints.txt
	$(BIN)/pip-compile pyproject.toml --extra dev --constraint constraints.txt --allow-unsafe --strip-extras \
	    --no-header --no-emit-index-url --no-emit-find-links --annotation-style=line --quiet --output-file .venv/lock
	sed -E -e '/^#|^$$|^pip==/d' -e 's/^(torch==[0-9.]+)\+cpu/\1/' -e 's/model-forensics \((pyproject.toml)\)/\1/' \
	    .venv/lock > requirements.lock

clean: ## remove the environment and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
