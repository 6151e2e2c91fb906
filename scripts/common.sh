# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by the other scripts: where things are, whose they are, and how they are built.

set -euo pipefail

top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034 # used by those that source this file
build=${GT_BUILD_DIR:-$top/build}

say() {
	printf '\n==> %s\n' "$*" >&2
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

need_root() {
	[ "$(id -u)" -eq 0 ] || die "must run as root: sudo $0"
}

# The clone usually belongs to the user who ran sudo. What is built in it must, too, so the
# build (and everything else that needs no root) runs as its owner. An owner who cannot reach the
# clone (a bind mount into a container, a folder of root's) leaves it to root.
owner_uid=$(stat -c %u "$top")
owner_gid=$(stat -c %g "$top")
drop=()
if [ "$(id -u)" -eq 0 ] && [ "$owner_uid" -ne 0 ] && command -v setpriv >/dev/null; then
	drop=(setpriv --reuid "$owner_uid" --regid "$owner_gid" --clear-groups --)
	"${drop[@]}" test -w "$top" || drop=()
fi

as_owner() {
	"${drop[@]}" "$@"
}

# build_in DIR [cmake option...]; GT_TARGETS in the environment names what is wanted of it, or all is.
build_in() {
	local dir=$1 targets

	shift
	read -r -a targets <<<"${GT_TARGETS:-}"
	as_owner cmake -S "$top" -B "$dir" "$@"
	as_owner cmake --build "$dir" --parallel "$(nproc)" ${targets:+--target "${targets[@]}"}
}
