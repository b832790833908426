# Two commands do everything: `make demo` and `make test`.
SHELL   := /bin/bash
MODULES := . server tools $(wildcard bench breaker/*store)
BIN     := bin
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOBUILD := CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)"

.DEFAULT_GOAL := help
.PHONY: help demo build check test interop race generate bench mutate clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Restart and kill real processes under load and watch nothing get lost (ARGS="--scene rollout --json")
	@./tools/build.sh $(BIN)/eider ./server/cmd/eider "$(VERSION)"
	@exec $(BIN)/eider demo $(ARGS)

build: ## Build bin/eider, one static binary, and bin/eider-lint and bin/eider-run, small ones
	@mkdir -p $(BIN) && $(GOBUILD) -o $(BIN)/eider ./server/cmd/eider && $(GOBUILD) -o $(BIN)/eider-lint ./server/cmd/eider-lint && \
		$(GOBUILD) -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/eider-run ./server/cmd/eider-run

test: ## Run all tests of all modules with the race detector, shuffled
	@./tools/need.sh
	@for m in $(MODULES); do echo "== test $$m"; (cd $$m && go test -race -shuffle=on -timeout 10m $$(go list ./... | grep -vE '/internal/(faults|lab)$$')) || exit 1; done
	@echo "== test server/internal/faults and lab, alone: they stop and kill processes by the clock"
	@cd server && go test -race -shuffle=on -timeout 10m -p 1 ./internal/faults ./internal/lab

interop: ## Restart programs in Node, Python, Java and Spring Boot by eider-run under load
	@./tools/need.sh interop
	@cd interop && go test -count=1 -timeout 20m -v .

check: ## gofmt, vet, staticcheck, generated code, for all modules
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	@cd tools && go build -o ../$(BIN)/staticcheck honnef.co/go/tools/cmd/staticcheck
	@for m in $(MODULES) interop; do echo "== vet, staticcheck $$m"; (cd $$m && go vet ./... && $(CURDIR)/$(BIN)/staticcheck ./...) || exit 1; done
	@cd tools && go test -run TestHouseGenerated .

generate: ## Make the generated code and the golden files anew
	@cd tools && go run ./protogen

bench: ## Run every benchmark; BENCHTIME=1x runs each once
	@for m in $(MODULES); do echo "== bench $$m"; (cd $$m && go test -run '^$$' -bench . -benchmem -benchtime $(or $(BENCHTIME),1s) ./...) || exit 1; done

mutate: ## Take behaviours out one by one and expect red (ARGS="-since REV -only TEXT")
	@cd tools && go run ./mutate $(ARGS)

clean: ## Remove what was built
	@rm -rf $(BIN)
