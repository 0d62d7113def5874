# attentiond. `make help` lists what can be made. On a fresh Debian, `make run` and `make test` need nothing but make.

# ---- settings: each may be given on the command line -----------------------------------------------------------------
# A compiler that is here. `CC ?=` would be no choice: make itself sets CC to cc.
ifeq ($(origin CC),default)
CC := $(shell for c in gcc cc clang; do command -v $$c && exit; done 2>/dev/null || true)
CC := $(notdir $(or $(CC),gcc))
endif
CXX ?= g++
# SAN=address,undefined or SAN=thread builds with sanitizers, in a folder of their own. WERROR=1 makes warnings errors.
# V=1 shows whole commands.
SAN ?=
OPT ?= -O2 -g
BLAS ?= -lopenblas
PREFIX ?= /usr/local
TEST_JOBS ?= $(shell nproc)

# ---- what follows from them ------------------------------------------------------------------------------------------
comma := ,
B := build$(if $(SAN),/$(subst $(comma),-,$(SAN)))
VENV := build/venv
VERSION := $(shell cat VERSION)
REVISION := $(or $(REVISION),$(shell sh tools/revision.sh))
ARCH := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null || uname -m)))
Q := $(if $(V),,@)
say = $(if $(V),,$(info $1))
# a number of jobs for sub-makes, unless this make was given one
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

WARN := -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wvla $(if $(WERROR),-Werror)
ALL_CFLAGS = -std=c17 -D_GNU_SOURCE $(OPT) $(WARN) -fno-math-errno -ffp-contract=off -fPIE -pthread -MMD -MP \
  $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(CFLAGS)
ALL_LDFLAGS = -pie -pthread $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
LIBS = -lmicrohttpd -ljansson -lz -lzstd $(BLAS) -lm

# ---- objects ---------------------------------------------------------------------------------------------------------
# core: sources that include ops.h or tile.h are compiled for float and for double; kernel rows belong to an architecture
ROWS_x86_64 := avx2 avx512
ROWS_aarch64 := neon
# compares may be done though nobody looks at the result: without it the exponentials are not vectorised
FLAGS_portable := -fno-trapping-math
FLAGS_avx2 := -mavx2 -mfma
FLAGS_avx512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma
CORE_ALL := $(sort $(shell find core -name '*.c'))
CORE_ROWS := $(foreach row,portable $(ROWS_$(ARCH)),$(filter %/kernels/$(row).c,$(CORE_ALL)))
CORE_SRC := $(foreach file,$(CORE_ALL),$(if $(findstring /kernels/,$(file)),,$(file))) $(CORE_ROWS)
CORE_TYPED := $(shell grep -lE 'include "([^"]*/)?(ops|tile)\.h"' $(CORE_SRC))
CORE_OBJ := $(patsubst %.c,$(B)/%.o,$(filter-out $(CORE_TYPED),$(CORE_SRC))) \
  $(foreach type,f32 f64,$(CORE_TYPED:%.c=$(B)/%_$(type).o))
API_SRC := $(sort $(shell find api -name '*.c'))
API_OBJ := $(API_SRC:%.c=$(B)/%.o) $(B)/api/info/openapi_json.o $(B)/api/page/files.o
SERVER_SRC := $(sort $(shell find server -name '*.c'))
SERVER_OBJ := $(SERVER_SRC:%.c=$(B)/%.o)
# gcc 12 hardly vectorises at -O2. For aarch64 it fails on these three at -O3, which need not be fast.
# KERNEL_FLAGS is for the rows alone, which compile slowly under a sanitizer.
kernel_flags = $(FLAGS_$(basename $(notdir $<))) $(if $(filter core/%,$(filter-out %/wide_range.c %/merge.c %/rms_norm.c,$<)),-O3) \
  $(if $(findstring /kernels/,$<),$(KERNEL_FLAGS))
COMPILE = $(Q)$(call say,CC    $@)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) $(kernel_flags) $(DEFINES) -c -o $@ $<
LINK = $(Q)$(call say,LD    $@)mkdir -p $(@D) && $(CC) $(ALL_LDFLAGS) -o $@ $^

all: $(B)/attentiond
$(B)/attentiond: $(SERVER_OBJ) $(B)/api.a $(B)/core.a
	$(LINK) $(LIBS)
$(B)/core.a: $(CORE_OBJ)
$(B)/api.a: $(API_OBJ)
$(B)/server.a: $(filter-out $(B)/server/main.o,$(SERVER_OBJ))
$(B)/%.a:
	$(Q)$(call say,AR    $@)rm -f $@ && ar qcs $@ $^
$(B)/%_f32.o: %.c
	$(COMPILE)
$(B)/%_f64.o: DEFINES = -DATTN_DOUBLE
$(B)/%_f64.o: %.c
	$(COMPILE)
$(B)/%.o: %.c
	$(COMPILE)
$(B)/api/info/openapi_json.o: $(B)/api/info/openapi_json.c
	$(COMPILE)
$(B)/api/info/openapi_json.c: api/openapi.json tools/embed.sh
	$(Q)$(call say,EMBED $@)mkdir -p $(@D) && sh tools/embed.sh api_openapi_json $< >$@
$(B)/api/page/files.o: DEFINES = -I.
$(B)/api/page/files.o: $(B)/api/page/files.c
	$(COMPILE)
$(B)/api/page/files.c: $(wildcard web/*) tools/embed.sh tools/embed-page.sh
	$(Q)$(call say,EMBED $@)mkdir -p $(@D) && sh tools/embed-page.sh $(sort $(wildcard web/*)) >$@
# the files that know the version are compiled again when it, or the revision, has changed
VERSIONED := $(patsubst %.c,$(B)/%.o,$(shell grep -lE 'ATTENTIOND_(VERSION|REVISION)' $(API_SRC) $(SERVER_SRC)))
$(VERSIONED): DEFINES = -DATTENTIOND_VERSION='"$(VERSION)"' -DATTENTIOND_REVISION='"$(REVISION)"'
$(VERSIONED): $(B)/version
$(B)/version: always
	@mkdir -p $(@D) && echo '$(VERSION) $(REVISION)' | cmp -s - $@ || echo '$(VERSION) $(REVISION)' >$@

# ---- tests: a program for each tests/unit/test_*.c, on the archives, and tests/http/test_*.c, on libcurl -------------
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
HTTP := $(patsubst tests/http/%.c,$(B)/tests/http/%,$(wildcard tests/http/test_*.c))
SUPPORT_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/support/*.c))
HTTP_OBJ := $(patsubst %.c,$(B)/%.o,$(filter-out tests/http/test_%.c,$(wildcard tests/http/*.c))) \
  $(B)/tests/support/check.o
RUN_TESTS = ATTENTIOND=$(B)/attentiond sh tests/run.sh -j $(TEST_JOBS)

$(UNIT): $(B)/tests/%: $(B)/tests/unit/%.o $(SUPPORT_OBJ) $(B)/server.a $(B)/api.a $(B)/core.a
	$(LINK) $(LIBS)
$(HTTP): $(B)/tests/http/%: $(B)/tests/http/%.o $(HTTP_OBJ)
	$(LINK) -lcurl -ljansson -lz -lm
# every allocation of this program goes through its own counter
$(B)/tests/test_alloc: ALL_LDFLAGS += $(addprefix -Wl$(comma)--wrap=,malloc calloc realloc aligned_alloc \
  posix_memalign strdup free mmap munmap mremap)
test-programs: unit-programs $(HTTP)
unit-programs: $(UNIT)
#: make test               builds and runs all tests; installs missing packages on Debian
test:
	@CC='$(CC)' sh tools/install-deps.sh test
	@$(MAKE) --no-print-directory $(JOBS) all test-programs
	@$(RUN_TESTS) $(UNIT) $(HTTP)
#: make unit, make http    one half of them; SAN=address,undefined or SAN=thread under sanitizers
unit: $(UNIT)
	@$(RUN_TESTS) $(UNIT)
http: $(B)/attentiond $(HTTP)
	@$(RUN_TESTS) $(HTTP)
#: make test-exhaustive    all tests, over every value where a sample would do
test-exhaustive: $(B)/attentiond $(UNIT) $(HTTP)
	@CHECK_EXHAUSTIVE=1 $(RUN_TESTS) $(UNIT) $(HTTP)
#: make test-python        clients and examples in Python, with packages from PyPI
test-python: $(B)/attentiond
	@ATTENTIOND=$(abspath $(B))/attentiond sh tests/python/run.sh $(VENV) || [ $$? -eq 77 ]
#: make test-browser       the page in chromium
test-browser: $(B)/attentiond
	@ATTENTIOND=$(abspath $(B))/attentiond sh tests/browser/run.sh || [ $$? -eq 77 ]
#: make test-examples      the programs of examples/ whose language is installed
test-examples: $(B)/attentiond
	@ATTENTIOND=$(abspath $(B))/attentiond bash tests/examples/run.sh
#: make smoke URL=…        checks a running daemon from outside, with curl alone
smoke:
	@sh docker/smoke.sh $(URL)

# fuzzing and the benches have files of their own, which the context of the image does not
-include tests/fuzz/fuzz.mk bench/bench.mk

# ---- running, installing, the image ----------------------------------------------------------------------------------
#: make run                builds and starts the daemon; installs missing packages on Debian
run:
	@CC='$(CC)' sh tools/install-deps.sh build
	@$(MAKE) --no-print-directory $(JOBS) all
	@sh tools/run.sh $(B)/attentiond
#: make install            the program, its man page and a systemd unit under PREFIX (and DESTDIR)
install: all
	install -D -m 755 $(B)/attentiond $(DESTDIR)$(PREFIX)/bin/attentiond
	install -D -m 644 docs/attentiond.1 $(DESTDIR)$(PREFIX)/share/man/man1/attentiond.1
	install -D -m 644 packaging/attentiond.service $(DESTDIR)$(PREFIX)/lib/systemd/system/attentiond.service
	sed -i 's|@BINDIR@|$(PREFIX)/bin|' $(DESTDIR)$(PREFIX)/lib/systemd/system/attentiond.service
#: make image              the container image, with the labels of a release
image:
	docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
	  --build-arg CREATED=$$(date -u +%Y-%m-%dT%H:%M:%SZ) $(IMAGE_FLAGS) -t attentiond .

# ---- checks of the sources -------------------------------------------------------------------------------------------
SOURCES = $(shell find core api server tests bench -name '*.[ch]')
#: make check-layers       that dependencies point one way, between rooms and between their folders
check-layers: $(CORE_OBJ) $(API_OBJ) $(SERVER_OBJ)
	@sh tools/check-layers.sh $(B) $(CORE_OBJ) $(API_OBJ) $(SERVER_OBJ)
#: make check-docs         that the tables of settings and the examples of the documents agree with the program
check-docs: $(B)/attentiond
	@sh tools/check-docs.sh $(B)/attentiond
#: make format             formats the sources with clang-format 14; format-check only compares
format:
	clang-format -i $(SOURCES)
format-check:
	clang-format --dry-run --Werror $(SOURCES)
#: make lint               cppcheck and clang-tidy; make syntax: the warnings of another compiler, CC=clang
lint: lint-cppcheck lint-tidy
lint-cppcheck:
	cppcheck --quiet -j$$(nproc) --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,portability -D_GNU_SOURCE \
	  --suppressions-list=tools/cppcheck.suppressions core api server
lint-tidy:
	@printf '%s\n' $(filter-out $(CORE_ROWS),$(CORE_SRC)) $(API_SRC) $(SERVER_SRC) | xargs -P$$(nproc) -n4 sh -c \
	  'clang-tidy --quiet --warnings-as-errors="*" "$$@" -- -std=c17 -D_GNU_SOURCE -DATTENTIOND_VERSION=\"0\" \
	  -DATTENTIOND_REVISION=\"0\"' clang-tidy
SYNTAX := $(addprefix syntax/,$(CORE_SRC) $(API_SRC) $(SERVER_SRC) $(wildcard tests/*/*.c))
syntax: $(SYNTAX)
$(SYNTAX): DEFINES = -DATTENTIOND_VERSION='""' -DATTENTIOND_REVISION='""'
$(SYNTAX): syntax/%: %
	$(Q)for real in FLOAT DOUBLE; do \
	  $(CC) -fsyntax-only -Werror $(filter-out -M%,$(ALL_CFLAGS)) $(kernel_flags) $(DEFINES) -DATTN_$$real $< || exit 1; \
	  $(if $(filter $(CORE_TYPED),$<),,break;) done

help:
	@sed -n 's/^#: //p' Makefile tests/fuzz/fuzz.mk bench/bench.mk
	@echo 'V=1 shows whole commands, CC=… takes another compiler. `make` alone builds $(B)/attentiond.'
clean:
	rm -rf build
always:
.PHONY: all always unit-programs test-programs test unit http test-exhaustive test-python test-browser test-examples smoke run \
  install image check-layers check-docs format format-check lint lint-cppcheck lint-tidy syntax \
  $(SYNTAX) help clean
.SECONDARY:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
