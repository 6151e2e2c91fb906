#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/cross.sh ARCH [BUILDDIR [cmake option...]]: builds giltrace and its tests for ARCH (arm64,
# amd64) on this machine, whatever that is; in build-ARCH if no folder is named. Libraries and headers
# are those of Debian $SUITE (bookworm), fetched by scripts/sysroot.sh, or of $GT_SYSROOT, if that
# names a sysroot. Run as root it builds as the owner of the clone.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

[ $# -ge 1 ] || die "usage: cross.sh arm64|amd64 [BUILDDIR [cmake option...]]"
arch=$1 dir=${2:-$top/build-$1} suite=${SUITE:-bookworm}
shift $(($# < 2 ? $# : 2))

# Before anything is fetched.
for tool in clang ld.lld; do
	compgen -c "$tool" | grep -xE "$tool(-[0-9]+)?" >/dev/null ||
		die "$tool is missing: run scripts/setup.sh --cross as root"
done

# The owner's cache, as the owner must read it.
if [ ${#drop[@]} -gt 0 ]; then
	unset XDG_CACHE_HOME
	HOME=$(getent passwd "$owner_uid" | cut -d : -f 6)
	export HOME
fi
sysroot=${GT_SYSROOT:-}
[ -n "$sysroot" ] || sysroot=$(as_owner "$top/scripts/sysroot.sh" "$suite" "$arch" \
	"${XDG_CACHE_HOME:-$HOME/.cache}/giltrace/sysroot/$suite-$arch")
build_in "$dir" -DCMAKE_TOOLCHAIN_FILE="$top/scripts/cross.cmake" -DGT_SYSROOT="$sysroot" \
	-DGT_TARGET_ARCH="$arch" "$@"
say "$(file -b "$dir/giltrace" 2>/dev/null || echo "$dir/giltrace")"
