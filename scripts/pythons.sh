#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/pythons.sh [NAME...]: fetches CPythons for the tests into a cache folder outside the
# repository, ${GT_PYTHONS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/giltrace/pythons}. What is there is
# left alone, without a look at the network; to have it anew, remove its folder. NAME:
#
#   SUITE-3.x           a Debian suite's Python with all it needs: a folder to chroot into
#   SUITE-3.x-dbg       its debug build
#   SUITE-3.x-ARCH      the other architecture's interpreter and libpython: to be read, not run
#   free-threaded-3.x   built from Debian's source (two or three minutes each)
#   musl-3.x            the same with its GIL, with libpython, on musl
#   ci                  what .ci/run fetches
#   all                 everything
#
# --list tells all names and which are there, --names the names alone, --files the files with
# CPython's code in what is there. The exit status is 1 where something that was asked for could not
# be had, with a line "MISSING: ..." for each. The archive: see debian.sh.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source-path=SCRIPTDIR source=debian.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/debian.sh"

cache=${GT_PYTHONS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/giltrace/pythons}
case $(uname -m) in
x86_64) native=amd64 other=arm64 ;;
aarch64) native=arm64 other=amd64 ;;
*) die "this is a $(uname -m); giltrace knows x86_64 and aarch64" ;;
esac
debian=(bullseye-3.9 bookworm-3.11 trixie-3.13 sid-3.13 sid-3.14 sid-3.15)
names=("${debian[@]}" bookworm-3.11-dbg sid-3.14-dbg "${debian[@]/%/-$other}"
	free-threaded-3.13 free-threaded-3.14 free-threaded-3.15 musl-3.13)
ci=(bullseye-3.9 trixie-3.13 sid-3.14 "trixie-3.13-$other" "sid-3.14-$other" free-threaded-3.13)

# Says that a folder is complete: a line with the version, then one for each file with CPython's
# code, the interpreter first.
origin=giltrace-origin

there() {
	[ -f "$cache/$1/$origin" ]
}

# complete FOLDER VERSION FILE...
complete() {
	(cd "$1" && printf '%s\n' "$2" && realpath --relative-to=. "${@:3}") >"$1/$origin.new" &&
		mv "$1/$origin.new" "$1/$origin"
}

version() {
	head -n 1 "$cache/$1/$origin"
}

files() {
	local name file

	for name in "${names[@]}"; do
		! there "$name" || tail -n +2 "$cache/$name/$origin" | while read -r file; do
			echo "$cache/$name/$file"
		done
	done
}

list() {
	local name

	for name in "${names[@]}"; do
		if there "$name"; then
			printf '%-22s %s\n' "$name" "there: $(version "$name")"
		else
			printf '%-22s -\n' "$name"
		fi
	done
}

# ---- Debian's builds ----

# fetch_debian NAME SUITE VERSION ARCH SUFFIX
fetch_debian() {
	local name=$1 suite=$2 version=$3 arch=$4 python=python$3$5
	local new=$cache/.new/$name packages files

	mkdir -p "$new/debs/partial"
	lists deb "$suite" "$arch" || return
	if [ "$arch" = "$native" ]; then
		packages=("$python" "libpython$version$5")
		own_apt deb "$suite" "$arch" apt-get -y --no-install-recommends --download-only \
			-o Dir::Cache::archives="$new/debs" install "${packages[@]}" || return
	else
		packages=("python$version-minimal" "libpython$version")
		(cd "$new/debs" && own_apt deb "$suite" "$arch" apt-get download "${packages[@]}") ||
			return
	fi
	unpack "$new/root" "$new"/debs/*.deb || return
	if [ "$arch" = "$native" ] && [ "$(id -u)" -eq 0 ]; then
		chroot "$new/root" "/usr/bin/$python" -c 'import ctypes, json, threading' || return
	fi
	files=("usr/bin/$python")
	[ -n "$5" ] || files+=("$(cd "$new/root" && echo usr/lib/*/libpython"$version".so.1.0)")
	complete "$new/root" "$(dpkg-deb -f "$(find "$new/debs" -name "${packages[0]}_*")" Version)" \
		"${files[@]}" || return
	mv "$new/root" "$cache/$name"
}

# ---- what Debian does not build: free-threaded, and on musl ----

# source_of PACKAGE FOLDER SUITE...: the upstream source of the first suite whose files the archive
# really has (its lists may be ahead of them), unpacked; its version.
source_of() {
	local suite found

	for suite in "${@:3}"; do
		rm -rf "$2"
		mkdir -p "$2"
		lists deb-src "$suite" "$native" || continue
		(cd "$2" && own_apt deb-src "$suite" "$native" \
			apt-get --download-only --only-source source "$1") && break
	done >&2
	found=$(find "$2" -maxdepth 1 -name '*.orig.tar.*z' -print -quit)
	[ -n "$found" ] && tar -xf "$found" -C "$2" --strip-components=1 || return
	found=${found##*_}
	echo "${found%.orig*}"
}

# musl_compiler FOLDER PREFIX: FOLDER/cc compiles for a musl that PREFIX gets. As Debian's musl-gcc,
# save that it links with .eh_frame_hdr and finds the kernel's headers, as a musl system's cc does.
musl_compiler() {
	local target dir

	target=$(uname -m)-linux-musl dir=$1/musl/usr/lib/$target
	lists deb trixie "$native" || return
	(cd "$1" && own_apt deb trixie "$native" apt-get download musl musl-dev) || return
	unpack "$1/musl" "$1"/musl*.deb || return
	mkdir -p "$2/lib"
	cp "$1/musl/usr/lib/$target/libc.so" "$2/lib/ld-musl-$(uname -m).so.1" || return
	ln -sf "$2/lib/ld-musl-$(uname -m).so.1" "$dir/libc.so"
	ln -s /usr/include/{linux,asm-generic} "/usr/include/$(gcc -print-multiarch)/asm" \
		"$1/musl/usr/include/$target"
	sed "s|/usr/|$1/musl/usr/|g; s|-dynamic-linker /lib|--eh-frame-hdr -dynamic-linker $2/lib|" \
		"$dir/musl-gcc.specs" >"$1/specs" || return
	# gcc would tell the name of the target that it is itself for.
	# shellcheck disable=SC2016 # of that script
	printf '#!/bin/sh\n[ "$1" != --print-multiarch ] || exec echo %s\nexec gcc -specs=%s "$@"\n' \
		"$target" "$1/specs" >"$1/cc"
	chmod +x "$1/cc"
}

# libffi FOLDER: with FOLDER/cc, a static one. Later suites' sources come without configure.
libffi() {
	source_of libffi "$1/libffi" bookworm && cd "$1/libffi" &&
		./configure -q CC="$1/cc" --disable-shared --disable-docs --with-pic --prefix="$1/ffi" &&
		make -s -j "$(nproc)" install
}

# Whatever the attach tests' workloads import.
modules='_bisect _blake2 _contextvars _ctypes _heapq _interpchannels _interpqueues _interpreters _json
	_md5 _multiprocessing _opcode _pickle _posixshmem _posixsubprocess _queue _random _sha1 _sha2 _sha3
	_socket _struct array binascii fcntl math mmap resource select'

# build SOURCE PREFIX PYTHON [option of configure...]: few modules, no PGO, no LTO.
build() {
	local prefix=$2 python=$3 known objects='' module

	cd "$1" || return
	./configure -q --without-ensurepip --disable-test-modules --prefix="$prefix" "${@:4}" || return
	known=$(sed -n 's/^MODSHARED_NAMES=//p' Makefile)
	for module in $modules; do
		[[ " $known " != *" $module "* ]] || objects+="Modules/$module\$(EXT_SUFFIX) "
	done
	make -s -j "$(nproc)" OPT='-DNDEBUG -O2 -w' SHAREDMODS="$objects" python sharedmods || return
	mkdir -p "$prefix/bin" "$prefix/lib/$python/lib-dynload"
	cp python "$prefix/bin/$python"
	[ ! -f "lib$python.so.1.0" ] || cp "lib$python.so.1.0" "$prefix/lib"
	cp -r Lib/. "$(cat pybuilddir.txt)"/_sysconfigdata* "$prefix/lib/$python"
	cp Modules/*.so "$prefix/lib/$python/lib-dynload"
	rm -rf "$prefix/lib/$python"/{test,idlelib,tkinter,ensurepip,turtledemo}
	"$prefix/bin/$python" -c 'import ctypes, json, threading'
}

# Both: FOLDER for what is needed meanwhile, PREFIX, VERSION.
build_free_threaded() {
	build "$1/python" "$2" "python$3t" --disable-gil
}

build_musl() {
	musl_compiler "$1" "$2" && (libffi "$1") || return
	build "$1/python" "$2" "python$3" --enable-shared CC="$1/cc" LDFLAGS="-Wl,-rpath,$2/lib" \
		PKG_CONFIG=false LIBFFI_CFLAGS="-I$1/ffi/include" LIBFFI_LIBS="$1/ffi/lib/libffi.a"
}

# fetch_source NAME VERSION FILE...
fetch_source() {
	local name=$1 folder=$cache/.new/$1 log=$cache/.log/$1 version

	version=$(source_of "python$2" "$folder/python" sid testing trixie) || return
	say "Building $name; $log tells how far it is"
	mkdir -p "$cache/.log"
	# Built where it will lie, since it is told its prefix.
	rm -rf "${cache:?}/$name"
	case $name in
	musl-*) (build_musl "$folder" "$cache/$name" "$2") >"$log" 2>&1 ;;
	*) (build_free_threaded "$folder" "$cache/$name" "$2") >"$log" 2>&1 ;;
	esac || {
		tail -n 20 "$log" >&2
		return 1
	}
	complete "$cache/$name" "$version, built here" "${@:3}"
}

# ---- what was asked for ----

fetch() {
	local name=$1 begin=$SECONDS rest=${1#*-} ok=1

	mkdir -p "$cache/.new"
	rm -rf "$cache/.new/$name"
	case $name in
	free-threaded-*) fetch_source "$name" "${name##*-}" "bin/python${name##*-}t" ;;
	musl-*) fetch_source "$name" "$rest" "bin/python$rest" "lib/libpython$rest.so.1.0" ;;
	*-dbg) fetch_debian "$name" "${name%%-*}" "${rest%-dbg}" "$native" -dbg ;;
	*-"$other") fetch_debian "$name" "${name%%-*}" "${rest%-*}" "$other" "" ;;
	*) fetch_debian "$name" "${name%%-*}" "$rest" "$native" "" ;;
	esac >&2 || ok=
	rm -rf "$cache/.new/$name"
	[ -n "$ok" ] || return
	say "$name: $(version "$name"), in $((SECONDS - begin)) s"
}

wanted=()
for arg; do
	case $arg in
	--names) printf '%s\n' "${names[@]}" && exit ;;
	--list) list && exit ;;
	--files) files && exit ;;
	all) wanted+=("${names[@]}") ;;
	ci) wanted+=("${ci[@]}") ;;
	*)
		[[ " ${names[*]} " = *" $arg "* ]] || die "unknown name $arg; --list tells those known"
		wanted+=("$arg")
		;;
	esac
done
[ ${#wanted[@]} -gt 0 ] || { sed -n '4,/^$/s/^# \{0,1\}//p' "$0" && exit 2; }

mkdir -p "$cache"
exec {lock}>"$cache/.lock"
flock "$lock" # one run at a time
absent=()
for name in "${wanted[@]}"; do
	there "$name" || absent+=("$name")
done
[ ${#absent[@]} -gt 0 ] || exit 0

find_archive || true
status=0
for name in "${absent[@]}"; do
	[ -z "$why" ] && { there "$name" || fetch "$name"; } && continue
	echo "MISSING: $name: ${why:-it could not be had; see above}" >&2
	status=1
done
exit $status
