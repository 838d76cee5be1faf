# What people and CI do with this repository. `make help` lists the targets.
#
# Run it as root, or as a user with sudo: installing packages and watching a whole host need root. You
# need Rust and make; tools/setup lists and installs the other packages.

.DEFAULT_GOAL := help
.PHONY: help run install uninstall test quick lint bench lab dist docs clean build setup-build \
    setup-test setup-bench

# With sudo, or in a new shell, cargo may be installed but not in PATH.
export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# sudo, if it is needed and asks for no password; otherwise empty.
SUDO = $(shell [ "$$(id -u)" -eq 0 ] || { sudo -n true 2>/dev/null && echo sudo -n -E; })

# The target triple of this machine: x86_64-unknown-linux-gnu.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')

## help: list the targets
help:
	@sed -n 's/^## \([a-z]*\): /  make \1\t/p' Makefile | expand -t 16

## run: build netwhy and watch this host with it (make run ARGS="--for 3s")
run: build
	$(SUDO) $(TARGET_DIR)/release/netwhy $(ARGS)

## install: build and install netwhy, manual pages, completions (PREFIX=/usr/local DESTDIR=)
PREFIX = /usr/local
# A binary that is there already is installed as it is: make install BINARY=dist/netwhy
BINARY =
INSTALLED = $(DESTDIR)$(PREFIX)
install: $(if $(BINARY),,build)
	install -D -m 755 $(or $(BINARY),$(TARGET_DIR)/release/netwhy) '$(INSTALLED)/bin/netwhy'
	umask 022 && '$(INSTALLED)/bin/netwhy' --generate '$(INSTALLED)/share'

## uninstall: remove what install installed
uninstall:
	rm -f '$(INSTALLED)/bin/netwhy' '$(INSTALLED)/share/man/man1/netwhy.1'
	rm -f '$(INSTALLED)'/share/man/man1/netwhy-*.1
	rm -f '$(INSTALLED)/share/bash-completion/completions/netwhy'
	rm -f '$(INSTALLED)/share/zsh/site-functions/_netwhy'
	rm -f '$(INSTALLED)/share/fish/vendor_completions.d/netwhy.fish'

## test: everything that CI checks
test: setup-test
	@# The live tests make network namespaces, which needs root; without root they are skipped.
	cargo xtask test $(if $(SUDO),--runner '$(SUDO)')

## quick: a subset for while you work: format, tidy, unit tests, a dozen scenarios
quick: setup-test
	cargo xtask test --quick $(if $(SUDO),--runner '$(SUDO)')

## lint: format, clippy and the rules of the house
lint: setup-test
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask tidy

## bench: compare netwhy with ss, conntrack, wrk, ab and tcptrace; its cost; the link emulator
bench: setup-bench
	cargo build --release --locked -p netwhy
	cargo build --release --locked -p lab --example link_bench
	$(SUDO) tools/bench --netwhy $(TARGET_DIR)/release/netwhy $(ARGS)
	$(SUDO) $(TARGET_DIR)/release/examples/link_bench

## lab: run every scenario several times, write the score to docs/lab-score.md (make lab VARY=1)
VARY = 5
lab: setup-test
	cargo build --release --locked -p netwhy
	$(SUDO) $(TARGET_DIR)/release/netwhy lab score --vary $(VARY) \
	    --markdown docs/lab-score.md $(ARGS)

## dist: build dist/netwhy, one static file for any Linux host of this architecture
dist: setup-build
	RUSTFLAGS='-C target-feature=+crt-static' \
	    cargo build --release --locked -p netwhy --target $(HOST)
	install -D -m 755 $(TARGET_DIR)/$(HOST)/release/netwhy dist/netwhy
	@if LC_ALL=C readelf -lW dist/netwhy | grep -q INTERP || \
	    LC_ALL=C readelf -dW dist/netwhy | grep -q NEEDED; then \
	    echo 'dist/netwhy is not static: it needs a loader or a library' >&2; exit 1; fi
	@dist/netwhy --version
	@echo "dist/netwhy: static, $$(wc -c <dist/netwhy | numfmt --to=iec-i --suffix=B)"

## docs: write the generated documents (causes, schemas, columns, scenarios, README's sample)
docs: setup-build
	cargo xtask docs

## clean: remove build products
clean:
	cargo clean
	rm -rf dist

build: setup-build
	cargo build --release --locked -p netwhy
setup-build:
	@tools/setup build
setup-test:
	@tools/setup test
setup-bench:
	@tools/setup bench
