#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/kernels.sh [ci|all|NAME...] [-- PATTERN...]: builds giltrace, boots other kernels with Debian's
# userlands in qemu (scripts/vmtest.sh) and runs the attach tests in them (tests/vm/run.py). NAME is a
# row of the list below (--list prints it); ci (the default) is the rows so marked, with the tests that
# tell soonest; all is every row with all tests that can run there. PATTERN: these tests of tests/e2e
# instead (test_modes.*). Prints what each machine says, and the table of docs/kernels.md, which is
# written with GT_WRITE_DOCS=1. Needs no root.
#
#   GT_BUILD_DIR   a build for this machine (build/), GT_CROSS_DIR one for the other (build-ARCH/): made
#                  if giltrace is not there, by cmake and by scripts/cross.sh
#   GT_VM_JOBS     machines at a time (2)
#   GT_VM_LIMIT    seconds for one machine
#
# Exit status: 0; 1 where a test failed, or anything else went wrong; 77, with a line "SKIP: ...",
# where that is all that went wrong: something is neither in the cache nor can the archive be reached.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
shopt -s inherit_errexit

# NAME ARCH KERNEL USERLAND CI
machines() {
	cat <<'MACHINES'
bullseye-5.10-amd64 amd64 bullseye:5.10 bookworm ci
bookworm-6.1-amd64 amd64 bookworm:6.1 bookworm ci
bookworm-6.1-arm64 arm64 bookworm:6.1 bookworm ci
trixie-6.12-amd64 amd64 trixie:6.12 trixie
trixie-6.12-amd64-sid amd64 trixie:6.12 sid
backports-6.18-amd64 amd64 trixie-backports:6.18 trixie
backports-7-amd64 amd64 trixie-backports:7 sid
bullseye-5.10-arm64 arm64 bullseye:5.10 bookworm
trixie-6.12-arm64 arm64 trixie:6.12 trixie
MACHINES
}

# What runs there of the project; for the attach tests only, the unit tests are not built.
attached=(giltrace gil2trace libgiltrace embed fake_giltrace)
loaded=(condhammer gilhold marker signals mapper)

# What giltrace is linked with, and what tests call.
packages='libbpf1 libdw1 libcjson1 libsqlite3-0 util-linux strace binutils libcap2-bin'

wanted=()
tests=()
while [ $# -gt 0 ]; do
	case $1 in
	--list) machines && exit ;;
	--)
		shift
		tests=("$@")
		break
		;;
	ci | all) wanted=("$1") ;;
	*)
		machines | grep -q "^$1 " || die "unknown name $1; --list tells those known"
		wanted+=("$1")
		;;
	esac
	shift
done
[ ${#wanted[@]} -gt 0 ] || wanted=(ci)
mode=all
case ${wanted[0]} in
ci) mode=ci && mapfile -t wanted < <(machines | sed -n 's/ .* ci$//p') ;;
all) mapfile -t wanted < <(machines | cut -d ' ' -f 1) ;;
esac
[ ${#tests[@]} -gt 0 ] || tests=("$mode")
limit=${GT_VM_LIMIT:-$([ $mode = ci ] && echo 900 || echo 14400)}

work=$(mktemp -d "${TMPDIR:-/tmp}/kernels.XXXXXX")
set -m # each machine gets a process group

clean_up() {
	local pid

	for pid in $(jobs -rp); do
		kill -- "-$pid"
	done
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# ---- a build for each architecture: what tests need of it ----

case $(uname -m) in
x86_64) native=amd64 ;;
aarch64) native=arm64 ;;
*) die "this is a $(uname -m); giltrace knows x86_64 and aarch64" ;;
esac

# built ARCH: where its build lies, made if it is not there.
built() {
	local dir=$build GT_TARGETS=

	[ $mode != ci ] || GT_TARGETS="${attached[*]} ${loaded[*]}"
	export GT_TARGETS
	[ "$1" = $native ] || dir=${GT_CROSS_DIR:-$top/build-$1}
	if [ ! -x "$dir/giltrace" ] && [ "$1" = $native ]; then
		build_in "$dir" -DGT_TESTS=ON >&2
	elif [ ! -x "$dir/giltrace" ]; then
		"$top/scripts/cross.sh" "$1" "$dir" -DGT_TESTS=ON >&2
	fi
	echo "$dir"
}

# stage ARCH: what of it travels, in $work/ARCH; its path in $work/ARCH.path.
stage() {
	local dir to=$work/$1 name

	dir=$(built "$1")
	mkdir -p "$to/tests"
	cp -a "$dir"/{giltrace,gil2trace} "$dir"/libgiltrace.so* "$to"
	for name in condhammer.so gilhold.so marker.so signals.so embed mapper fake_giltrace; do
		cp -a "$dir/tests/$name" "$to/tests"
	done
	for name in $("$top/tests/vm/run.py" --units); do
		[ ! -x "$dir/tests/test_$name" ] || cp -a "$dir/tests/test_$name" "$to/tests"
	done
	realpath "$dir" >"$work/$1.path"
}

# ---- the machines ----

# run_one NAME: its console to standard output when it is done, its status in $work/NAME.status, its
# result in $work/NAME/.
run_one() {
	local name arch kernel userland status=0 dir

	read -r name arch kernel userland _ < <(machines | grep "^$1 ")
	dir=$(cat "$work/$arch.path")
	"$top/scripts/vmtest.sh" -a "$arch" -u "$userland" -p "$packages" -t "$limit" \
		-o "$work/$name" -d "$top:/giltrace" -x .git -x build -x 'build-*' -x __pycache__ \
		-d "$work/$arch:$dir" "$kernel" -- \
		"GT_OWN_CLOCK=1 GT_SLOW=10 GT_BUILD_DIR=$dir python3 tests/vm/run.py $(printf '%q ' "${tests[@]}")" \
		>"$work/$name.console" 2>&1 || status=$?
	say "$name: status $status"
	cat "$work/$name.console"
	echo "$status" >"$work/$name.status"
}

for name in "${wanted[@]}"; do
	arch=$(machines | sed -n "s/^$name \([^ ]*\) .*/\1/p")
	if [ ! -d "$work/$arch" ]; then
		stage "$arch"
	fi
done
say "${wanted[*]}: ${tests[*]}"
for name in "${wanted[@]}"; do
	[ "$(jobs -rp | wc -l)" -lt "${GT_VM_JOBS:-2}" ] || wait -n
	run_one "$name" &
done
wait

# ---- what came of it ----

skipped=() failed=()
for name in "${wanted[@]}"; do
	status=$(cat "$work/$name.status")
	case $status in
	0) ;;
	77) skipped+=("$name") ;;
	*) failed+=("$name") ;;
	esac
done
say "Table"
python3 "$top/tests/vm/table.py" "$top/docs/kernels.md" "$work"
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
[ ${#skipped[@]} -eq 0 ] || {
	echo "SKIP: ${skipped[*]}: not in the cache, and the archive cannot be reached" >&2
	exit 77
}
