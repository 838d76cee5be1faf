# What is done with this repository, by people and by machines. `make help` lists it.
#
# Works as root, or as a user who may use sudo: installing packages and looking at a whole host
# need root. Needs Rust and make; all else is installed by tools/setup, which says what and why.

.DEFAULT_GOAL := help
.PHONY: help run test quick lint bench lab dist docs clean setup-build setup-test setup-bench

# After `sudo make`, or in a fresh shell, cargo may be installed and not in PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# sudo, when it is needed and does not ask for a password; empty otherwise.
SUDO = $(shell [ "$$(id -u)" -eq 0 ] || { sudo -n true 2>/dev/null && echo sudo -n -E; })

# The target triple of this machine: x86_64-unknown-linux-gnu.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

## help: list the targets
help:
	@sed -n 's/^## \([a-z]*\): /  make \1\t/p' Makefile | expand -t 16

## run: build netwhy and watch this host with it (make run ARGS="--for 3s")
run: setup-build
	cargo build --release --locked -p netwhy
	$(SUDO) $(TARGET_DIR)/release/netwhy $(ARGS)

## test: everything that CI checks
test: setup-test
	@# The live tests make network namespaces, which needs root; without it they say that they skip.
	cargo xtask test $(if $(SUDO),--runner '$(SUDO)')

## quick: what takes a few minutes: format, tidy, unit tests, a dozen scenarios
quick: setup-test
	cargo xtask test --quick $(if $(SUDO),--runner '$(SUDO)')

## lint: format, clippy and the rules of the house
lint: setup-test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask tidy

## bench: netwhy beside ss, conntrack, wrk, ab and tcptrace, its cost, the link emulator
bench: setup-bench
	cargo build --release --locked -p netwhy
	cargo build --release --locked -p lab --example link_bench
	$(SUDO) tools/bench --netwhy $(TARGET_DIR)/release/netwhy $(ARGS)
	$(SUDO) $(TARGET_DIR)/release/examples/link_bench

## lab: every scenario, several times, and the score (make lab VARY=1), into docs/lab-score.md
VARY = 5
lab: setup-test
	cargo build --release --locked -p netwhy
	$(SUDO) $(TARGET_DIR)/release/netwhy lab score --vary $(VARY) \
	    --markdown docs/lab-score.md $(ARGS)

## dist: one static file, dist/netwhy, to be copied to any Linux host of this architecture
dist: setup-build
	RUSTFLAGS='-C target-feature=+crt-static' \
	    cargo build --release --locked -p netwhy --target $(HOST)
	install -D -m 755 $(TARGET_DIR)/$(HOST)/release/netwhy dist/netwhy
	@if LC_ALL=C readelf -lW dist/netwhy | grep -q INTERP || \
	    LC_ALL=C readelf -dW dist/netwhy | grep -q NEEDED; then \
	    echo 'dist/netwhy is not static: it asks for a loader or a library' >&2; exit 1; fi
	@dist/netwhy --version
	@echo "dist/netwhy: static, $$(wc -c <dist/netwhy | numfmt --to=iec-i --suffix=B)"

## docs: write what is generated from the source (causes, schema, scenarios)
docs: setup-build
	cargo xtask docs

## clean: remove what was built
clean:
	cargo clean
	rm -rf dist

setup-build:
	@tools/setup build
setup-test:
	@tools/setup test
setup-bench:
	@tools/setup bench
