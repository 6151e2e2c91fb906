#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/buildmatrix.sh [NAME...]: builds giltrace with the compilers, libbpf, elfutils and cmake of
# other Debian suites, once for each clang that the suite has, and loads what came out into this
# kernel and, in VMs, into older ones. NAME (all of them unless some are named):
#
#   bullseye            with libbpf 1.1 built from bookworm's source, as its own 0.3 is too old
#   bookworm  trixie  sid
#   bookworm-backports  what bookworm-backports has newer than bookworm
#
# Prints a table at its end; with GT_WRITE_DOCS=1, and nothing named, also writes it to
# docs/building.md. The exit status is 1 where something was not built or not loaded; what the archive
# does not serve is named in the table. The suites' packages are unpacked, not installed, below
# ${XDG_CACHE_HOME:-~/.cache}/giltrace/buildmatrix (about 10 GB) and used again as they are; to have
# a suite anew, remove its folder. GT_MATRIX_KERNELS: those of scripts/vmtest.sh that the objects are
# loaded into beside this one, "bullseye:5.10 bookworm:6.1" unless set.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source-path=SCRIPTDIR source=debian.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/debian.sh"

all=(bullseye bookworm bookworm-backports trixie sid)
names=("$@")
for name; do
	[[ " ${all[*]} " = *" $name "* ]] || die "unknown name $name; known: ${all[*]}"
done
[ $# -gt 0 ] || names=("${all[@]}")
need_root
# What is mounted here is gone when this ends, however it ends.
[ -n "${GT_MATRIX_MOUNTS:-}" ] || GT_MATRIX_MOUNTS=1 exec unshare -m -- "$0" "$@"
[ -z "${GT_WRITE_DOCS:-}" ] || [ $# -eq 0 ] || die "a part of the matrix is not written to the docs"
read -ra kernels <<<"${GT_MATRIX_KERNELS-bullseye:5.10 bookworm:6.1}"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/giltrace/buildmatrix
arch=$(dpkg --print-architecture)
old_libbpf=1.1.2-0+deb12u1
base=(dash coreutils grep sed tar gzip gcc libc6-dev make cmake ninja-build pkg-config bpftool libelf-dev
	libdw-dev zlib1g-dev libcjson-dev libsqlite3-dev)
mkdir -p "$cache/log"
exec {lock}>"$cache/.lock"
flock "$lock" # one run at a time
find_archive || die "the packages cannot be had: $why"

# ---- a suite's packages, unpacked ----

# download NAME FOLDER PACKAGE...: downloads them with what they need.
download() {
	local name=$1 debs=$2

	shift 2
	own_apt deb "$name" "$arch" apt-get -y -t "$name" --no-install-recommends --download-only \
		-o Dir::Cache::archives="$debs" install "$@"
}

# libbpf ROOT: builds bookworm's in ROOT, and installs it there.
libbpf() {
	local new=$cache/.libbpf

	rm -rf "$new"
	mkdir -p "$new"
	also=()
	lists deb-src bookworm "$arch" || return
	(cd "$new" && own_apt deb-src bookworm "$arch" apt-get --download-only --only-source \
		source "libbpf=$old_libbpf") || return
	mkdir -p "$1/usr/src/libbpf"
	tar -xf "$new"/libbpf_*.orig.tar.gz -C "$1/usr/src/libbpf" --strip-components=1 || return
	rm -rf "$new"
	inside "$1" make -s -C /usr/src/libbpf/src -j "$(nproc)" CC=gcc PREFIX=/usr \
		LIBDIR="/usr/lib/$(gcc -print-multiarch)" install install_uapi_headers
}

# newer_bpftool ROOT FOLDER: bookworm's, with the libc that it needs, for bullseye, whose own one is too
# old.
newer_bpftool() {
	local lib

	lib=/opt/bpftool/usr/lib/$(gcc -print-multiarch)
	also=()
	lists deb bookworm "$arch" || return
	mkdir -p "$2/partial"
	download bookworm "$2" bpftool || return
	unpack "$1/opt/bpftool" "$2"/*.deb || return
	rm "$1/usr/sbin/bpftool"
	printf '#!/bin/sh\nexec %s --library-path %s /opt/bpftool/usr/sbin/bpftool "$@"\n' \
		"$(cd "$1" && echo ".$lib"/ld-linux-*.so.? | cut -c 2-)" "$lib" >"$1/usr/sbin/bpftool"
	chmod +x "$1/usr/sbin/bpftool"
}

# fetch NAME: $cache/NAME gets the suite's packages; what of its clangs is not served stands in
# $cache/NAME/missing.
fetch() {
	local name=$1 suite=${1%-backports} root=$cache/.new/root debs=$cache/.new/debs clang
	local packages=("${base[@]}")

	also=()
	[ "$suite" = sid ] || also=("${archive%/}-security $suite-security")
	[ "$suite" = "$name" ] || also+=("$archive $suite")
	rm -rf "$cache/.new"
	mkdir -p "$debs/partial" "$root"
	lists deb "$name" "$arch" || return
	[ "$name" = bullseye ] || packages+=(libbpf-dev)
	download "$name" "$debs" "${packages[@]}" || return
	for clang in $(own_apt deb "$name" "$arch" apt-cache search --names-only '^clang-[1-9][0-9]+$' |
		cut -d ' ' -f 1 | sort -V); do
		download "$name" "$debs" "$clang" || {
			echo "$clang" >>"$root/missing"
			rm -f "$debs/${clang}"_* # what it needs is not there
		}
	done
	unpack "$root" "$debs"/*.deb || return
	rm -rf "$debs"
	# What packages' scripts do in an installed system.
	[ -e "$root/usr/bin/sh" ] || ln -s dash "$root/usr/bin/sh"
	mkdir -p "$root"/{src,build,sys,proc,dev,tmp,etc}
	[ "$name" != bullseye ] || { newer_bpftool "$root" "$debs" && libbpf "$root"; } || return
	mv "$root" "$cache/$name"
}

# inside ROOT COMMAND...
inside() {
	mountpoint -q "$1/proc" || mount -t proc proc "$1/proc"
	mountpoint -q "$1/dev" || mount --bind /dev "$1/dev"
	env -i PATH=/usr/bin:/usr/sbin HOME=/ LC_ALL=C chroot "$@" </dev/null
}

# ---- builds ----

# By NAME: tools, missing. By NAME/CLANG, which keys has in their order: built, bytes, golden; loads by
# NAME/CLANG@KERNEL.
declare -A tools missing built bytes golden loads
keys=()

# carry NAME: $cache/carry/NAME is what its builds need to run: what ldd, a script for bash, would tell.
carry() {
	local root=$cache/$1 out=$cache/carry/$1 libs lib

	mkdir -p "$out"/{bin,tmp,dev,proc,sys}
	libs=$(inside "$root" env LD_TRACE_LOADED_OBJECTS=1 /build/giltrace | grep -o '/[^ ]*') || return
	for lib in $libs; do
		mkdir -p "$out${lib%/*}"
		# There, since its links are for there.
		inside "$root" cat "$lib" >"$out$lib" && chmod 755 "$out$lib" || return
	done
}

# tell_tools NAME: a row of the table, from what was really used.
tell_tools() {
	local root=$cache/$1 cell

	for cell in "gcc -dumpfullversion" "pkg-config --modversion libbpf" \
		"objdump -T /build/giltrace | grep -o 'LIBBPF_[0-9.]*' | sort -uV | sed -n '\$s/LIBBPF_//p'" \
		"bpftool version | sed -n '1s/.*v//p'" "pkg-config --modversion libdw" \
		"cmake --version | sed -n '1s/.* //p'"; do
		inside "$root" sh -c "$cell"
	done | paste -sd '|' | sed 's/|/ | /g'
}

# build_with ROOT CLANG: userland is compiled once, the BPF object and what includes it by each clang.
# The object is no target that cmake would make anew for another compiler.
build_with() {
	rm -f "$1/build/giltrace.bpf.o"
	inside "$1" cmake -G Ninja -S /src -B /build -DGT_TESTS=OFF -DGT_WERROR=ON \
		-DCMAKE_C_COMPILER=gcc -DBPF_CLANG="/usr/bin/$2" || return
	inside "$1" cmake --build /build --parallel "$(nproc)" || return
	[ -d "$cache/carry/${1##*/}" ] || carry "${1##*/}" || return
	strip -o "$cache/carry/${1##*/}/bin/giltrace-$2" "$1/build/giltrace"
}

# build NAME
build() {
	local name=$1 root=$cache/$1 log clang key

	missing[$name]=$(paste -sd ' ' "$root/missing" 2>/dev/null) || true
	mount --bind -o ro "$top" "$root/src"
	for clang in $(cd "$root/usr/bin" && find . -name 'clang-[1-9][0-9]' | cut -c 3- | sort -V); do
		key=$name/$clang log=$cache/log/$name-$clang
		keys+=("$key")
		say "$key"
		if ! build_with "$root" "$clang" >"$log" 2>&1; then
			built[$key]=no
			grep -m 20 -E 'error|warning|Error' "$log" >&2 || tail -n 20 "$log" >&2
			continue
		fi
		built[$key]=yes golden[$key]=yes
		bytes[$key]=$(stat -c %s "$root/build/giltrace.bpf.o")
		python3 "$top/tests/test_bpf_object.py" "$root/build/giltrace.bpf.o" >>"$log" ||
			golden[$key]=no
		[ -n "${tools[$name]:-}" ] || tools[$name]=$(tell_tools "$name")
	done
	umount "$root/src"
}

# ---- what was built, into kernels ----

# load KERNEL: "here" is this machine's.
load() {
	local key log=$cache/log/load-$1

	say "Loading into $1"
	if [ "$1" = here ]; then
		unshare -m "$top/tests/vm/load_builds.sh" "$cache/carry" # not to pack what it mounts
	else
		"$top/scripts/vmtest.sh" -t 1800 -d "$cache/carry:/carry" -d "$top/tests/vm:/vm" "$1" -- \
			/bin/bash /vm/load_builds.sh /carry
	fi </dev/null >"$log" || say "status $?: $log tells more"
	grep '^refused ' "$log" >&2 || true
	for key in "${!bytes[@]}"; do
		loads[$key@$1]=-
		! grep -q "^refused $key:" "$log" || loads[$key@$1]=no
		! grep -qx "loaded $key" "$log" || loads[$key@$1]=yes
	done
}

# ---- the table ----

table() {
	local name key kernel

	echo "| suite | gcc | libbpf | wants symbols up to | bpftool | elfutils | cmake | not served |"
	echo "|---|---|---|---|---|---|---|---|"
	for name in "${names[@]}"; do
		echo "| $name | ${tools[$name]:-- | - | - | - | - | -} | ${missing[$name]:-} |"
	done
	printf '\n| suite | clang | builds | BPF object, bytes | golden test |'
	printf ' loads: %s |' "$(uname -r)" "${kernels[@]}"
	printf '\n|---|---|---|---|---|%s\n' "$(printf -- '---|%.0s' here "${kernels[@]}")"
	for key in "${keys[@]}"; do
		printf '| %s | %s |' "${key%/*}" "${key#*/}"
		printf ' %s |' "${built[$key]}" "${bytes[$key]:--}" "${golden[$key]:--}"
		for kernel in here "${kernels[@]}"; do
			printf ' %s |' "${loads[$key@$kernel]:--}"
		done
		echo
	done
}

rm -rf "$cache/carry"
for name in "${names[@]}"; do
	[ -d "$cache/$name" ] || fetch "$name" >&2 || {
		missing[$name]="the suite"
		continue
	}
	build "$name"
done
for kernel in here "${kernels[@]}"; do
	load "$kernel"
done
page=$top/docs/building.md
made=$(table)
printf '%s\n' "$made"
if [ "${GT_WRITE_DOCS:-}" = 1 ]; then
	text=$(sed '/^<!-- made by /q' "$page" && echo "$made" && sed -n '/^<!-- end -->/,$p' "$page")
	printf '%s\n' "$text" | as_owner tee "$page" >/dev/null
fi
[ ${#keys[@]} -gt 0 ] && [[ " ${built[*]} ${golden[*]} ${loads[*]} " != *\ [n-]* ]]
