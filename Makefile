# Each target is one call of `python -m dprepro`; without make, type that (README, "Without make").
PYTHON ?= $(shell command -v python3.11 || command -v python3)
DPREPRO = PYTHONPATH=lib $(PYTHON) -m dprepro

.PHONY: reproduce test lab notebooks figures site bench clean vectors lab-release lab-grade
reproduce test lab notebooks figures site bench clean:
	@$(DPREPRO) $@

# ROSTER, LAB and JOBS may be left out.
lab-release:
	@$(DPREPRO) lab-release $(if $(ROSTER),--roster "$(ROSTER)") $(if $(LAB),--lab "$(LAB)")

lab-grade:
	@$(DPREPRO) lab-grade "$(or $(SUBMISSIONS),$(error say which folder: make lab-grade SUBMISSIONS=folder))" $(if $(JOBS),--jobs $(JOBS))

vectors:
	@$(DPREPRO) fetch vectors
