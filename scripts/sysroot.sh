#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/sysroot.sh SUITE ARCH DIR [PACKAGE/SUITE...]: makes DIR a sysroot, for scripts/cross.cmake:
# headers and libraries that giltrace and its tests link, of Debian SUITE (bullseye, bookworm, ...)
# for ARCH (amd64, arm64). PACKAGE/SUITE: one package more, as another suite has it and without what
# it depends on, laid over the rest (libbpf-dev/bookworm in bullseye, whose own one is too old).
# Prints DIR. What is there and was asked for in the same way is left alone, without a look at the
# network; to have it anew, remove it. Nothing of it is run or installed, so any user may.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source-path=SCRIPTDIR source=debian.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/debian.sh"

[ $# -ge 3 ] || die "usage: sysroot.sh SUITE ARCH DIR [PACKAGE/SUITE...]"
suite=$1 arch=$2 dir=$3
shift 3
for package; do
	[[ $package = */* ]] || die "$package: which suite's? $package/SUITE"
done
case $arch in
amd64 | arm64) ;;
*) die "giltrace knows amd64 and arm64, not $arch" ;;
esac

packages=(libc6-dev linux-libc-dev libelf-dev libdw-dev libbpf-dev zlib1g-dev liblzma-dev libbz2-dev
	libcjson-dev libsqlite3-dev libcmocka-dev)
wanted="1 $suite $arch ${packages[*]} $*" # the number: of the way in which this script makes it
stamp=$dir/giltrace-sysroot
cache=${XDG_CACHE_HOME:-$HOME/.cache}/giltrace/sysroot

have_it() {
	[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && echo "$dir" && exit
}

have_it || true
[ ! -e "$dir" ] || [ -f "$stamp" ] || rmdir "$dir" 2>/dev/null ||
	die "$dir is there and is no sysroot of this script's; name another folder, or remove it"
mkdir -p "$cache" "$(dirname -- "$dir")"
exec {lock}>"$cache/.lock"
flock "$lock" # one run at a time
have_it || true
find_archive || die "the packages of $suite cannot be had: $why"

# gcc's start files and libgcc, as the suite's own gcc would use them.
gcc_version() {
	own_apt deb "$suite" "$arch" apt-cache show gcc | sed -n 's/^Depends:.*\bgcc-\([0-9]*\).*/\1/p' |
		head -n 1
}

# What is said on the way goes to stderr: stdout has DIR and nothing else.
fetch() {
	local new=$1 version package

	lists deb "$suite" "$arch" || return
	version=$(gcc_version)
	[ -n "$version" ] || return
	mkdir -p "$new/debs/partial"
	own_apt deb "$suite" "$arch" apt-get -y --no-install-recommends --download-only \
		-o Dir::Cache::archives="$new/debs" install "${packages[@]}" "libgcc-$version-dev" || return
	unpack "$new/root" "$new"/debs/*.deb || return
	for package in "${@:2}"; do
		mkdir -p "$new/over"
		lists deb "${package#*/}" "$arch" || return
		(cd "$new/over" && own_apt deb "${package#*/}" "$arch" apt-get download "${package%/*}") ||
			return
	done
	[ $# -eq 1 ] || unpack "$new/root" "$new"/over/*.deb
}

# absolute_links ROOT: they lead into this machine.
absolute_links() {
	local link

	find "$1" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
		ln -sfnr "$1$(readlink "$link")" "$link"
	done
}

new=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$new"' EXIT
fetch "$new" "$@" >&2 || die "the packages of $suite for $arch cannot be had from $archive; see above"
absolute_links "$new/root"
echo "$wanted" >"$new/root/giltrace-sysroot"
rm -rf "$dir"
mv "$new/root" "$dir"
echo "$dir"
