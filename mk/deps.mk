# SPDX-License-Identifier: Apache-2.0
# Packages: what is missing is found, shown and installed with apt.

# What a fresh Debian or Ubuntu lacks.  package=what to look for: a command, or a header.  `make deps` reads this list.
DEPS_BUILD := gcc=gcc make=make libc6-dev=header:stdio.h linux-libc-dev=header:linux/ethtool.h binutils=nm \
	libhwloc-dev=header:hwloc.h libexpat1-dev=header:expat.h libjansson-dev=header:jansson.h libarchive-dev=header:archive.h \
	libibverbs-dev=header:infiniband/verbs.h
DEPS := $(DEPS_BUILD) libcmocka-dev=header:cmocka.h libhwloc-plugins=@hwloc-pci iproute2=ip iproute2=tc ethtool=ethtool \
	util-linux=unshare python3=python3
# Only for `make check`: the page of `tributary show --html` is opened in a real browser; plans are compared with a solver's,
# sums with MPI's, the message layer's rules are looked at in every state, the scripts for Slurm are read by
# shellcheck, manifests for Kubernetes are compared with its schemas.
DEPS_CHECK := chromium=chromium chromium-driver=chromedriver python3-selenium=python:selenium \
	libglpk-dev=header:glpk.h openmpi-bin=mpirun libopenmpi-dev=mpicc spin=spin groff-base=groff shellcheck=shellcheck \
	python3-jsonschema=python:jsonschema python3-yaml=python:yaml
# Only for `make lint`, `make format` and `make fuzz`.
DEPS_LINT := clang=clang libclang-rt-dev=@libfuzzer clang-tidy=clang-tidy clang-format=clang-format cppcheck=cppcheck
# Only for `make check-vm`: virtual machines with SoftRoCE.  Debian's kernel is downloaded beside these (tests/vm/README.md).
DEPS_VM := qemu-system-x86=qemu-system-x86_64 busybox-static=busybox cpio=cpio kmod=depmod xz-utils=xz binutils=readelf \
	iproute2=rdma ibverbs-utils=ibv_rc_pingpong ibverbs-providers=@rxe
# Only for `make check-arm64`.  The libraries for arm64 are not installed, but unpacked beside (tests/gates/check-arm64).
DEPS_ARM64 := gcc-aarch64-linux-gnu=aarch64-linux-gnu-gcc qemu-user=qemu-aarch64
# Only for `make wheel` (in Debian's SUITE or, without one, here), `make debian` and `make rpm`.
DEPS_WHEEL = python3-build=python:build python3-wheel=python:wheel python3-setuptools=python:setuptools $(if $(SUITE),\
	make=make binutils=strip debootstrap=debootstrap,$(DEPS_BUILD))
DEPS_DEBIAN := $(DEPS_BUILD) build-essential=@build-essential debhelper=dh dpkg-dev=dpkg-buildpackage
DEPS_RPM := $(DEPS_BUILD) rpm=rpmbuild
# Only for `make check-packages`: what makes them, an older system to try them in, and a Slurm for its scripts.
DEPS_PACKAGES = $(DEPS_WHEEL) $(DEPS_DEBIAN) $(DEPS_RPM) debootstrap=debootstrap python3-venv=python:ensurepip twine=twine \
	unzip=unzip lintian=lintian rpmlint=rpmlint podman=podman slurmctld=slurmctld slurmd=slurmd slurm-client=srun munge=munged

# Only for `make bench`: the floor is compared with iperf3, aggregation with PyTorch's Gloo.
DEPS_BENCH := iperf3=iperf3 python3-torch=python:torch

ask_deps = @CC='$(CC)' PYTHON='$(PYTHON)' .ci/deps

.PHONY: deps deps-check deps-lint deps-vm deps-arm64 deps-wheel deps-debian deps-rpm deps-packages deps-bench
deps: ## find missing packages, show them, install them with apt
	$(ask_deps) $(DEPS)

deps-check: deps
	$(ask_deps) $(DEPS_CHECK)

deps-lint: deps
	$(ask_deps) $(DEPS_LINT)

deps-vm:
	$(ask_deps) $(DEPS_VM)

deps-arm64: deps-check
	$(ask_deps) $(DEPS_ARM64)

deps-wheel:
	$(ask_deps) $(DEPS_WHEEL)

deps-debian:
	$(ask_deps) $(DEPS_DEBIAN)

deps-rpm:
	$(ask_deps) $(DEPS_RPM)

deps-packages: deps
	$(ask_deps) $(DEPS_PACKAGES)

deps-bench: deps
	$(ask_deps) $(DEPS_BENCH)

# What is built only after `deps` has had its say, whatever the order of the goals.
after_deps = $(MAKE) O='$(O)' CC='$(CC)' SAN='$(SAN)' FAULTS='$(FAULTS)' WERROR='$(WERROR)' V='$(V)'
