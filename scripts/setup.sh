#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/setup.sh [--tests] [--extra] [--lint] [--cross]: installs what is missing to build giltrace
# (and to test it; what some tests skip without: a browser, NumPy, PyTorch, sudo; to check format and
# style; to build it for another architecture by scripts/cross.sh), by apt-get (Debian 12 and newer,
# Ubuntu 24.04) or dnf (openEuler 24.03). Touches the network only if something is missing.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

tests=
extra=
lint=
cross=
for arg; do
	case $arg in
	--tests) tests=1 ;;
	--extra) extra=1 ;;
	--lint) lint=1 ;;
	--cross) cross=1 ;;
	*) die "unknown option $arg; usage: setup.sh [--tests] [--extra] [--lint] [--cross]" ;;
	esac
done

# As CMakeLists.txt: Ubuntu's /usr/sbin/bpftool runs only beside the tools of the running kernel.
have_bpftool() {
	local tool

	for tool in bpftool /usr/sbin/bpftool /usr/lib/linux-tools/*/bpftool \
		/usr/lib/linux-tools-*/bpftool; do
		"$tool" version >/dev/null 2>&1 && return
	done
	return 1
}

with_apt() {
	local want=(gcc libc6-dev make cmake pkg-config clang libbpf-dev libelf-dev libdw-dev
		zlib1g-dev libcjson-dev libsqlite3-dev python3)
	local missing=() p

	# The last two: what scripts/pythons.sh needs to build a Python.
	[ -z "$tests" ] || want+=(libcmocka-dev binutils strace btrfs-progs libffi-dev xz-utils)
	[ -z "$extra" ] || want+=(python3-numpy python3-torch python3-yaml sudo)
	[ -z "$extra" ] || want+=(bash-completion zsh man-db groff-base mandoc)
	# What targets are traced beside, and what they are made of.
	[ -z "$extra" ] || want+=(python3-gevent gdb bpftrace g++)
	# On Ubuntu it is a snap, which chromedriver cannot start from here; perf is part of linux-tools.
	[ -z "$extra" ] || ! grep -qx ID=debian /etc/os-release || want+=(chromium chromium-driver linux-perf)
	[ -z "$lint" ] || want+=(clang-format-14 clang-tidy-14 cppcheck shellcheck)
	[ -z "$cross" ] || want+=(lld llvm dpkg-dev rpm debian-archive-keyring)
	for p in "${want[@]}"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] ||
			missing+=("$p")
	done
	have_bpftool || missing+=(bpftool)
	[ ${#missing[@]} -gt 0 ] || return 0
	need_root
	say "Installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	# One broken source among several need not matter; the installation tells.
	apt-get -q update </dev/null || say "apt-get update failed; going on with the lists at hand"
	# On Ubuntu up to 24.04, bpftool is part of the kernel's tools.
	if ! have_bpftool && [[ $(apt-cache policy bpftool) != *Candidate:\ [0-9]* ]]; then
		missing=("${missing[@]/#bpftool/linux-tools-generic}" linux-tools-common)
	fi
	apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=300 install \
		"${missing[@]}" </dev/null
}

with_dnf() {
	# Capabilities, since openEuler and Fedora cut elfutils into packages differently.
	local want=(gcc make cmake 'pkgconfig(libbpf)' 'pkgconfig(libelf)' 'pkgconfig(libdw)'
		'pkgconfig(zlib)' 'pkgconfig(libcjson)' 'pkgconfig(sqlite3)' pkgconf clang python3
		util-linux)
	local missing=() p

	[ -z "$tests" ] || want+=('pkgconfig(cmocka)' binutils strace)
	[ -z "$extra" ] || want+=(python3-numpy)
	[ -z "$lint" ] || want+=(clang-tools-extra cppcheck ShellCheck)
	[ -z "$cross" ] || want+=(lld)
	for p in "${want[@]}"; do
		rpm -q --quiet --whatprovides "$p" || missing+=("$p")
	done
	have_bpftool || missing+=(bpftool)
	[ ${#missing[@]} -gt 0 ] || return 0
	need_root
	say "Installing ${missing[*]}"
	dnf -y --setopt=install_weak_deps=False install "${missing[@]}" </dev/null
}

if command -v apt-get >/dev/null; then
	with_apt
elif command -v dnf >/dev/null; then
	with_dnf
else
	die "neither apt-get nor dnf is here; cmake will name what is missing"
fi
have_bpftool || die "no bpftool that runs is here, although its package is installed"
