# Each target is one call of `python -m dprepro`; without make, type that (README, "Without make").
PYTHON ?= $(shell command -v python3.11 || command -v python3)
DPREPRO = PYTHONPATH=lib $(PYTHON) -m dprepro

.PHONY: reproduce test lab notebooks figures bench clean vectors
reproduce test lab notebooks figures bench clean:
	@$(DPREPRO) $@

vectors:
	@$(DPREPRO) fetch vectors
