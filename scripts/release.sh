#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/release.sh [amd64|arm64] [DIR]: what is built once and carried to hosts without a compiler:
# giltrace as .deb, .rpm and .tar.gz, the wheel of the Python package, and the debug symbols as a tar of
# their own, into DIR (build-release-ARCH/packages). It prints their SHA-256.
#
# The programs need glibc 2.31, Debian 11's, or newer; gil2trace also zlib. All else is linked into
# them: docs/third-party.md. The same source is to give the same bytes
# (tests/release/test_reproducible.py); times in the packages are those of $SOURCE_DATE_EPOCH or of
# the last commit. Run as root it works as the owner of
# the clone. The network is needed for the libraries only, once: they go to a cache.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source-path=SCRIPTDIR source=debian.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/debian.sh"

case $(uname -m) in
aarch64) arch=${1:-arm64} ;;
*) arch=${1:-amd64} ;;
esac
case $arch in
amd64) machine=x86_64 ;;
arm64) machine=aarch64 ;;
*) die "giltrace knows amd64 and arm64, not $arch" ;;
esac
dir=$(realpath -m -- "${2:-$top/build-release-$arch/packages}")
if [ ${#drop[@]} -gt 0 ]; then
	exec "${drop[@]}" env -u XDG_CACHE_HOME \
		HOME="$(getent passwd "$owner_uid" | cut -d : -f 6)" "$0" "$arch" "$dir"
fi
for tool in dpkg-source rpmbuild clang ld.lld; do
	command -v $tool >/dev/null || die "$tool is missing: run scripts/setup.sh --cross as root"
done
: "${SOURCE_DATE_EPOCH:=$(git -c safe.directory="$top" -C "$top" log -1 --format=%ct)}" ||
	die "$top is no clone of the repository: set SOURCE_DATE_EPOCH"
export SOURCE_DATE_EPOCH
umask 022

# ---- the libraries ----

cache=${XDG_CACHE_HOME:-$HOME/.cache}/giltrace/sysroot
# The oldest glibc that is supported, with libraries of a suite that is still kept up: bullseye's
# libbpf is too old, and its libdw loads the host's debuginfod library whether asked or not. libgcc is
# that of the compiler that made them.
sysroot=$("$top/scripts/sysroot.sh" bullseye "$arch" "$cache/release-$arch" libbpf-dev/bookworm \
	libelf-dev/bookworm libdw-dev/bookworm liblzma-dev/bookworm libbz2-dev/bookworm \
	libsqlite3-dev/bookworm libgcc-12-dev/bookworm)

# Debian packs no libcjson.a, so it is built from the source that Debian builds from.
cjson=$cache/source/cjson

fetch_cjson() {
	find_archive || die "cJSON's source cannot be had: $why"
	rm -rf "$cache/source.new"
	mkdir -p "$cache/source.new"
	cd "$cache/source.new"
	lists deb-src bookworm "$arch"
	own_apt deb-src bookworm "$arch" apt-get --download-only --only-source source cjson
	# apt has checked the signature that leads to the .dsc, and it the files that the .dsc names.
	dpkg-source --no-check -x ./*.dsc cjson >&2
	rm -rf "$cache/source"
	mv "$cache/source.new" "$cache/source"
}

exec {lock}>"$cache/.release-lock"
flock "$lock" # one run at a time
[ -f "$cjson/cJSON.c" ] || (fetch_cjson)
flock -u "$lock"

# ---- the build ----

# Paths of this machine must not get into the programs.
flags="-ffile-prefix-map=$top=/usr/src/giltrace -ffile-prefix-map=$cache=/usr/src"
build=$top/build-release-$arch

# configure [cmake option...]: builds, too, what there is to build.
configure() {
	GT_SYSROOT=$sysroot "$top/scripts/cross.sh" "$arch" "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
		-DCMAKE_C_FLAGS="$flags" -DCMAKE_INSTALL_PREFIX=/usr -DGT_TESTS=OFF \
		-DGT_STATIC_DEPS=ON -DGT_CJSON_SOURCE="$cjson" "$@" >&2
}

# By build-id: a debugger finds them where this is unpacked in /usr/lib/debug.
pack_symbols() {
	local file id new=$build/symbols objcopy

	objcopy=$(sed -n 's/^CMAKE_OBJCOPY:FILEPATH=//p' "$build/CMakeCache.txt")
	rm -rf "$new"
	for file in giltrace gil2trace libgiltrace.so; do
		id=$(readelf -n "$build/$file" | sed -n 's/^ *Build ID: //p')
		[ -n "$id" ] || die "$build/$file has no build id"
		mkdir -p "$new/.build-id/${id:0:2}"
		"$objcopy" --only-keep-debug "$build/$file" "$new/.build-id/${id:0:2}/${id:2}.debug"
	done
	tar -c --sort=name --owner=0 --group=0 --numeric-owner --mtime=@"$SOURCE_DATE_EPOCH" \
		-C "$new" .build-id | gzip -n -9 >"$1"
}

# pack GENERATOR LIBDIR: each kind of system has its own folder for libraries.
pack() {
	configure -DCMAKE_INSTALL_LIBDIR="$2"
	(cd "$build" && cpack -G "$1" -B "$dir") >&2
}

mkdir -p "$dir"
rm -f "$dir"/giltrace[_-]*
pack DEB "lib/$machine-linux-gnu"
pack RPM lib64
pack TGZ lib
rm -rf "$dir/_CPack_Packages"
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
pack_symbols "$dir/giltrace-$version-linux-$machine-debug.tar.gz"
PYTHONPATH=$top/src/python/backend PYTHONDONTWRITEBYTECODE=1 \
	python3 -c 'import giltrace_wheel, sys; giltrace_wheel.build_wheel(sys.argv[1])' "$dir"
(cd "$dir" && sha256sum giltrace[_-]* | tee SHA256SUMS)
