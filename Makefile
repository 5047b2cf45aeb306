# `make help` lists the commands. All work is done by scripts/stack (standard library only); see its modules.
STACK := @./scripts/python -m scripts.stack

# Handed on to the command: make test ARGS="tests/unit -k sequence", make demo ARGS=--help
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help up servers down status logs clean demo unit test check gen image bench soak fresh sim chaos mutants trace

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

up: ## start MySQL, Redis, Centrifugo, migrations, service, relay, REST gateway (TASKSTATUS_DB=mariadb: on MariaDB)
	$(STACK) up

servers: ## start MySQL, Redis and Centrifugo only
	$(STACK) servers

down: ## stop what make up started; data stays
	$(STACK) down

status: ## what runs, and where it listens
	$(STACK) status

logs: ## follow the logs (in a pipe: the end of each)
	$(STACK) logs

clean: ## stop the stack and delete its data, keys and logs
	$(STACK) clean

demo: ## a document task with three workers, live, on the running stack
	$(STACK) demo $(ARGS)

unit: ## unit tests, no services
	$(STACK) unit $(ARGS)

test: ## all tests, on MySQL and MariaDB of their own; leaves nothing running
	$(STACK) test $(ARGS)

check: ## formatting, lint, types, layers, contract, generated code, rendered documents
	$(STACK) check $(ARGS)

gen: ## regenerate gen/ from proto/
	@./scripts/python -m scripts.gen

image: ## renew proto/image.binpb, the contract that compatibility is checked against
	$(STACK) image

bench: ## the benchmarks, with ratios measured in one run (ARGS="--only heartbeats growth", ARGS=--quick)
	$(STACK) bench $(ARGS)

soak: ## stream load with a reconnect storm each minute; nothing lost or doubled, RSS flat (SECONDS=1200 RATE=3000)
	$(STACK) soak $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RATE),--rate $(RATE)) $(ARGS)

fresh: ## both README commands in a clean Debian root (needs root)
	$(STACK) fresh $(ARGS)

sim: ## seeded simulation on a virtual clock (ARGS="--seeds 5000", "--seed 17" to replay)
	$(STACK) sim $(ARGS)

chaos: ## load and faults on real processes, judged by the history checker (SECONDS=600, ARGS="--database mariadb")
	$(STACK) chaos $(if $(SECONDS),--total $(SECONDS)) $(ARGS)

mutants: ## switch off one rule at a time; a test that names its spec id must fail
	$(STACK) mutants $(ARGS)

trace: ## spec id → modules → tests
	@./scripts/python -m scripts.trace
