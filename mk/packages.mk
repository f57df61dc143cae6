# SPDX-License-Identifier: Apache-2.0
# Packages, each made by one target.

# Debian's suite in which the wheel's programs are built; empty: here, with what this system has.
SUITE ?= bullseye

.PHONY: wheel
wheel: deps-wheel ## a Python wheel in O/wheel, for glibc 2.28 and newer (takes root; SUITE=: for this system and its libraries)
	+$(Q)$(if $(SUITE),:,$(after_deps) $(PLUGIN) $(COMMAND) $(BENCH_PROGRAMS))
	@mkdir -p '$(O)'; PYTHON='$(PYTHON)' packaging/build-wheel '$(O)/wheel' '$(VERSION)' '$(O)' '$(SUITE)'

.PHONY: debian
debian: deps-debian ## Debian packages in O/debian: the plugin, the command, tributaryd
	@packaging/build-debian '$(O)/debian' '$(VERSION)'

.PHONY: rpm
rpm: deps-rpm ## the same as rpm packages in O/rpm
	@packaging/build-rpm '$(O)/rpm' '$(VERSION)'

.PHONY: modulefile
modulefile: ## prints a module file (Lmod, Environment Modules) for what was installed with the same PREFIX and LIBDIR
	@sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|' packaging/modulefile

.PHONY: release-notes
release-notes: ## prints what CHANGELOG.md says of this version, or else of what is not released
	@awk -v version="$$(grep -q '^## \[$(VERSION)\]' CHANGELOG.md && echo '$(VERSION)' || echo Unreleased)" \
		'/^## / { on = index($$0, "[" version "]"); next } on' CHANGELOG.md

# Each is installed where nothing else is, used and removed.
.PHONY: check-packages
check-packages: deps-packages ## the packages: built, installed into empty roots, used and removed (T=name: only those)
	+$(Q)$(after_deps) WERROR='$(WERROR)' all
	@PYTHON='$(PYTHON)' $(RUN) --logs '$(O)/logs-packages' --timeout 1200 --only '$(T)' \
		'packages/wheel=packaging/check-wheel $(O) $(VERSION) $(SUITE)' \
		'packages/reproducible=packaging/check-reproducible $(VERSION)' \
		'packages/debian=packaging/check-system debian $(O)/debian $(VERSION)' \
		'packages/rpm=packaging/check-system rpm $(O)/rpm $(VERSION)' \
		'packages/modulefile=packaging/check-modulefile $(O) $(VERSION)' \
		'packages/container=packaging/check-container wheel $(O) $(VERSION) $(SUITE)' \
		'packages/container-tributaryd=packaging/check-container tributaryd $(O) $(VERSION) $(SUITE)' \
		'packages/slurm=packaging/check-slurm $(O)'
