# `make demo` and `make test` each work alone on a fresh clone with nothing but Python and make: they set up
# .venv themselves, once. Both can be run again at any time.
#
#     PYTHON=python3.12        the interpreter to build .venv from (3.11 or newer)
#     TORCH_INDEX=URL          where to take torch from, e.g. the CPU builds: https://download.pytorch.org/whl/cpu

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=

BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
# `$(call demonstrate,ARGUMENTS)` shows a command as a user would type it, and runs it on datasets in .demo.
demonstrate = @echo '$$ sme-offline $(1)' && MINARI_DATASETS_PATH='$(CURDIR)/.demo' $(BIN)/sme-offline $(1)

DEMO_DATASET := sme/s8a4-c1-bias-nu0p3-probit0p3-v0
DEMO_ALGOS := bc iql td3plusbc
define newline


endef

.DEFAULT_GOAL := help
.PHONY: help demo test lint format types docs wheel bench clean

help: ## list what can be made
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

demo: $(READY) ## generate two datasets into .demo, train BC, IQL and TD3+BC on one, and score them
	@mkdir -p .demo
	@echo '== Biased behavior (the benchmark of the paper): headroom, but each state shows one action only =='
	$(call demonstrate,generate --nu 0.1 --complexity 50 --overwrite)
	@echo
	@echo '== Biased behavior that explores: headroom, and rewards that tell how to use it =='
	$(call demonstrate,generate --nu 0.3 --sigma 0.3 --complexity 1 --overwrite)
	@echo
	@echo '== Imitation and offline RL on the second, a minute or two =='
	@rm -rf .demo/runs
	$(foreach algo,$(DEMO_ALGOS),$(call demonstrate,train $(DEMO_DATASET) --algo $(algo) --steps 5000 --out .demo/runs)$(newline))
	@echo
	@echo '== What they learned, beside what needs no training =='
	$(call demonstrate,evaluate $(foreach algo,$(DEMO_ALGOS),.demo/runs/$(subst /,-,$(DEMO_DATASET))--$(algo)-s0))

# Each file's tests run in one process, since they share what is costly to make.
test: $(READY) ## run every test
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

lint: $(READY) ## check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## apply the format, and the fixes that are safe
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(READY) ## check types, strictly
	$(BIN)/mypy

docs: $(READY) ## build the documentation into site; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

wheel: $(READY) ## build the wheel and the source distribution into dist
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

bench: $(READY) ## measure speed against today's tools, as ratios
	$(BIN)/python benchmarks/run.py

clean: ## remove what was built, .venv and .demo too
	rm -rf $(VENV) .demo dist build site .mypy_cache .pytest_cache .ruff_cache .hypothesis

# pip repairs a half-made .venv, so an interrupted set-up is simply run again.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "error: Python 3.11 or newer is needed, got %d.%d; say which with PYTHON=" % sys.version_info[:2])'
	@echo 'setting up $(VENV) (once; this takes some minutes)'
	$(PYTHON) -m venv $(VENV)
ifneq ($(TORCH_INDEX),)
	$(PIP) --no-deps --index-url '$(TORCH_INDEX)' torch
endif
	$(PIP) hatchling torch
	$(PIP) --no-build-isolation --editable '.[dev,docs]'
	@touch $@
