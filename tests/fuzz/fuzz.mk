# fuzz.mk: part of the Makefile. libFuzzer is clang's, so the fuzz programs have a build of their own. Without clang,
# build/tests/fuzz/replay_NAME FILE... runs the same inputs.
FUZZ_SECONDS ?= 60
FUZZ := build/fuzz
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,fuzz-%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_MAKE = $(MAKE) --no-print-directory $(JOBS) B=$(FUZZ) CC=clang SAN=address,undefined OPT="-O1 -g" \
  CFLAGS=-fsanitize=fuzzer-no-link KERNEL_FLAGS="-fno-sanitize=all -O1"
FUZZ_CORPUS := $(B)/tests/fuzz/corpus
fuzz_seeds = $(or $(wildcard tests/fuzz/$*),$(FUZZ_CORPUS))
fuzz_length = $(if $(filter safetensors,$*),4096,65536)
#: make fuzz               fuzzes each entry FUZZ_SECONDS long; make fuzz-NAME one of them
fuzz: $(FUZZ_TARGETS)
$(FUZZ_TARGETS): fuzz-%: $(FUZZ_CORPUS)
	@$(FUZZ_MAKE) $(FUZZ)/fuzz_$*
	@mkdir -p $(FUZZ)/found/$*
	$(FUZZ)/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -max_len=$(fuzz_length) -timeout=10 -rss_limit_mb=2048 \
	  -print_final_stats=1 -dict=tests/fuzz/tokens.dict -artifact_prefix=$(FUZZ)/found/ $(FUZZ)/found/$* $(fuzz_seeds)
fuzz-programs:
	@$(FUZZ_MAKE) $(FUZZ_TARGETS:fuzz-%=$(FUZZ)/fuzz_%)
$(FUZZ)/fuzz_%: $(FUZZ)/tests/fuzz/fuzz_%.o $(FUZZ)/api.a $(FUZZ)/core.a
	$(LINK) -fsanitize=fuzzer $(LIBS)
$(B)/tests/fuzz/replay_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/replay.o $(B)/api.a $(B)/core.a
	$(LINK) $(LIBS)
$(B)/tests/fuzz/corpus_of_cases: $(B)/tests/fuzz/corpus_of_cases.o $(HTTP_OBJ)
	$(LINK) -lcurl -ljansson -lz -lm
$(FUZZ_CORPUS): $(B)/tests/fuzz/corpus_of_cases $(wildcard tests/cases/*/*.json)
	@mkdir -p $@ && $< $@ $(filter %.json,$^) && touch $@
.PHONY: fuzz fuzz-programs $(FUZZ_TARGETS)
