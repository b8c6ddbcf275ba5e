# `make help` lists the targets. Public CI uses the same ones.

CARGO ?= cargo
SECONDS_PER_TARGET ?= 60

.DEFAULT_GOAL := help
.PHONY: help demo lab lab-router outages lab-down test check bench tables scale cluster-scale control-figures figures choosing figures-gateway figures-concise figures-router \
	demo-page lab-page pages book capi wheel package monitoring release deb deb-test quickstart dashboard-test image image-test kubernetes fuzz sim soak miri clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## compare a four-node cluster with three other architectures (ARGS=--help for options)
	$(CARGO) run --release --locked -p scalebricks-lab --no-default-features --bin demo -- $(ARGS)

lab: ## run and check a cluster over real interfaces on this machine; needs root (ARGS="--arch all", ARGS=--help)
	@scripts/lab.sh run $(ARGS)

outages: ## measure the effect of outages in the lab under load: docs/outages.md; needs root
	@scripts/lab.sh outages --page $(ARGS)
	@$(CARGO) run --release --locked -p scalebricks-bench -- pages

lab-router: ## check routers between the kernels' own network stacks; needs root (ARGS="tunnel --quick")
	@scripts/lab.sh router $(ARGS)

lab-down: ## remove the remains of a lab
	@scripts/lab.sh down $(ARGS)

check: ## after a change: format, lints, unit tests of changed crates, layering
	@scripts/test.sh quick

test: ## all tests; needs only cargo (STAGES=all: everything that CI runs, more than half an hour)
	@scripts/test.sh $(or $(STAGES),test)

bench: ## measure the tables and other structures in ten minutes (ARGS="setsep-lookup --keys 16M", ARGS=--help)
	@scripts/bench.sh $(ARGS)

tables: ## measure build, lookup, update, reshape, exact table: docs/measured.md, docs/tables.md (ARGS="--runs 7")
	@scripts/bench.sh setsep-build setsep-lookup turned-over setsep-update othello-update fib --keys 1M,16M \
		--also turned-over=64M,fib=8M --value-bits 2 --format linear --batch 1,32,64,1024,65536 --page tables $(ARGS)

scale: ## build up to a billion keys in partitions: docs/scale.md (ARGS="--keys 100M")
	@scripts/bench.sh scale --page scale $(ARGS)

cluster-scale: ## bring 16 million flows to 64 nodes, and to one partition of 64: docs/scale.md (ARGS="--keys 4M")
	@scripts/bench.sh cluster-scale --page cluster-scale $(ARGS)

control-figures: ## measure the control plane: docs/measured.md
	@scripts/bench.sh control --page control $(ARGS)

figures: ## repeat the paper's figures and tables: docs/figures.md
	@scripts/bench.sh setsep-figures capacity --page figures $(ARGS)

choosing: ## compare SetSep, Othello and a full copy: docs/choosing.md
	@scripts/bench.sh choice --page choosing $(ARGS)

figures-gateway: ## repeat the paper's figures of one node: docs/gateway-figures.md; needs DPDK
	@scripts/bench.sh --dpdk gateway --keys 1K,32K,1M,8M --page gateway-figures $(ARGS)

figures-concise: ## repeat the Concise paper's tables and figures: docs/concise-figures.md (ARGS="--capture FILE")
	@scripts/bench.sh concise --page concise-figures $(ARGS)

figures-router: ## repeat the RouteBricks paper's tables and figures: docs/router-figures.md; needs DPDK (ARGS="--routes FILE,FILE")
	@scripts/router-figures.sh $(ARGS)

figures-dhash: ## repeat the DHash paper's tables: docs/dhash-figures.md; needs DPDK
	@scripts/bench.sh --dpdk dhash --page dhash-figures $(ARGS)

demo-page: ## update the demonstration's output and picture in the README
	$(CARGO) run --release --locked -p scalebricks --bin scalebricks -- demo --page $(ARGS)
	@$(CARGO) run --release --locked -p scalebricks-bench -- pages

lab-page: ## update the lab's output in docs/lab.md; needs root
	@scripts/lab.sh run --page $(ARGS)
	@$(CARGO) run --release --locked -p scalebricks-bench -- pages

pages: ## write all pages and pictures from docs/data, measure nothing (ARGS=--check)
	@$(CARGO) run --quiet --locked -p scalebricks-bench -- pages $(ARGS)

monitoring: ## check the alert rules and the Grafana dashboard; needs promtool (ARGS="--program PATH": also against a running node)
	@scripts/monitoring-check $(ARGS)

dashboard-test: ## use the dashboard in a headless browser, against a lab in which a node is killed; needs root, DPDK, chromium
	@FULL=1 INSTALL_TOOLS=1 scripts/test.sh dashboard

release: ## build packages, wheel, C library, crates, bill of materials and checksums of a release: target/release-VERSION
	@scripts/release.sh $(ARGS)

deb: ## build the Debian packages: target/deb; needs DPDK, dpkg-dev (ARGS="--binary PATH")
	@scripts/deb.sh $(ARGS)

deb-test: ## install, use and purge the Debian package in a clean Debian 12; needs root, debootstrap (ARGS=PACKAGE)
	@scripts/deb-test.sh $(or $(ARGS),$(firstword $(wildcard target/deb/scalebricks_*.deb)))

quickstart: ## run the quick starts of README in a clean Debian 12; needs root, debootstrap, and time (ARGS=operator)
	@scripts/quickstart-test $(ARGS)

image: ## build a container image from the Debian package: target/image; needs mmdebstrap, buildah (ARGS="--binary PATH")
	@scripts/image.sh $(ARGS)

image-test: ## run the container image with podman; needs root (PODMAN="podman --runtime runc" where crun fails)
	@scripts/image-test.sh $(ARGS)

kubernetes: ## validate the kustomize base and its example; needs Go (ARGS="--program PATH": also the configurations)
	@scripts/kubernetes-check $(ARGS)

capi: ## install the C library, header and pkg-config file (PREFIX=/usr/local; DESTDIR for packages)
	@scripts/capi-install $(or $(PREFIX),/usr/local)

wheel: ## build a Python wheel: target/wheels; needs maturin (pip install maturin)
	@maturin build --locked --release --manifest-path python/Cargo.toml --out target/wheels

package: ## package the crates of the tables as for crates.io, and test the packages
	@scripts/package-test

book: ## build the site of the documentation: target/book; needs python3
	@$(CARGO) run --quiet --locked -p scalebricks-report --example book

fuzz: ## fuzz every target for SECONDS_PER_TARGET seconds (60)
	@scripts/fuzz.sh $(SECONDS_PER_TARGET)

sim: ## simulate the control plane with SEEDS seeds per kind of cluster (500)
	@SIM_SEEDS=$(or $(SEEDS),500) $(CARGO) test --locked --package scalebricks-control --test integration -- distribution:: cluster:: courier::
	@SIM_SEEDS=$(or $(SEEDS),500) $(CARGO) test --locked --package scalebricks --test integration simulation::any_seed

soak: ## run every test SOAK_RUNS times (20), each time with other seeds
	@scripts/test.sh soak

miri: ## run the tests of small tables under Miri
	@scripts/test.sh miri

clean: ## remove build results
	$(CARGO) clean
