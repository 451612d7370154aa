# `make demo` and `make test` work from a fresh clone: they need Python 3.11 to 3.14 and the network, once.
PYTHON ?= python3
JOBS ?= 2
# Keep bytecode: the tests start some hundred processes, each of which would compile the package's modules again.
export PYTHONDONTWRITEBYTECODE :=
VENV := .venv
BEFORE ?= HEAD
CROCODDYL := .venv-crocoddyl
CASADI := .venv-casadi
OPTIMISERS := tests/benchmarks/optimisers
AGAINST := tests/benchmarks/against_crocoddyl
BIN := $(VENV)/bin
# Python compiles a module when it is first imported: of 12 663 installed ones, that are 40 s to compile, few ever are.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: demo docs test tests thorough lint bench bench-before bench-crocoddyl bench-limits bench-optimisers bench-warm bench-starts bench-tasks bench-mjcf bench-policy bench-walk bench-feedback bench-own bench-batches bench-gpu bench-pages bench-people size versions kills abuse clean
.DELETE_ON_ERROR:

demo: $(VENV)/.installed
	@$(BIN)/mayne demo

TESTS := -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder
# As many processes as cores: where NumPy shares a product with a second thread, each takes time from the other process.
tests thorough: export OPENBLAS_NUM_THREADS := 1

test: lint docs tests

# Alone, so that `make --jobs 3 test` leaves no core idle while types are checked and the site is built.
tests: $(VENV)/.developed
	@$(BIN)/python $(TESTS)

# All cases of tests that repeat a check, of which `make test` has a few: `make thorough OPTIONS=tests/dynamics`.
thorough: $(VENV)/.developed
	@$(BIN)/python $(TESTS) --thorough $(OPTIONS)

lint: $(VENV)/.developed
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The site, for a browser: site/index.html. A warning, such as a link that leads nowhere, is an error.
docs: $(VENV)/.developed
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs site

# Tutorials and the course as executed notebooks, site/notebooks, as tests write them, too.
.PHONY: notebooks
notebooks: $(VENV)/.developed
	@$(BIN)/python docs/notebooks.py site/notebooks

bench: $(VENV)/.developed
	@$(BIN)/python -m pytest tests/benchmarks --benchmark-enable --benchmark-only

# Against an earlier commit, its time, iterations and machine code: `make bench-before BEFORE=HEAD~1 OPTIONS=--help`.
bench-before: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/against_before/compare.py --before $(BEFORE) $(OPTIONS)

# Lines, kernels, and what first solves of problems compile from nothing: `make size OPTIONS=arm/reach`.
size: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/size.py $(OPTIONS)

# A sample of the tests with every minor version of numba that is allowed: `make versions OPTIONS="--versions 0.63.1"`.
versions: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/versions.py $(OPTIONS)

# Ends programs, then the command, at 100 random moments each and tells what is left: `make kills OPTIONS="--count 20"`.
kills: $(VENV)/.developed
	@$(BIN)/python -m pytest tests/benchmarks/test_kills.py --benchmark-enable --benchmark-only
	@$(BIN)/python tests/benchmarks/kills.py $(OPTIONS)

# Some 50 000 hostile inputs; `make abuse OPTIONS="viz --table"` has those of some rooms alone, and all their outcomes.
abuse: $(VENV)/.developed
	@cd tests && ../$(BIN)/python -m abuse $(OPTIONS)
	@cd tests && ../$(BIN)/python -m abuse.interrupts 20

# What it compares and how: `make bench-crocoddyl OPTIONS=--help`. Crocoddyl lives in an environment of its own.
bench-crocoddyl: $(VENV)/.developed $(CROCODDYL)/.installed
	@$(BIN)/python $(AGAINST)/compare.py --python $(CROCODDYL)/bin/python $(OPTIONS)

# Iterations within limits of controls beside those of Crocoddyl's box solvers.
bench-limits: $(VENV)/.developed $(CROCODDYL)/.installed
	@$(BIN)/python $(AGAINST)/limits.py --python $(CROCODDYL)/bin/python

# Problems with limits and constraints beside IPOPT and FATROP, which live in an environment of their own; what they solve
# is compiled: minutes, for all. `make bench-optimisers OPTIONS="--problems cartpole/rail"` has some.
bench-optimisers: $(VENV)/.developed $(CASADI)/.installed
	@PYTHONPATH=. $(BIN)/python $(OPTIMISERS)/compare.py --python $(CASADI)/bin/python $(OPTIONS)

# Warm starts beside cold solves, and receding horizons that are pushed.
bench-warm: $(VENV)/.developed
	@$(BIN)/python -m tests.benchmarks.optimisers.warm

# The default beside iLQR from 251 random starts: work, iterations, optima; `make bench-starts OPTIONS=pendulum/swing-up`.
bench-starts: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/paired_starts.py $(OPTIONS)

# What people ask of arms that stand still, iterations of each: `make bench-tasks OPTIONS="--robots ur5"`.
bench-tasks: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/tasks_from_rest.py $(OPTIONS)

# Robots of MJCF files against MuJoCo's own dynamics: `make bench-mjcf OPTIONS=--help`.
bench-mjcf: $(VENV)/.developed
	@$(INSTALL) dm_control
	@$(BIN)/python tests/benchmarks/mjcf_table.py $(OPTIONS)

# Policies of gaits in MuJoCo's contacts beside a joint PD: `make bench-policy OPTIONS="--gaits go2:trot"`.
bench-policy: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/policies.py $(OPTIONS)

# Pages that answer, in headless Chromium: sliders of lessons, robots that are pushed.
bench-people: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/people.py $(OPTIONS)

# Pages of all problems in headless Chromium: pictures, sizes, first frames; `make bench-pages OPTIONS="arm/reach"`.
bench-pages: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/pages.py $(OPTIONS)

# Functions of one's own and compositions against their bars, beside JAX and CasADi where they are installed.
bench-own: $(VENV)/.developed
	@$(BIN)/python -m tests.benchmarks.own_systems

# Gaits by commands in MuJoCo's contacts, planned again and again: `make bench-walk OPTIONS="--robots go2"`.
bench-walk: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/walking.py $(OPTIONS)

# The solver's gains beside a regulator's, from random errors of attitude; the table is printed.
bench-feedback: $(VENV)/.developed
	@$(BIN)/python -m pytest tests/benchmarks/test_feedback.py --benchmark-enable --capture no $(OPTIONS)

# Dynamics on an NVIDIA GPU beside one core of the processor: `make bench-gpu OPTIONS="ur5 --samples 65536"`.
bench-gpu: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/gpu.py $(OPTIONS)

# Many solves beside a loop, from neighbours beside cold, and kills: `make bench-batches OPTIONS="kills --samples 3000"`.
bench-batches: $(VENV)/.developed
	@$(BIN)/python tests/benchmarks/batches.py $(OPTIONS)

$(CROCODDYL)/.installed: $(AGAINST)/requirements.txt
	@echo "installing Crocoddyl into $(CROCODDYL) (first run only)..."
	@$(PYTHON) -m venv $(CROCODDYL)
	@$(CROCODDYL)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(CASADI)/.installed: $(OPTIMISERS)/requirements.txt
	@echo "installing CasADi into $(CASADI) (first run only)..."
	@$(PYTHON) -m venv $(CASADI)
	@$(CASADI)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 15) else "mayne runs on Python 3.11 to 3.14, this is " + sys.version.split()[0] + ": try make PYTHON=python3.12")'
	@echo "installing mayne and what it needs into $(VENV) (first run only)..."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --editable '.[mujoco]'
	@touch $@

$(VENV)/.developed: $(VENV)/.installed
	@echo "installing the tools for testing into $(VENV) (first run only)..."
	@$(INSTALL) --editable '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) $(CROCODDYL) demo site build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .benchmarks
	find ddp dynamics mayne problems viz tests -name __pycache__ -type d -prune -exec rm -rf {} +
