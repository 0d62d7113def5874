# attentiond. Two commands do everything on a fresh Debian: `make run` and `make test`.
CC ?= gcc
PREFIX ?= /usr/local
DESTDIR ?=
SAN ?=
comma := ,
B := build$(if $(SAN),/$(subst $(comma),-,$(SAN)))
VERSION := $(shell cat VERSION)
REVISION := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)

WARN := -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wvla $(if $(WERROR),-Werror)
OPT ?= -O2 -g
ALL_CFLAGS = -std=c17 -D_GNU_SOURCE $(OPT) $(WARN) -fno-math-errno -ffp-contract=off -fPIE -pthread -MMD -MP \
  $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(CFLAGS)
ALL_LDFLAGS = -pie -pthread $(if $(SAN),-fsanitize=$(SAN)) $(LDFLAGS)
LIBS := -lmicrohttpd -ljansson -lopenblas -lm

# ---- core: plain sources once, typed ones for float and for double, kernel rows by architecture ----
TYPED := $(shell grep -l 'include "\(\.\./\)*real.h"' core/*.c core/kernels/*.c 2>/dev/null)
ROWS_x86_64 := avx2 avx512
ROWS_aarch64 := neon
ROWS := portable $(ROWS_$(ARCH))
FLAGS_avx2 := -mavx2 -mfma
FLAGS_avx512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma
KERNELS := $(wildcard $(ROWS:%=core/kernels/%.c))
CORE_SRC := $(wildcard core/*.c) $(KERNELS)
CORE_OBJ := $(patsubst %.c,$(B)/%.o,$(filter-out $(TYPED),$(CORE_SRC))) \
  $(foreach t,f32 f64,$(patsubst %.c,$(B)/%_$t.o,$(filter $(TYPED),$(CORE_SRC))))
API_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard api/*.c)) $(B)/api/openapi_json.o
SERVER_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard server/*.c))
kernel_flags = $(FLAGS_$(basename $(notdir $<))) $(if $(findstring core/kernels/,$<),-O3)

all: $(B)/attentiond

$(B)/attentiond: $(SERVER_OBJ) $(B)/api.a $(B)/core.a
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
$(B)/core.a: $(CORE_OBJ)
	rm -f $@ && ar rcs $@ $^
$(B)/api.a: $(API_OBJ)
	rm -f $@ && ar rcs $@ $^
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

# ---- tests: every tests/unit/test_*.c is a program on core and api; tests/http/ is one on libcurl ----
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))
SUPPORT_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/support/*.c))
$(B)/tests/%: $(B)/tests/unit/%.o $(SUPPORT_OBJ) $(B)/api.a $(B)/core.a
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(LIBS)
unit: $(UNIT)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
.PHONY: all unit clean
.SECONDARY:
clean:
	rm -rf build
