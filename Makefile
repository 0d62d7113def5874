# attentiond. Two commands do everything on a fresh Debian: `make run` and `make test`.
CC ?= gcc
PREFIX ?= /usr/local
DESTDIR ?=
SAN ?=
comma := ,
space := $(subst ,, )
B := build$(if $(SAN),/$(subst $(comma),-,$(SAN)))
VERSION := $(shell cat VERSION)
REVISION := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)

WARN := -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wvla $(if $(WERROR),-Werror)
OPT ?= -O2 -g
ALL_CFLAGS = -std=c17 -D_GNU_SOURCE $(OPT) $(WARN) -fno-math-errno -ffp-contract=off -fPIE -pthread -MMD -MP \
  $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(CFLAGS)
ALL_LDFLAGS = -pie -pthread $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
BLAS ?= -lopenblas
LIBS = -lmicrohttpd -ljansson -lz -lzstd $(BLAS) -lm

# ---- core: plain sources once, typed ones for float and for double, kernel rows by architecture ----
ROWS_x86_64 := avx2 avx512
ROWS_aarch64 := neon
ROWS := portable $(ROWS_$(ARCH))
FLAGS_avx2 := -mavx2 -mfma
FLAGS_avx512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma
KERNELS := $(wildcard $(ROWS:%=core/engine/kernels/%.c))
CORE_SRC := $(wildcard core/*.c core/*/*.c) $(KERNELS)
TYPED := $(shell grep -lE 'include "([a-z./]*/)?(ops|tile)\.h"' $(CORE_SRC))
CORE_OBJ := $(patsubst %.c,$(B)/%.o,$(filter-out $(TYPED),$(CORE_SRC))) \
  $(foreach t,f32 f64,$(patsubst %.c,$(B)/%_$t.o,$(filter $(TYPED),$(CORE_SRC))))
API_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard api/*.c api/*/*.c)) $(B)/api/openapi_json.o
SERVER_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard server/*.c))
# gcc 12 hardly vectorises at -O2; for aarch64 it fails on wide_range.c at -O3, which need not be fast. KERNEL_FLAGS: for the rows alone, which compile slowly under a sanitizer
kernel_flags = $(FLAGS_$(basename $(notdir $<))) $(if $(filter core/%,$(filter-out core/softmax/wide_range.c,$<)),-O3) \
  $(if $(findstring core/engine/kernels/,$<),$(KERNEL_FLAGS))

all: $(B)/attentiond

$(B)/attentiond: $(SERVER_OBJ) $(B)/api.a $(B)/core.a
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(B)/core.a: $(CORE_OBJ)
	rm -f $@ && ar qcs $@ $^
$(B)/server.a: $(filter-out $(B)/server/main.o,$(SERVER_OBJ))
	rm -f $@ && ar qcs $@ $^
$(B)/api.a: $(API_OBJ)
	rm -f $@ && ar qcs $@ $^
$(B)/%_f32.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(kernel_flags) -c -o $@ $<
$(B)/%_f64.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(kernel_flags) -DATTN_DOUBLE -c -o $@ $<
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(kernel_flags) -DATTENTIOND_VERSION='"$(VERSION)"' -DATTENTIOND_REVISION='"$(REVISION)"' -c -o $@ $<
$(B)/api/openapi_json.c: api/openapi.json tools/embed.sh
	@mkdir -p $(@D)
	sh tools/embed.sh api_openapi_json $< > $@
$(B)/api/openapi_json.o: $(B)/api/openapi_json.c
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

# ---- tests: every tests/unit/test_*.c is a program on core and api, every tests/http/test_*.c one on libcurl ----
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
HTTP := $(patsubst tests/http/%.c,$(B)/tests/http/%,$(wildcard tests/http/test_*.c))
SUPPORT_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/support/*.c))
HTTP_OBJ := $(patsubst %.c,$(B)/%.o,$(filter-out tests/http/test_%.c,$(wildcard tests/http/*.c)))
RUN_TESTS = ATTENTIOND=$(B)/attentiond sh tests/run.sh
FUZZ_SECONDS ?= 60

$(UNIT): $(B)/tests/%: $(B)/tests/unit/%.o $(SUPPORT_OBJ) $(B)/server.a $(B)/api.a $(B)/core.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(HTTP): $(B)/tests/http/%: $(B)/tests/http/%.o $(HTTP_OBJ) $(B)/tests/support/check.o
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcurl -ljansson -lz -lm
# every allocation of this program goes through its own counter
$(B)/tests/test_alloc: ALL_LDFLAGS += -Wl,$(subst $(space),$(comma),$(patsubst %,--wrap=%,malloc calloc realloc \
  aligned_alloc posix_memalign strdup free mmap munmap mremap))
test: test-setup
	$(MAKE) --no-print-directory -j$$(nproc) $(B)/attentiond test-programs
	$(RUN_TESTS) $(UNIT) $(HTTP)
test-setup:
	sh tools/install-deps.sh test
test-programs: $(UNIT) $(HTTP)
unit: $(UNIT)
	$(RUN_TESTS) $(UNIT)
http: $(B)/attentiond $(HTTP)
	$(RUN_TESTS) $(HTTP)
test-exhaustive: $(B)/attentiond $(UNIT) $(HTTP)
	CHECK_EXHAUSTIVE=1 $(RUN_TESTS) $(UNIT) $(HTTP)

# The fuzz target is clang's, in a folder of its own; without clang, $(B)/tests/fuzz/replay runs the same files.
FUZZ := build/fuzz
FUZZ_MAKE = $(MAKE) B=$(FUZZ) CC=clang SAN=address,undefined OPT="-O1 -g" CFLAGS=-fsanitize=fuzzer-no-link \
  KERNEL_FLAGS="-fno-sanitize=all -O1"
VENV := build/venv
$(B)/tests/fuzz/replay: $(B)/tests/fuzz/fuzz_api.o $(B)/tests/fuzz/replay.o $(B)/api.a $(B)/core.a
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(B)/tests/fuzz/corpus: $(B)/tests/fuzz/corpus_of_cases $(wildcard tests/cases/*/*.json)
	mkdir -p $@ && $< $@ $(filter %.json,$^) && touch $@
$(B)/tests/fuzz/corpus_of_cases: $(B)/tests/fuzz/corpus_of_cases.o $(HTTP_OBJ) $(B)/tests/support/check.o
	$(CC) $(ALL_LDFLAGS) -o $@ $^ -lcurl -ljansson -lz -lm
$(B)/tests/fuzz/replay_oip: $(B)/tests/fuzz/fuzz_oip.o $(B)/tests/fuzz/replay.o $(B)/api.a $(B)/core.a
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(FUZZ)/fuzz_%: tests/fuzz/fuzz_%.c $(FUZZ)/api.a $(FUZZ)/core.a
	$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer $(ALL_LDFLAGS) -o $@ $(filter-out %.h,$^) $(LIBS)
fuzz: $(B)/tests/fuzz/corpus
	$(FUZZ_MAKE) $(FUZZ)/fuzz_api
	mkdir -p $(FUZZ)/found
	$(FUZZ)/fuzz_api -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -dict=tests/fuzz/tokens.dict \
	  -artifact_prefix=$(FUZZ)/found/ $(FUZZ)/found $(B)/tests/fuzz/corpus

fuzz-oip:
	$(FUZZ_MAKE) $(FUZZ)/fuzz_oip
	mkdir -p $(FUZZ)/found-oip
	$(FUZZ)/fuzz_oip -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -dict=tests/fuzz/tokens.dict \
	  -artifact_prefix=$(FUZZ)/found-oip/ $(FUZZ)/found-oip tests/fuzz/oip
fuzz-safetensors:
	$(FUZZ_MAKE) $(FUZZ)/fuzz_safetensors
	mkdir -p $(FUZZ)/found-safetensors
	$(FUZZ)/fuzz_safetensors -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
	  -dict=tests/fuzz/tokens.dict -artifact_prefix=$(FUZZ)/found-safetensors/ $(FUZZ)/found-safetensors tests/fuzz/safetensors
.PHONY: fuzz-oip fuzz-safetensors

# ---- tests with the clients that people use, from PyPI, in an environment of their own ----
test-python: $(B)/attentiond
	ATTENTIOND=$(abspath $(B))/attentiond sh tests/python/run.sh $(VENV) || [ $$? -eq 77 ]
.PHONY: test-python

# ---- benches: each writes its section of docs/performance.md; no other build is in it than an optimized one ----
CXX ?= g++
$(B)/bench/%.o: bench/%.cc
	@mkdir -p $(@D)
	$(CXX) -std=c++17 $(OPT) -Wall -Wextra -fPIE -MMD -MP -c -o $@ $<
$(B)/bench/wire_bench: $(B)/bench/wire_bench.o $(B)/bench/wire_peers.o $(B)/api.a $(B)/core.a
	$(CXX) $(ALL_LDFLAGS) -o $@ $^ -lsimdjson $(LIBS)
bench-wire:
	@sh tools/install-deps.sh bench
	$(MAKE) $(B)/bench/wire_bench
	python3 bench/section.py wire $(B)/bench/wire_bench
$(B)/bench/load: $(B)/bench/serve/load.o
	$(CC) $(ALL_LDFLAGS) -o $@ $^
bench-serve:
	@sh tools/install-deps.sh bench
	$(MAKE) $(B)/attentiond $(B)/bench/load $(VENV)/serve
	$(VENV)/bin/python bench/section.py serve $(VENV)/bin/python bench/serve/serve.py $(B)/attentiond $(B)/bench/load
$(VENV)/serve: bench/serve/requirements.txt
	[ -x $(VENV)/bin/python ] || python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r $< && touch $@
.PHONY: bench-wire bench-serve

-include $(shell find $(B) -name '*.d' 2>/dev/null)
.PHONY: bench all test test-setup test-programs unit http test-exhaustive fuzz clean
.SECONDARY:
clean:
	rm -rf build

# ---- bench: ours against other libraries, on a quiet machine; writes docs/performance.md and .svg ----
XSMM := $(if $(wildcard /usr/include/libxsmm.h),-lxsmm -lxsmmnoblas -ldl)
$(B)/core_bench: bench/core_bench.c bench/limits.c bench/limits.h $(B)/core.a
	$(CC) -std=c17 -D_GNU_SOURCE -O3 $(WARN) $(if $(XSMM),-DHAVE_XSMM) -o $@ $(filter %.c %.a,$^) -lopenblas $(XSMM) -lm -pthread
build/venv/installed: bench/requirements.txt
	python3 -m venv build/venv && build/venv/bin/pip install -q -r $< && touch $@
bench:
	@sh tools/install-deps.sh bench
	@$(MAKE) --no-print-directory $(B)/core_bench build/venv/installed
	build/venv/bin/python bench/run.py $(B)/core_bench $(BENCH_ARGS)

# ---- running, installing, checking the sources ----
unit-programs: $(UNIT)
run:
	@sh tools/install-deps.sh build
	@$(MAKE) --no-print-directory -j$$(nproc) all
	@sh tools/run.sh $(B)/attentiond
install: all
	install -D -m 755 $(B)/attentiond $(DESTDIR)$(PREFIX)/bin/attentiond
	install -D -m 644 docs/attentiond.1 $(DESTDIR)$(PREFIX)/share/man/man1/attentiond.1
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|@BINDIR@|$(PREFIX)/bin|' packaging/attentiond.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/attentiond.service
	chmod 644 $(DESTDIR)$(PREFIX)/lib/systemd/system/attentiond.service
SOURCES = $(shell find core api server tests bench -name '*.[ch]' 2>/dev/null)
check-layers: $(B)/core.a $(B)/api.a
	@sh tools/check-layers.sh $(B)
format:
	clang-format -i $(SOURCES)
format-check:
	clang-format --dry-run --Werror $(SOURCES)
lint:
	cppcheck --quiet -j$$(nproc) --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,portability -D_GNU_SOURCE \
	  --suppressions-list=tools/cppcheck.suppressions core api server
	printf '%s\n' $(filter-out core/engine/kernels/%,$(wildcard core/*.c core/*/*.c api/*.c api/*/*.c server/*.c)) | xargs -P$$(nproc) -n4 sh -c \
	  'clang-tidy --quiet --warnings-as-errors="*" "$$@" -- -std=c17 -D_GNU_SOURCE -DATTENTIOND_VERSION=\"0\" \
	  -DATTENTIOND_REVISION=\"0\"' clang-tidy
image:
	docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
	  --build-arg CREATED=$$(date -u +%Y-%m-%dT%H:%M:%SZ) $(IMAGE_FLAGS) -t attentiond .
.PHONY: unit-programs run install check-layers format format-check lint image
