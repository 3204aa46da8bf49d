# Every target needs only Python >= 3.11, pip and make. It makes .venv and installs there what it needs,
# with the versions and hashes of locks/. Targets share .venv: a second target adds what is missing.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= runs/case-study
INSTALL := $(BIN)/python locks/install.py
LOCKS  := pyproject.toml $(wildcard locks/python*.txt)

.DEFAULT_GOAL := help
.PHONY: help study test quick lint bench docs gpu engines locks clean

help:  ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# venv installs pip last, so an environment without pip is incomplete and is made again.
$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

# .study: samepath with its cameras. .docs: the site. .ready: tests, style and types.
$(VENV)/.study: $(LOCKS) | $(BIN)/pip
	$(INSTALL) sensors
	touch $@

$(VENV)/.docs: $(LOCKS) | $(BIN)/pip
	$(INSTALL) docs
	touch $@

$(VENV)/.ready: $(LOCKS) | $(BIN)/pip
	$(INSTALL) test lint
	touch $@

study: $(VENV)/.study  ## the main job: the paper's case study on this machine, with its report
	$(BIN)/samepath study case-study --out $(OUT)

test: $(VENV)/.ready  ## all tests
	$(BIN)/python -m pytest

quick: $(VENV)/.ready  ## tests without those that take long or need an engine, a browser or a cluster
	$(BIN)/python -m pytest -m 'not slow and not engine and not browser and not cluster'

lint: $(VENV)/.ready  ## ruff and mypy --strict
	$(BIN)/ruff check src tests bench locks
	$(BIN)/ruff format --check src tests bench locks
	$(BIN)/mypy

bench: $(VENV)/.ready  ## the long proofs; tables on the terminal, JSON under bench/results/
	$(INSTALL) bench || echo "engines to compare with could not be installed"
	$(BIN)/python -m bench

gpu: $(VENV)/.ready  ## on a machine with an NVIDIA card: are the card's bytes the software's, and how fast; bench/results/gpu.json
	$(BIN)/python -m pytest -q tests/simulator/sensors/test_cuda_core.py tests/simulator/sensors/test_cuda_card.py tests/simulator/sensors/test_cuda_nvrtc.py
	$(BIN)/python -m bench gpu

docs: $(VENV)/.docs  ## the docs as a site in build/site; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

engines: $(VENV)/.ready  ## every engine of other people that can be installed here (about 1.5 GB)
	.ci/engines

locks:  ## write locks/ again; UPGRADE=--upgrade takes the newest versions that pyproject.toml allows
	$(PYTHON) -m venv build/tools
	build/tools/bin/python locks/install.py --without-samepath release
	build/tools/bin/python locks/make.py --uv build/tools/bin/uv $(UPGRADE)

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
