# The main targets are `demo` and `test`. They need Rust, Python 3.11 or later and a C compiler.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# `cargo fmt` does not find modules that a macro declares, so rustfmt is given every file.
RUST_FILES := $(shell find crates docs/examples -name "*.rs" ! -path "*/target/*")
PYTHON_SOURCES := python tests tools docs benches examples
SOURCES := $(shell find crates Cargo.toml Cargo.lock -type f ! -path '*/target/*')
# The tests start hundreds of Python processes. Without stored bytecode, each would compile the package.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup pgo demo check test test-rust test-python bench bench-live instructions compare-ns2 compare-ns3 compare-kernel compare-published reproduce-check docs wheel wheel-check \
    golden golden-diff lint-package check-minimum-rust check-targets check-dependencies check-api check-overflow \
    lint-workflows release man clean

help:
	@echo "make setup        build the package; the command is then $(BIN)/lasthop"
	@echo "make pgo          build it again, optimized for the studies: about a tenth less time"
	@echo "make demo         setup, then Table I of a study next to the published one, and a figure"
	@echo "make check        formatting, lints, types, the faster tests: 2 minutes once it is built"
	@echo "make test         formatting, lints, types, all tests"
	@echo "make bench        speed, and the ratio to ns-2 if it is installed"
	@echo "make bench-live   live links in comparison with toxiproxy, netem and mahimahi"
	@echo "make instructions instructions of a replication, as JSON (needs valgrind)"
	@echo "make compare-ns2  results against ns-2 (needs ns)"
	@echo "make compare-ns3  durations and throughputs of 802.11n, ac and ax against ns-3 (its wheel: 69 MB)"
	@echo "make compare-published  congestion control against published measurements"
	@echo "make compare-kernel  profile linux against a kernel's table"
	@echo "make reproduce-check  results of all studies with 3 replications, against stored digests; CHECK=--full: all replications"
	@echo "make docs         the documentation, in docs/_build/html"
	@echo "make golden       rewrite the golden metrics; make golden-diff explains the changes"
	@echo "make man          man pages, in docs/_build/man"
	@echo "make wheel        a wheel for Linux and an sdist, in dist"
	@echo "make release VERSION=X.Y.Z  all checks, wheel, sdist, checksums and notes, in dist; uploads nothing"

# Virtual environment with the build tool.
$(VENV)/.tools: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or later is needed"'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "maturin==1.16.*"
	touch $@

# `maturin develop` installs in editable form: a changed Python file needs no new build.
$(VENV)/.built: $(VENV)/.tools $(SOURCES)
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" PIP_QUIET=1 $(BIN)/maturin develop --release --locked --quiet
	touch $@

# The extras that the README shows.
$(VENV)/.extras: $(VENV)/.built
	$(BIN)/python -m pip install --quiet \
	    --disable-pip-version-check $$($(BIN)/python tools/requirements.py advise cluster pcap)
	touch $@

$(VENV)/.dev: $(VENV)/.extras
	$(BIN)/python -m pip install --quiet \
	    --disable-pip-version-check $$($(BIN)/python tools/requirements.py dev docs gym pandas)
	touch $@

setup: $(VENV)/.extras

# Compiles the package twice, the second time optimized for a profile of all studies. Needs the `llvm-profdata` of
# rustc (`rustup component add llvm-tools`), or that of the same version of LLVM on PATH.
pgo: setup
	VIRTUAL_ENV="$(CURDIR)/$(VENV)" PIP_QUIET=1 $(BIN)/maturin develop --release --locked --quiet --pgo

demo: setup
	$(BIN)/lasthop reproduce multilayer "Table I" "Figure 2" --out results/demo
	@echo
	@echo "Figure: results/demo/figure-2.png"

# Without property tests, which run thousands of cases, and without slow tests; `make test` runs all.
check: $(VENV)/.dev
	rustfmt --check --edition 2024 $(RUST_FILES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/mypy
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --profile fast --locked --quiet -- --skip properties --skip slow::
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test: test-rust test-python

test-rust:
	rustfmt --check --edition 2024 $(RUST_FILES)
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo test --workspace --profile fast --locked
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked --quiet

test-python: $(VENV)/.dev
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --dist worksteal

bench:
	python3 benches/run.py

bench-live:
	$(BIN)/python benches/live.py

# `make instructions CHECK=--check` fails if a count differs by more than 3 %, `CHECK=--laws` if a congestion
# control algorithm uses too many instructions per ACK, `CHECK=--scale` if a frame takes too many in large networks.
instructions:
	@python3 benches/instructions.py $(CHECK)

compare-ns2: setup
	$(BIN)/python tools/compare_ns2.py

compare-ns3: setup
	$(BIN)/python tools/compare_ns3.py

compare-published: setup
	$(BIN)/python tools/compare_published.py

compare-kernel: setup
	$(BIN)/python tools/compare_kernel.py

# `make reproduce-check CHECK=--full` computes every results.md again and compares byte for byte.
reproduce-check: setup
	$(BIN)/python tools/reproduce_check.py $(CHECK)

docs: $(VENV)/.dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Wheels for Python 3.11 and later on Linux with glibc 2.28 or later: zig links against that.
# They contain the man pages.
wheel: $(VENV)/.dev
	$(BIN)/python tools/man_pages.py lasthop._lasthop.data/data/share/man
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    $$($(BIN)/python tools/requirements.py package)
	rm -rf dist
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --release --locked --zig \
	    --compatibility manylinux_2_28 --out dist
	$(BIN)/maturin sdist --out dist
	@ls dist

# Tests a wheel of the built package in a new environment without Rust. The wheel is for this machine
# only, so nothing is compiled again.
wheel-check: $(VENV)/.dev
	$(BIN)/python tools/man_pages.py lasthop._lasthop.data/data/share/man
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --release --locked --quiet \
	    --compatibility linux --out target/wheel-check
	$(BIN)/python tools/check_wheel.py target/wheel-check

# Checks Dockerfile and CITATION.cff, which no other target uses.
lint-package: $(VENV)/.tools
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    $$($(BIN)/python tools/requirements.py package)
	$(BIN)/hadolint Dockerfile
	$(BIN)/cffconvert --validate

# See crates/lasthop/tests/golden/README.md.
golden:
	LASTHOP_WRITE_GOLDEN=1 cargo test -p lasthop --profile fast --locked --test suite the_golden_file

golden-diff:
	@$(PYTHON) tools/golden_diff.py

# Check with the minimum Rust version of Cargo.toml, and for other target platforms; both need rustup.
MINIMUM_RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
TARGETS := aarch64-unknown-linux-gnu x86_64-pc-windows-gnu

check-minimum-rust:
	rustup toolchain install $(MINIMUM_RUST) --profile minimal --no-self-update
	cargo +$(MINIMUM_RUST) check --workspace --locked --target-dir target/minimum-rust

check-targets:
	rustup target add $(TARGETS)
	for target in $(TARGETS); do cargo check -p lasthop --locked --target $$target || exit 1; done

# Licences, advisories, duplicate versions and sources of third-party crates (deny.toml), and unused
# dependencies. Needs cargo-deny and cargo-machete: `cargo install --locked cargo-deny cargo-machete`.
check-dependencies:
	cargo deny check
	cargo machete

# Runs COUNT random scenarios and all conformance scripts with an engine that checks integer overflow and
# debug assertions. It takes 1.1 to 1.4 times the processor time.
COUNT := 1000
CHECKED := target/check-overflow
check-overflow: $(VENV)/.dev
	cargo build -p lasthop-py --profile checked --locked
	rm -rf $(CHECKED) && mkdir -p $(CHECKED) && cp -r python/lasthop tests $(CHECKED)
	cp target/checked/lib_lasthop.so $(CHECKED)/lasthop/_lasthop.abi3.so
	PYTHONPATH=$(CHECKED) $(BIN)/python -m lasthop tcp-script --profile rfc --quiet tests/tcp-scripts/rfc
	PYTHONPATH=$(CHECKED) $(BIN)/python -m lasthop tcp-script --profile linux --quiet tests/tcp-scripts/linux
	PYTHONPATH=$(CHECKED) $(BIN)/python $(CHECKED)/tests/random_scenarios.py --count $(COUNT)

# Compares the public items of the crates with the latest release, according to semantic versioning.
# Needs cargo-semver-checks; the first release has nothing to compare with.
PREVIOUS = $(shell git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null)

check-api:
	@if [ -z "$(PREVIOUS)" ]; then echo "check-api: no earlier release to compare with"; else \
	    cargo semver-checks --workspace --exclude lasthop-py --baseline-rev $(PREVIOUS); fi

# Needs Go.
lint-workflows:
	go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.7 .github/workflows/*.yml

# VERSION is the version in Cargo.toml, and CHANGELOG.md has a section for it.
release:
	$(PYTHON) tools/release.py check $(VERSION)
	$(MAKE) check-api test docs lint-package wheel
	$(PYTHON) tools/check_wheel.py dist
	$(PYTHON) tools/release.py write $(VERSION)

man: $(VENV)/.dev
	$(BIN)/python tools/man_pages.py docs/_build/man

clean:
	rm -rf $(VENV) docs/_build docs/_generated lasthop._lasthop.data results target
