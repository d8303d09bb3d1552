# Everything runs in a virtual environment in the project, which `make demo` and `make test` create.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test paper browser lint types coverage bench bench-plans bench-sampling bench-guarantees bench-io bench-tables \
  bench-dask bench-files bench-statistics bench-formats bench-interactions bench-redundancy bench-startup \
  bench-cores bench-adaptive bench-kernels bench-gpu bench-growth bench-index bench-peers bench-beyond \
  bench-shape test-gpu test-lowest test-newest fuzz docs \
  docs-figures dist clean

help:  ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

# The library alone, which is enough for the demo. Files that are not imported need not be compiled.
$(CORE): pyproject.toml constraints.txt src/banditsis/__init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "banditsis needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --no-compile -e .
	@touch $@

$(STAMP): $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(INSTALL) -e . --group test
	@$(INSTALL) --group movielens >/dev/null 2>&1 || \
	  echo "LIBMF cannot be built without a C++ compiler: tests of the MovieLens table that call it will be skipped."
	@touch $@

demo: $(CORE)  ## Screen simulated data exactly and adaptively, by two statistics (600 MB installed)
	@$(BIN)/banditsis demo

test: $(STAMP) lint types  ## Check format, lint and types, and run all tests
	$(BIN)/python -m pytest -n 2 --dist loadfile
	$(BIN)/python -m pytest --doctest-modules src paper -q

paper: $(STAMP)  ## Reproduce the tables and figures of the paper into paper-results (10 minutes, 8 GB)
	for part in table1 table2 figure1 figure2 figure3; do $(BIN)/python -m paper $$part || exit 1; done

test-gpu: $(STAMP)  ## Run the tests of arrays on a GPU (needs a CUDA device and CuPy)
	$(BIN)/python -m pytest tests/gpu tests/sources/test_gpu_without_device.py

test-newest:  ## Run the tests with the newest released versions of all packages (10 minutes)
	$(PYTHON) -m venv build/newest
	build/newest/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	build/newest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[all]' --group test
	build/newest/bin/python -m pytest -o filterwarnings=default -n 2 --dist loadfile \
	  --ignore tests/paper --ignore tests/test_golden.py

test-lowest:  ## Run the tests with the lowest version of every package that the project allows (10 minutes)
	mkdir -p build && $(PYTHON) .github/lowest.py > build/lowest.txt
	$(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check -c build/lowest.txt -e '.[all]' --group test
	build/lowest/bin/python -m pytest -o filterwarnings=default -n 2 --dist loadfile \
	  --ignore tests/paper --ignore tests/test_golden.py

browser:  ## Install Chromium (Debian, as root) for the tests of the HTML report
	@command -v chromium || { apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

# Tests that take minutes when kernels run as plain Python are excluded.
QUICK := not thread_counts and not any_matrix and not test_planning \
  and not at_the_floor and not at_once and not was_predicted and not float32_cannot_hold \
  and not ten_thousand and not within_the_budget and not by_alpha and not without_association \
  and not smallest_number and not test_invalid_input and not depend_on_threads

coverage: $(STAMP)  ## Measure coverage, with kernels run as plain Python
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -q -k "$(QUICK)" \
	  --ignore=tests/plans/test_optimal.py --ignore=tests/plans/test_guaranteed.py --ignore=tests/paper \
	  --ignore=tests/test_datasets.py --ignore=tests/cli/test_app.py --ignore=tests/test_documents.py \
	  --ignore=tests/show/test_browser.py
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered --show-missing

bench: $(STAMP)  ## Measure speed and memory; rewrites a table in benchmarks/README.md (10 minutes, 12 GB)
	$(BIN)/python benchmarks/screening.py --write benchmarks/README.md

bench-index: $(STAMP)  ## Measure the index: errors, certificates in simulations, size and speed (60 minutes, 4 GB)
	$(BIN)/python benchmarks/index.py --write benchmarks/README.md

bench-io: $(STAMP)  ## Measure reading from disk: bytes, time, memory, interruptions, damage (15 minutes, 20 GB of disk)
	$(BIN)/python benchmarks/io.py

bench-plans: $(STAMP)  ## Compare the guarantees of plans with what they keep (5 minutes)
	$(BIN)/python benchmarks/plans.py

bench-sampling: $(STAMP)  ## Compare stratified with uniform sampling; redraws a figure of the docs (10 minutes, 18 GB)
	$(BIN)/python benchmarks/sampling.py --figure docs/figures/sampling.svg --write docs/guarantees.md

bench-guarantees: $(STAMP)  ## Check floors, guarantees and false discovery rates by simulation (60 minutes)
	$(BIN)/python benchmarks/guarantees.py
	$(BIN)/python benchmarks/fdr.py --write benchmarks/README.md --page docs/pvalues.md

bench-statistics: $(STAMP)  ## Measure statistics against their peers; rewrites a table in docs/statistics.md (6 minutes)
	$(BIN)/python benchmarks/moment_statistics.py
	$(BIN)/python benchmarks/binned.py
	if command -v plink2; then $(BIN)/python benchmarks/plink.py; fi
	$(BIN)/python benchmarks/sample_statistics.py --write docs/statistics.md
	$(BIN)/python benchmarks/wilcoxon.py

bench-kernels: $(STAMP)  ## Measure statistics, layouts and dtypes against plain Pearson screening (3 minutes, 9 GB)
	$(BIN)/python benchmarks/kernels.py

bench-formats: $(STAMP)  ## Measure reading files: bytes, and time against cat (5 minutes, 11 GB of disk)
	$(BIN)/python benchmarks/formats.py

bench-interactions: $(STAMP)  ## Screen 636,756 interactions for 10 users, and 50 million once (10 minutes, 9 GB)
	PYTHONPATH=. $(BIN)/python benchmarks/interactions.py

bench-redundancy: $(STAMP)  ## Compare avoid_redundancy with mRMR; rewrites tables in docs/redundancy.md (5 minutes)
	$(BIN)/python benchmarks/redundancy.py --write docs/redundancy.md

bench-cores: $(STAMP)  ## Measure exact and adaptive screening with all cores (2 minutes, 16 GB of memory)
	$(BIN)/python benchmarks/cores.py

bench-gpu: $(STAMP)  ## Measure screening on a GPU against its bandwidth, cuBLAS and PyTorch (2 minutes, 100 GB on the GPU)
	PYTHONPATH=.:benchmarks $(BIN)/python benchmarks/gpu.py

bench-adaptive: $(STAMP)  ## Check that adaptive runs slower than exact ones say so (2 minutes)
	$(BIN)/python benchmarks/adaptive.py --write benchmarks/README.md

bench-growth: $(STAMP)  ## Measure how time grows with n, p and d; rewrites a table and a figure of docs/speed.md (5 minutes, 9 GB)
	$(BIN)/python benchmarks/growth.py --write docs/speed.md --figure docs/figures/growth.svg

bench-peers: $(STAMP)  ## Compare with scikit-learn, polars, DuckDB and dcor; rewrites a table of docs/speed.md (2 minutes)
	$(BIN)/python benchmarks/peers.py --write docs/speed.md

bench-startup: $(STAMP)  ## Measure the first fit of a new installation and other short processes (2 minutes)
	$(BIN)/python benchmarks/startup.py --write benchmarks/README.md

bench-shape: $(STAMP)  ## Print the size of the code, and what a call enters
	$(BIN)/python benchmarks/shape.py

fuzz: $(STAMP)  ## Read 8,400 damaged files of every format; fails on a crash, hang, traceback, blow-up or silent change (10 minutes)
	$(BIN)/python benchmarks/fuzz.py

bench-tables: $(STAMP)  ## Measure dropping columns of a 10 GB table, and DuckDB (10 minutes, 10 GB of disk)
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/tables.py

bench-files: $(STAMP)  ## Compare screening files with PLINK 2 and polars (10 minutes, 6 GB of disk)
	PYTHONPATH=benchmarks $(BIN)/python benchmarks/files.py

bench-dask: $(STAMP)  ## Measure screening on a Dask cluster of two workers (15 minutes, 12 GB, 2 GB of disk)
	$(BIN)/python -m benchmarks.cluster

bench-beyond: $(STAMP)  ## Compute the cost of 10^9 rows x 10^6 features and check it at 10^8; rewrites tables in docs/research.md (5 minutes, 9 GB)
	$(BIN)/python -m benchmarks.beyond --write docs/research.md

docs: $(STAMP)  ## Run the tutorials and build the documentation into docs/_build (a few minutes)
	$(INSTALL) --group docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html
	@echo "open docs/_build/html/index.html"

docs-figures: $(STAMP)  ## Redraw the pictures of the README and of docs/results.md (needs Chromium: make browser)
	$(BIN)/python docs/pictures.py

# The wheel is built from the sdist, and is tried in an environment that has nothing else.
dist: $(CORE)  ## Build sdist and wheel, and run the README's first example with the wheel in an empty environment
	$(INSTALL) build
	rm -rf dist build && $(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/env
	build/env/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	build/env/bin/python -c "import re; text = open('README.md', encoding='utf-8').read(); \
	  exec(re.search(r'\x60{3}python\n(.*?)\x60{3}', text, re.S)[1])"

clean:  ## Remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/auto_tutorials docs/generated \
	  build dist
