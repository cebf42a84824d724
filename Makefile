# The front door. Every target sets up what it needs; a second run finds it there.
#   make run    two processes train core-cnn on real MNIST      make test   build and run the tests
JOBS ?= $(shell nproc)
PRESET ?= release
RUN_FLAGS ?=
BENCH_FLAGS ?=
FUZZ_SECONDS ?= 60
E2E ?=
# The tag of the images; empty: the version. Not the environment's TAG, which may be of something else.
TAG :=
BIN := build/$(PRESET)/bin
BUILD_NEEDS := $(if $(filter cuda,$(PRESET)),cuda,build)

.PHONY: run programs test test-all test-peers test-python test-aarch64 build images images-cuda images-arm64 e2e lint bench bench-input \
  tsan asan fuzz clean help
.DEFAULT_GOAL := help

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make run         train examples/mnist.yaml on this machine; RUN_FLAGS adds to `lockstep run`
run: programs
	@tools/setup data
	@mnist=$$(tools/fetch-mnist) && \
	$(BIN)/lockstep run examples/mnist.yaml --volume data="$$mnist" $(RUN_FLAGS)

## make programs    lockstep and lockstep-trainer alone: what `lockstep run` needs
programs:
	@tools/setup $(BUILD_NEEDS)
	@tools/build $(PRESET) $(JOBS) lockstep lockstep-trainer

## make build       every program and test; binaries in build/release/bin
build:
	@tools/setup $(BUILD_NEEDS)
	@tools/build $(PRESET) $(JOBS)

## make test        build, then every test but those against peers
test: build
	@tools/setup test
	@tools/setup nvcc || echo "make: without nvcc, the test cuda_kernels is skipped (the reason is above)" >&2
	@tools/setup kube
	@tools/setup chart
	@tools/setup python
	@ctest --preset $(PRESET) -j$(JOBS)

## make test-all    make test, a hundred kills under each strategy, a hundred jobs beside a hostile tenant's,
##                  `make run` in a fresh Debian 12 and 13, make e2e; needs root, takes three hours
test-all: test
	@tools/setup data
	@cd tests/local_run && LOCKSTEP_BIN=$(CURDIR)/$(BIN) ../support/run_unittest chaos_test
	@cd tests/integration && LOCKSTEP_BIN=$(CURDIR)/$(BIN) ../support/run_unittest hostile_tenant_test
	@tests/e2e/debian/run
	@$(MAKE) --no-print-directory e2e

## make asan        the tests under AddressSanitizer and UBSan
asan:
	@$(MAKE) test PRESET=asan

## make tsan        the tests under ThreadSanitizer
tsan:
	@$(MAKE) test PRESET=tsan

## make fuzz        every parser under libFuzzer, FUZZ_SECONDS (60) each
fuzz:
	@tools/setup fuzz
	@tools/build --configure fuzz
	@cmake --build --preset fuzz -j$(JOBS)
	@tests/fuzz/run.py --build build/fuzz --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

## make test-peers  against TensorFlow, TensorBoard, ONNX Runtime, JAX, PyTorch, transformers and a mounted bucket of an
##                  S3-compatible server, which it installs (3 GB)
test-peers: build
	@tools/setup frameworks
	@tools/setup storage
	@ctest --test-dir build/$(PRESET) --output-on-failure --no-tests=error -L peer

## make test-python  the tests of the Python client, python/, alone
test-python:
	@tools/setup build
	@tools/setup kube
	@tools/setup python
	@tools/build $(PRESET) $(JOBS) lockstep lockstep-operator
	@ctest --preset $(PRESET) -R '^python\.'

## make test-aarch64  cross-compile for 64-bit ARM and run the unit tests under QEMU
test-aarch64:
	@tools/setup aarch64
	@tests/aarch64/run --jobs $(JOBS)

## make bench       images per second beside PyTorch and TensorFlow; BENCH_FLAGS goes to tools/bench/bench
bench: build
	@tools/setup data
	@tools/setup bench
	@tools/bench/bench --trainer $(BIN)/lockstep-trainer --lockstep $(BIN)/lockstep \
	  --data "$$(tools/fetch-mnist)" $(BENCH_FLAGS)

## make bench-input  samples per second of reading and decoding files, beside tf.data and torchvision
bench-input:
	@tools/setup bench
	@tools/build $(PRESET) $(JOBS) lockstep lockstep-trainer
	@tools/bench/pipelines --lockstep $(BIN)/lockstep $(BENCH_FLAGS)

## make images      the operator's and the trainer's container images, of the tag TAG (the version); needs a Docker
##                  engine
images:
	@tools/setup build
	@tools/build $(PRESET) $(JOBS) lockstep lockstep-operator lockstep-trainer
	@images=$$(tools/images --preset $(PRESET) $(TAG:%=--tag %)) && PRESET=$(PRESET) tests/e2e/images_test $$images

## make images-cuda  the trainer's image for GPUs, from NVIDIA's wheels (1.2 GB are fetched once)
images-cuda:
	@tools/setup cuda
	@tools/build cuda $(JOBS) lockstep-trainer
	@images=$$(tools/images $(TAG:%=--tag %) trainer-cuda) && PRESET=cuda tests/e2e/images_test $$images

## make images-arm64  the same for 64-bit ARM, cross-compiled
images-arm64:
	@tools/setup aarch64
	@tools/build aarch64 $(JOBS) lockstep lockstep-operator lockstep-trainer
	@tools/images --arch arm64 $(TAG:%=--tag %)

## make e2e         on a kind cluster: all scenarios, or E2E=smoke,lifecycle; builds what is missing; needs root,
##                  takes an hour
e2e:
	@tools/kube/docker-engine.sh
	@$(MAKE) --no-print-directory images TAG= IMAGE_PREFIX=
	@tools/setup data
	@tools/setup chart
	@[ -n "$$KIND_NODE_IMAGE" ] || tools/setup kube
	@LOCKSTEP_BIN=$(CURDIR)/$(BIN) tests/e2e/run $(E2E)

## make lint        formatting, layers, machine paths, clang-tidy (results are cached by content)
lint:
	@tools/setup lint
	@tools/build --configure lint
	@tools/lint --jobs $(JOBS)

## make clean       remove build/ and runs/
clean:
	@rm -rf build runs
