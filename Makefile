# make demo and make test do all the set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-slow lint docs format check install s3-server page-tools clean

demo: $(INSTALLED)
	$(BIN)/marcir demo $(DEMO)

# Two tests at a time; each then computes on one core, as most of what they start does.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses 2 --dist worksteal

test: $(INSTALLED)
	$(PYTEST) -m 'not slow and not browser'

# What CI runs beside it; the tests say what they lack: chromium, npm's axe-core, a moto server, ../shared.
test-slow: $(INSTALLED)
	$(PYTEST) -m 'slow or browser'

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The documentation site, in site/. A dead link or anchor fails it. Links of docs/ lead to files beside it, so
# these are copied with it.
docs: $(INSTALLED)
	rm -rf .site-source site
	mkdir --parents .site-source/records
	cp --recursive README.md CHANGELOG.md CONTRIBUTING.md CITATION.cff LICENSE configs docs .site-source
	cp records/README.md .site-source/records
	PYTHONPATH=tools NO_COLOR=1 $(BIN)/zensical build --clean --strict

check: lint docs test test-slow

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

install: $(INSTALLED)

# Through the constraints only: a bare "torch" may bring gigabytes of CUDA.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all]'
	touch $@

# The fake S3 server of one test, in an environment of its own: it needs older packages than we do.
s3-server: .venv-s3/.installed

.venv-s3/.installed: tests/search/s3-requirements.txt
	test -x .venv-s3/bin/python || $(PYTHON) -m venv .venv-s3
	.venv-s3/bin/python -m pip install --quiet --requirement tests/search/s3-requirements.txt
	touch $@

# Accessibility checks of the page; they also need chromium.
page-tools: .page-tools/node_modules/axe-core/axe.min.js

.page-tools/node_modules/axe-core/axe.min.js:
	npm install --silent --no-audit --no-fund --no-save --prefix .page-tools axe-core@4.14.0

clean:
	rm -rf $(VENV) .venv-s3 .page-tools .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .cache .site-source site dist
