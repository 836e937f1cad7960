# On a fresh machine `make demo` and `make test` set everything up by themselves.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-slow coverage mutants golden test-versions fuzz dist-check bench study tables docs report-picture clean

# pip would compile on one core, and the tests of every package too: this is twice as fast
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'prbnn needs Python 3.11 or newer; set PYTHON=/path/to/python')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e ".[dev]"
	$(BIN)/python -m compileall -q -j 0 -x /tests/ $(VENV)/lib src
	touch $(READY)

demo: $(READY)  ## train a plain and a constrained network on simulation 2; table and picture
	$(BIN)/prbnn demo

test: $(READY)  ## what CI runs: lint, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check --python $(VENV)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-slow: $(READY)  ## statistical bars over ten data sets, a million points against every bound, long pages
	XLA_FLAGS= $(BIN)/python -m pytest -m slow

golden: $(READY)  ## measure the numbers of tests/golden again, print what changed, and write them
	XLA_FLAGS= PYTHONPATH=.:src $(BIN)/python -m tests.golden.update

coverage: $(READY)  ## lines and branches of the package that the quick tests run, and those they do not
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[coverage]"
	rm -f .coverage .coverage.* .test-times.jsonl
	PYTHONPATH=.ci TEST_TIMES=$(CURDIR)/.test-times.jsonl \
	  $(BIN)/python -m coverage run -m pytest -q -p which_tests -m "not slow"
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

mutants: $(READY)  ## small defects put into the package: how many does no test notice? (after make coverage)
	$(BIN)/python benchmarks/mutants.py

test-versions:  ## a part of the tests on the oldest and newest versions allowed, for each Python found
	$(PYTHON) .ci/versions.py

CASES ?= 1000000
fuzz: $(READY)  ## hostile cases for every parser, CASES of each
	for parser in expressions knowledge tables; do \
	  $(BIN)/python benchmarks/fuzz.py --parser $$parser --cases $(CASES) || exit 1; \
	done
	$(BIN)/python benchmarks/fuzz.py --parser models --cases $$(( $(CASES) / 10 ))

dist-check:  ## build wheel and sdist, install each in an empty environment, use it without the repository
	$(PYTHON) .ci/dist_check.py

bench: $(READY)  ## speed beside the paper's loop and BLiTZ's LSTM in PyTorch (installs torch)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps blitz-bayesian-pytorch==0.2.8
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/sequences.py

study: $(READY)  ## simulation 2 over ten data sets, beside the paper's table
	$(BIN)/prbnn study simulation2 --seeds 10

tables: $(READY)  ## write the tables and numbers of README.md and docs/ from records/
	$(BIN)/python -m prbnn_studies.pages

docs: $(READY)  ## the documentation as a site, in site/; any warning is an error
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

report-picture: $(READY)  ## the pictures of docs/report.md (needs Chromium)
	$(BIN)/python docs/make_report_picture.py

clean:
	rm -rf $(VENV) .versions build dist site .pytest_cache .ruff_cache
