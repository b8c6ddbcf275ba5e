# Few targets; public CI calls the same ones. `make help` lists them.

CARGO ?= cargo
SECONDS_PER_TARGET ?= 60

.DEFAULT_GOAL := help
.PHONY: help demo lab outages lab-down test check bench figures figures-gateway figures-concise fuzz sim soak miri clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## a four-node cluster beside the three architectures it replaces (ARGS="--help" for more)
	$(CARGO) run --release --locked -p scalebricks --bin scalebricks -- demo $(ARGS)

lab: ## a cluster over real interfaces on this machine, checked from all sides; needs root (ARGS="--arch all", ARGS=--help)
	@scripts/lab.sh run $(ARGS)

outages: ## what breaks in the lab under load, and who feels it: docs/outages.md and docs/outages.json; needs root (ARGS=NAME,...)
	@scripts/lab.sh outages --json docs/outages.json --page docs/outages.md $(ARGS)

lab-down: ## remove whatever a lab left
	@scripts/lab.sh down $(ARGS)

check: ## the quick part of `make test`: format, lints, unit tests
	@scripts/test.sh quick

test: ## will this pass? everything public CI runs
	@scripts/test.sh all

bench: ## measure the tables beside others, in ten minutes (ARGS="setsep-lookup --keys 16M", ARGS=--help)
	@scripts/bench.sh $(ARGS)

figures: ## the paper's figures and tables: docs/figures.md and docs/figures (ARGS=--quick)
	@scripts/bench.sh setsep-figures capacity --json out/figures.json --svg docs/figures --page docs/figures.md $(ARGS)

choosing: ## SetSep, Othello or a full copy: docs/choosing.md, measured anew (ARGS=--quick)
	@scripts/bench.sh choice --json out/choosing.json --svg docs/figures --page docs/choosing.md $(ARGS)

figures-gateway: ## the paper's figures of one node: docs/gateway-figures.md; needs DPDK (ARGS="--keys 1M")
	@scripts/bench.sh --dpdk gateway --keys 1K,32K,1M,8M --json out/figures-gateway.json --svg docs/figures \
		--page docs/gateway-figures.md $(ARGS)

figures-concise: ## the Concise paper's tables and figures: docs/concise-figures.md (ARGS="--quick", ARGS="--capture FILE")
	@scripts/bench.sh concise --json out/figures-concise.json --svg docs/figures --page docs/concise-figures.md $(ARGS)

fuzz: ## fuzz every target for SECONDS_PER_TARGET seconds (60)
	@scripts/fuzz.sh $(SECONDS_PER_TARGET)

sim: ## simulate the control plane with SEEDS seeds a kind of cluster (500)
	@SIM_SEEDS=$(or $(SEEDS),500) $(CARGO) test --locked --package scalebricks-control --test distribution --test cluster --test courier

soak: ## every test SOAK_RUNS times (20), each time with other seeds
	@scripts/test.sh soak

miri: ## run the small blocks under Miri
	@scripts/test.sh miri

clean: ## remove what was built
	$(CARGO) clean
