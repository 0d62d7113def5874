# bench.mk: part of the Makefile. The benches run on a quiet machine, side by side with other libraries; each writes its
# section of docs/performance.md.
XSMM := $(if $(wildcard /usr/include/libxsmm.h),-lxsmm -lxsmmnoblas -ldl)
$(B)/core_bench: bench/core_bench.c bench/limits.c bench/limits.h $(B)/core.a
	$(Q)$(call say,CC    $@)$(CC) -std=c17 -D_GNU_SOURCE -O3 $(WARN) $(if $(XSMM),-DHAVE_XSMM) -o $@ $(filter %.c %.a,$^) \
	  -lopenblas $(XSMM) -lm -pthread
$(B)/bench/%.o: bench/%.cc
	$(Q)$(call say,CXX   $@)mkdir -p $(@D) && $(CXX) -std=c++17 $(OPT) -Wall -Wextra -fPIE -MMD -MP -c -o $@ $<
$(B)/bench/wire_bench: $(B)/bench/wire_bench.o $(B)/bench/wire_peers.o $(B)/api.a $(B)/core.a
	$(Q)$(call say,LD    $@)$(CXX) $(ALL_LDFLAGS) -o $@ $^ -lsimdjson $(LIBS)
$(B)/bench/load: $(B)/bench/serve/load.o
	$(LINK)
$(VENV)/installed/%: %/requirements.txt
	@[ -x $(VENV)/bin/python ] || python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check -r $< && mkdir -p $(@D) && touch $@
bench-deps:
	@CC='$(CC)' sh tools/install-deps.sh bench
#: make bench              the core; bench-wire: reading and writing bodies; bench-serve: whole servers
bench: bench-deps
	@$(MAKE) --no-print-directory $(JOBS) $(B)/core_bench $(VENV)/installed/bench
	$(VENV)/bin/python bench/run.py $(B)/core_bench $(BENCH_ARGS)
	python3 bench/section.py growth python3 bench/growth.py $(B)/core_bench
bench-wire: bench-deps
	@$(MAKE) --no-print-directory $(JOBS) $(B)/bench/wire_bench
	python3 bench/section.py wire $(B)/bench/wire_bench
bench-serve: bench-deps
	@$(MAKE) --no-print-directory $(JOBS) all $(B)/bench/load $(VENV)/installed/bench/serve
	$(VENV)/bin/python bench/section.py serve $(VENV)/bin/python bench/serve/serve.py $(B)/attentiond $(B)/bench/load
.PHONY: bench-deps bench bench-wire bench-serve
