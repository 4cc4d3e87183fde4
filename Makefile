# Every command a developer types. `make help` lists them.
BUILD ?= build/release
PYTHON := .venv/bin/python
export CMAKE_COLOR_DIAGNOSTICS = ON
export INGOT_CACHE = off# tests and benchmarks always compile, and use no cached plan

.PHONY: help setup libraries build test check test-all check-torch check-deep fuzz differential lint format size ops new-op new-kernel docs ulp ulp-cuda operators operators-all bench bench-kernels bench-cuda bench-images bench-images-cuda doors doors-all doors-cuda wheel portable wheel-portable check-portable check-aarch64 dist release quickstart acceptance-cpu acceptance-any-model acceptance-cuda clean

help: ## print this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

setup: ## install Debian packages and .venv with torch
	@tools/setup.sh

$(BUILD)/build.ninja: CMakeLists.txt
	cmake --preset release -B $(BUILD)

libraries: setup $(BUILD)/build.ninja ## build the libraries and the command line
	@cmake --build $(BUILD) -j 2 --target ingot_cli ingot_torch ingot_runtime_library
	@$(PYTHON) tools/make_wheel.py --develop

build: setup $(BUILD)/build.ninja ## build the libraries, the command line and the tests
	@cmake --build $(BUILD) -j 2
	@$(PYTHON) tools/make_wheel.py --develop

check: build lint ## run before every commit: unit tests, small models (minutes)
	@ctest --test-dir $(BUILD) --output-on-failure -j 2
	@$(PYTHON) -m pytest -q -n 2 --dist worksteal --durations=40 --durations-min=5 tests

test: check ## the same as check; works from a clean clone

test-all: build lint ## all tests at full sizes
	@INGOT_TEST_ALL=1 ctest --test-dir $(BUILD) --output-on-failure -j 2
	@INGOT_TEST_ALL=1 $(PYTHON) -m pytest -q -n 2 tests

SECONDS ?= 600
ASAN := build/asan
FUZZERS := importer:archives plan:plans graph:graphs
fuzz: build ## run the fuzzers (archives, plans, graphs) under address and undefined sanitizers, SECONDS=600 each
	@cmake --preset asan >/dev/null && cmake --build $(ASAN) -j 2 --target fuzz_importer fuzz_plan fuzz_graph pretend_driver pretend_cublaslt pretend_cufft
	@$(PYTHON) tests/fuzz/seeds.py $(ASAN) --ingot $(BUILD)/ingot
	@cd $(ASAN) && export INGOT_LIBRARY_PATH=$$PWD/pretend INGOT_PRETEND=memory=16777216 && for f in $(FUZZERS); do ./fuzz_$${f%:*} -max_total_time=$(SECONDS) -timeout=30 -rss_limit_mb=3000 -print_final_stats=1 $${f#*:} || exit 1; done

TORCH ?= python3.10=2.10.0 python3.13=2.15.0
check-torch: wheel ## the wheels beside the oldest and the newest Python and torch, and tests of every private name of torch there: make check-torch TORCH="python3.11=2.11.0" (by uv; a gigabyte each)
	@$(PYTHON) tests/wheel/environments.py $(TORCH)

check-deep: build lint ## run at the end of a piece of work: format, unit tests under address, undefined and thread sanitizers, all emulated kernels, random programs and cases that a plain run samples, 60 s of each fuzzer, the Python tests on the wheel that is released, the wheel for AArch64 under qemu, killed users of one cache, the site in a browser
	@git ls-files '*.cpp' '*.h' '*.inc' | xargs clang-format-19 --dry-run -Werror
	@cmake --preset asan >/dev/null && cmake --build $(ASAN) -j 2 && ctest --test-dir $(ASAN) --output-on-failure -j 2
	@cmake --preset tsan >/dev/null && cmake --build build/tsan -j 2 --target test_base test_runtime test_threads && ctest --test-dir build/tsan --output-on-failure -R '^(base|runtime|threads)$$'
	@INGOT_TEST_ALL=1 ctest --test-dir $(BUILD) --output-on-failure -j 2 -R '^(backend_cuda|backend_cuda_half|compile)$$'
	@INGOT_TEST_ALL=1 $(PYTHON) -m pytest -q -n 2 tests/differential
	@INGOT_TEST_ALL=1 $(PYTHON) -m pytest -q -n 2 -m one_in tests
	@$(MAKE) check-portable
	@$(MAKE) check-aarch64
	@$(MAKE) fuzz SECONDS=60
	@$(PYTHON) -W ignore tests/robustness/cache_kills.py --kills 200 --disk roomy,short-files
	@INGOT_TEST_SITE=1 $(PYTHON) -m pytest -q tests/docs/test_site.py tests/docs/test_search.py

differential: build ## compare random programs with eager by every way through ingot, SECONDS=600, SEED from the clock
	@$(PYTHON) tests/differential --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

JOBS ?= 1
ulp: build ## write errors of float32 functions over all inputs, beside torch's, to docs/accuracy.md (hours on one core; JOBS=16)
	@INGOT_BUILD=$(BUILD) nice -n 15 $(PYTHON) tests/ulp/walk.py --write --jobs $(JOBS)

ulp-cuda: build ## the same on an NVIDIA GPU
	@INGOT_BUILD=$(BUILD) $(PYTHON) tests/ulp/walk.py --write --device cuda

DOCS := build/docs-venv
$(DOCS)/installed: docs/requirements.txt
	@python3 -m venv $(DOCS) && $(DOCS)/bin/pip install -q -r docs/requirements.txt && touch $@

docs: $(DOCS)/installed ## build the documentation site in build/site (open build/site/index.html)
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict --quiet
	@echo build/site/index.html

lint: ## check the include rule, that long classes share little state, that long conditions have names, and where the numbers are by which kernels are chosen
	@python3 tools/check_layers.py
	@python3 tools/check_classes.py
	@python3 tools/check_conditions.py
	@python3 tools/check_constants.py

format: ## run clang-format on all C++ files
	@git ls-files '*.cpp' '*.h' '*.inc' | xargs clang-format-19 -i

size: build ## sizes of the stripped libraries, and what files the runtime's is made of
	@for f in libingot.so libingot_runtime.so libingot_torch.so; do strip -o /tmp/$$f $(BUILD)/$$f; ls -l /tmp/$$f | awk '{print $$5, "bytes", $$9}'; rm /tmp/$$f; done
	@$(PYTHON) tools/size_by_file.py --build $(BUILD)

ops: build ## print the operator table
	@$(BUILD)/ingot ops

new-op: ## write an operator definition: SCHEMA="frac(Tensor self) -> Tensor" FAMILY=pointwise
	@python3 tools/new_op.py "$(SCHEMA)" "$(FAMILY)"

new-kernel: ## write the folder of a CPU kernel: NAME=roll
	@python3 tools/new_kernel.py "$(NAME)"

bench: build ## time models beside eager, inductor, ONNX Runtime and OpenVINO, in one run
	@$(PYTHON) -c "import onnxruntime, openvino, onnxscript" 2>/dev/null || .venv/bin/pip install -q onnx onnxscript onnxruntime openvino
	@$(PYTHON) bench/cpu.py

operators: build ## single operators beside eager, one thread: 1,600 problems (15 minutes), and the page of the slowest
	@$(PYTHON) bench/operators.py && $(PYTHON) bench/operators.py --page

operators-all: build ## the same with two threads, and on a GPU if torch sees one
	@$(PYTHON) bench/operators.py && $(PYTHON) bench/operators.py --threads 2
	@$(PYTHON) -c "import sys, torch; sys.exit(not torch.cuda.is_available())" && $(PYTHON) bench/operators.py --device cuda || true
	@$(PYTHON) bench/operators.py --page

bench-kernels: build ## time single kernels beside MKL, oneDNN, torch and inductor
	@$(PYTHON) bench/kernels_cpu.py

bench-cuda: build ## time models on an NVIDIA GPU beside eager and inductor, in one run
	@$(PYTHON) bench/cuda.py

bench-images: build ## time models of images and sound (torchvision, diffusers, transformers) on the CPU beside eager, inductor, ONNX Runtime and OpenVINO
	@$(PYTHON) -c "import onnxruntime, openvino, onnxscript" 2>/dev/null || .venv/bin/pip install -q onnx onnxscript onnxruntime openvino
	@$(PYTHON) bench/cpu.py --rows images

bench-images-cuda: build ## time models of images and diffusion (torchvision, diffusers) on an NVIDIA GPU beside eager and inductor
	@$(PYTHON) bench/cuda.py --rows images

DOORS_PACKAGES = $(PYTHON) -c "import timm, diffusers" 2>/dev/null || .venv/bin/pip install -q --no-deps -r bench/requirements.txt
doors: build ## on the CPU, every model by every door in float32 and bfloat16; builds, errors and times by two doors (20 minutes)
	@$(DOORS_PACKAGES)
	@$(PYTHON) bench/doors.py && $(PYTHON) bench/doors.py --page

doors-all: build ## the same for every door, mode and type, built (hours)
	@$(DOORS_PACKAGES)
	@$(PYTHON) bench/doors.py --build all --modes no_grad,grad,inference_mode,autocast --dtypes float32,float16,bfloat16 --resume && $(PYTHON) bench/doors.py --page

OUT ?= bench/results
doors-cuda: ## on an NVIDIA GPU with 16 cores, torch.compile in float32 first, for 8 minutes; lines in OUT=bench/results
	@$(PYTHON) bench/doors.py --device cuda --jobs 14 --seconds 460 --out $(OUT)

wheel: build ## write dist/torch_ingot-*.whl, and the wheel for the name torch_tensorrt
	@$(PYTHON) tools/make_wheel.py --build $(BUILD)
	@$(PYTHON) tools/make_wheel.py --torch-tensorrt

ARCH ?= x86_64
PORTABLE := build/portable$(if $(filter-out x86_64,$(ARCH)),-$(ARCH))
portable: setup ## build the libraries and the command line for every Linux with glibc 2.28 or later, by PyPI's zig; ARCH=aarch64
	@tools/portable.sh $(ARCH)
	@cmake --preset $(notdir $(PORTABLE)) >/dev/null && cmake --build $(PORTABLE) -j 2 --target ingot_cli ingot_torch ingot_runtime_library

wheel-portable: portable ## write dist/torch_ingot-*-manylinux_2_28_x86_64.whl of that build, and the wheel for the name torch_tensorrt; ARCH=aarch64
	@$(PYTHON) tools/make_wheel.py --build $(PORTABLE) --platform manylinux_2_28_$(ARCH)
	@$(PYTHON) tools/make_wheel.py --torch-tensorrt

check-portable: wheel-portable ## run the Python tests on that wheel, unpacked
	@rm -rf $(PORTABLE)/wheel && $(PYTHON) -m zipfile -e dist/torch_ingot-[0-9]*-manylinux_2_28_x86_64.whl $(PORTABLE)/wheel && chmod +x $(PORTABLE)/wheel/ingot/lib/ingot
	@PYTHONPATH=$(CURDIR)/$(PORTABLE)/wheel INGOT_BUILD=$(PORTABLE) $(PYTHON) -m pytest -q -n 2 tests
	@INGOT_BUILD=$(PORTABLE) INGOT_TEST_ALL=1 $(PYTHON) -m pytest -q tests/wheel/test_wheel.py tests/wheel/test_readme.py

# Not under qemu, which lists no flags of memory; and of libraries with a C++ library inside, whose build is their own.
AARCH64_TESTS := -huge_pages.large_memory_asks_for_them:BuildId.of_this_program
check-aarch64: ## run unit tests, the command line and the engine with numpy of the wheel for AArch64 under qemu (Debian's qemu-user-static)
	@$(MAKE) wheel-portable ARCH=aarch64
	@$(PYTHON) tests/wheel/aarch64.py dist/torch_ingot-[0-9]*-manylinux_2_28_aarch64.whl --root build/portable-tools-aarch64/root
	@cmake --build build/portable-aarch64 -j 2 --target test_base test_ir test_plan test_backend_cpu
	@GTEST_FILTER=$(AARCH64_TESTS) ctest --test-dir build/portable-aarch64 --output-on-failure -j 2 -R '^(base|ir|plan|backend_cpu)$$'

dist: libraries ## write dist/ingot-*.tar.gz: libraries, headers and the command, for any folder of a machine with this glibc or later
	@$(PYTHON) tools/make_wheel.py --build $(BUILD) --tarball

release: ## write all packages of a tagged commit to dist/, with their parts and SHA256SUMS; DRAFT=1 for any commit (docs/releasing.md)
	@$(if $(DRAFT),,$(PYTHON) tools/release.py --ready)
	@rm -rf dist
	@$(MAKE) --no-print-directory wheel dist
	@$(PYTHON) tools/make_wheel.py --sdist
	@$(PYTHON) tools/release.py

quickstart: ## run a real model: from PyTorch to a plan to answers; WHEEL=path or URL, or a wheel in dist/, needs no compiler
	@BUILD=$(BUILD) tools/quickstart.sh $(WHEEL)

acceptance-cpu: build ## print every figure by which the CPU work is judged, with its bar
	@INGOT_CLI=$(BUILD)/ingot $(PYTHON) tools/acceptance_cpu.py

acceptance-any-model: build ## the same for fallback, mutation, options and saving
	@$(PYTHON) tools/acceptance_any_model.py

acceptance-cuda: build ## the same for an NVIDIA GPU (bars for an H200)
	@$(PYTHON) tools/acceptance_cuda.py

clean: ## remove build outputs
	rm -rf build dist
