# Everything a checkout needs, from Python 3.11 and make alone: `make test`, `make demo`.
#
# The tools live in .venv, which is made on first use and brought up to date whenever
# pyproject.toml or constraints.txt change. Every version comes from constraints.txt.

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Overrides the search for an interpreter: make venv PYTHON=/path/to/python3.11
PYTHON ?=
# How often `make soak` repeats each fault test.
SOAK_ROUNDS ?= 500

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

# Sets $python to the interpreter to use, or says what is missing and stops.
define find_python
python=''; seen=''; \
for name in $(if $(PYTHON),'$(PYTHON)',python3.11 python3); do \
  version=$$("$$name" -c 'import platform; print(platform.python_version())' 2>/dev/null) || continue; \
  seen="$$seen $$name is $$version."; \
  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then python=$$name; break; fi; \
done; \
if [ -z "$$python" ]; then \
  echo "error: Python 3.11 or newer is missing.$${seen:- $(if $(PYTHON),$(PYTHON) does not run,Neither python3.11 nor python3 runs).}" \
    "Install it, or name it: make venv PYTHON=/path/to/python3.11" >&2; exit 1; \
fi; \
if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
  echo "error: $$python has no venv module (on Debian and Ubuntu: the package python3.11-venv)." >&2; \
  exit 1; \
fi
endef

# Shortens pip's report to one line per large download and per built package.
define brief_pip
sed -n -u \
  -e 's|^ *Downloading .*/\([^/]* ([0-9.]* MB)\)$$|  downloading \1|p' \
  -e 's|^ *Downloading \([^/]* ([0-9.]* MB)\)$$|  downloading \1|p' \
  -e 's|^ *Building wheel for \([^ ]*\) .*started$$|  building \1|p' \
  -e 's|^Installing collected packages.*|  unpacking|p'
endef

.PHONY: help
help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP) ## Create .venv and install the project with the pinned tools.

# A tree that was copied or moved holds a .venv that points at the old place: make it anew.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

# pip's report is kept in a file and shown when it fails, and so is its exit status, because sh
# knows only that of the last command of a pipeline.
$(STAMP): pyproject.toml constraints.txt
	@set -e; $(find_python); \
	if [ "$$(cat $(STAMP) 2>/dev/null)" != '$(CURDIR)' ] || ! $(BIN)/python -c '' 2>/dev/null; then \
	  echo "[1/3] creating $(VENV) with $$python ($$version)"; \
	  "$$python" -m venv --clear $(VENV); \
	else echo "[1/3] keeping $(VENV)"; fi
	@rm -f $(STAMP)
	@echo "[2/3] installing the pinned pip"
	@$(BIN)/python -m pip install -qq --upgrade --constraint constraints.txt pip
	@echo "[3/3] installing ledgermq, Spark and the tools from constraints.txt" \
	  "(the first time some 500 MB, a few minutes)"
	@{ $(BIN)/python -m pip install --constraint constraints.txt \
	    --build-constraint constraints.txt --editable '.[spark]' --group dev 2>&1; \
	  echo $$? > $(VENV)/pip.status; } | tee $(VENV)/pip.log | $(brief_pip)
	@status=$$(cat $(VENV)/pip.status); if [ "$$status" != 0 ]; then \
	  tail -n 40 $(VENV)/pip.log >&2; echo "error: pip failed, see above" >&2; exit "$$status"; \
	fi
	@echo '$(CURDIR)' > $(STAMP)
	@echo "$(VENV) is ready"

.PHONY: lock
lock: ## Resolve the newest allowed versions and write constraints.txt.
	@echo "resolving the newest versions in a throw-away environment (a few minutes)"
	@set -e; $(find_python); \
	work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; trap 'exit 130' INT TERM; \
	"$$python" -m venv "$$work/venv"; pip="$$work/venv/bin/python -m pip"; \
	$$pip install -qq --upgrade pip; \
	$$pip install -qq --upgrade setuptools hatchling editables; \
	$$pip install -qq --editable '.[spark]' --group dev; \
	$$pip freeze --all --exclude-editable > "$$work/frozen"; \
	if grep -Ev '^[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+$$' "$$work/frozen"; then \
	  echo "error: the lines above are not of the form name==version." >&2; exit 1; \
	fi; \
	{ echo '# Versions of every package that `make venv` installs or builds with.'; \
	  echo '# Written by `make lock`; do not edit.'; \
	  LC_ALL=C sort -f "$$work/frozen"; } > "$$work/constraints.txt"; \
	cat "$$work/constraints.txt" > constraints.txt; \
	echo "constraints.txt: $$(grep -c == constraints.txt) versions"

.PHONY: test
test: lint types ## Check style, layers and types, then run all tests but the soak tests.
	@$(BIN)/pytest

.PHONY: lint
lint: $(STAMP) ## Check style and formatting, and that the layers are kept.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports

.PHONY: types
types: $(STAMP) ## Check types with mypy --strict.
	@$(BIN)/mypy

.PHONY: demo
demo: $(STAMP) ## Run the demonstration.
	@$(BIN)/python -m ledgermq.parquet_ledger.demo

.PHONY: bench
bench: $(STAMP) ## Run the benchmarks.
	@$(BIN)/python -m tests.benchmarks

.PHONY: soak
soak: $(STAMP) ## Run the long fault tests; SOAK_ROUNDS=500 sets their length.
	@SOAK_ROUNDS='$(SOAK_ROUNDS)' $(BIN)/pytest -m soak

.PHONY: java
java: $(STAMP) ## Print which Java Spark would use.
	@$(BIN)/python -m ledgermq.parquet_ledger.spark

.PHONY: clean
clean: ## Remove .venv, caches and build output.
	rm -rf $(VENV) build dist spark-warehouse .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
