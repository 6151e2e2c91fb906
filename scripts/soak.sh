#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sudo scripts/soak.sh [--list] [NAME...]: what takes too long for every change, and a table at the end.
#
#   tests      scripts/test.sh with GT_SOAK=1 (each fault at each call, hundreds of cycles) and on all
#              Pythons that there are
#   long-run   one recording of many processes under mixed load (tests/soak/long_run.py)
#   fuzz       scripts/fuzz.sh
#   kernels    scripts/kernels.sh all
#   release    a release and its packages, made twice, in older and newer userlands (tests/release)
#   matrix     scripts/buildmatrix.sh
#
#   GT_SOAK_MINUTES  of the long run, and of each fuzz target (30)
#
# Without a NAME all of them, one after another: that takes a day. The exit status is 1 where one failed;
# what each printed is kept in build/soak/NAME.log.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

names=(tests long-run fuzz kernels release matrix)
minutes=${GT_SOAK_MINUTES:-30}

run() {
	case $1 in
	tests) GT_REQUIRE_BPF=1 GT_SOAK=1 GT_ALL_PYTHONS=1 "$top/scripts/test.sh" ;;
	long-run) GT_BUILD_DIR=$build python3 "$top/tests/soak/long_run.py" --minutes "$minutes" ;;
	fuzz) "$top/scripts/fuzz.sh" $((minutes * 60)) ;;
	kernels) "$top/scripts/kernels.sh" all ;;
	release)
		python3 "$top/tests/release/test_release.py" &&
			python3 "$top/tests/release/test_reproducible.py"
		;;
	matrix) "$top/scripts/buildmatrix.sh" ;;
	esac
}

if [ "${1:-}" = --list ]; then
	printf '%s\n' "${names[@]}"
	exit
fi
for name in "$@"; do
	[[ " ${names[*]} " = *" $name "* ]] || die "unknown name $name; --list tells those known"
done
[ $# -gt 0 ] || set -- "${names[@]}"
need_root
"$top/scripts/setup.sh" --tests
build_in "$build" -DGT_TESTS=ON >&2
logs=$build/soak
mkdir -p "$logs"

rows=('| what | result | seconds |' '| --- | --- | ---: |')
failed=0
for name in "$@"; do
	say "$name"
	begin=$SECONDS result=passed
	run "$name" 2>&1 | tee "$logs/$name.log" || result=FAILED failed=1
	rows+=("| $name | $result | $((SECONDS - begin)) |")
done
say "Table"
printf '%s\n' "${rows[@]}"
exit $failed
