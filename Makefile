# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint docs speed bench stress clean

demo: $(READY)  ## compare four samplers on digit pictures; writes admil-demo/report.html
	$(BIN)/admil demo

test: lint  ## everything CI checks
	$(BIN)/python -m pytest -n 2

lint: $(READY)  ## format, style, types, import contracts
	$(BIN)/ruff format --check src tests tools
	$(BIN)/ruff check src tests tools
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(READY)  ## write the command-line reference and the README table anew
	$(BIN)/python -m tools.docs

stress: $(READY)  ## the long fuzz, kill and load runs
	$(BIN)/python -m pytest -n 2 -m stress tests/stress

speed: $(READY)  ## ratios of training-step times
	$(BIN)/admil speed

BENCH ?= all
bench: $(READY)  ## run a suite of the benchmark and report it; BENCH_FLAGS="--from voc=PATH" names raw data
	$(BIN)/admil bench run $(BENCH) $(BENCH_FLAGS)
	$(BIN)/admil bench report $(BENCH)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "admil needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(READY)

clean:
	rm -rf .venv admil-demo
