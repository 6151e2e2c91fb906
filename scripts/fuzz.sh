#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/fuzz.sh [SECONDS] [NAME...]: builds the fuzz targets of tests/fuzz (clang: libFuzzer, with
# AddressSanitizer and UndefinedBehaviorSanitizer), runs those that are named, or all, for so long
# each [60], one after the other, and prints a table. docs/fuzzing.md tells more.
#
# What breaks a target is made as small as can be and put into tests/fuzz/corpus, where every ctest
# runs it again; the exit status is 1 then. What merely reaches new code stays in the build folder
# ($GT_BUILD_DIR, or build-fuzz), where the next run goes on with it. Hostile input is not run as
# root: where we are root, it is run by nobody.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

build=${GT_BUILD_DIR:-$top/build-fuzz}
seconds=60
case ${1:-} in
-*) die "usage: scripts/fuzz.sh [SECONDS] [NAME...]" ;;
[1-9]*)
	[[ $1 =~ ^[0-9]+$ ]] || die "'$1' is no number of seconds"
	seconds=$1
	shift
	;;
esac
names=("$@")
if [ $# -eq 0 ]; then
	for source in "$top"/tests/fuzz/fuzz_*.c; do
		name=${source##*/fuzz_}
		names+=("${name%.c}")
	done
fi
targets=()
for name in "${names[@]}"; do
	[ -f "$top/tests/fuzz/fuzz_$name.c" ] || die "there is no tests/fuzz/fuzz_$name.c"
	targets+=("fuzz_$name")
done
clang=$(command -v clang || command -v clang-14) || die "clang is missing; scripts/setup.sh installs it"

say "Building in $build"
GT_TARGETS="${targets[*]}" build_in "$build" -DCMAKE_C_COMPILER="$clang" -DGT_FUZZ=ON \
	-DGT_SANITIZE=ON -DGT_TESTS=ON >&2

# What runs lies in a folder of its own, in memory if that can be, and belongs to who runs it.
scratch=$(mktemp -d -p /dev/shm fuzz.XXXXXX 2>/dev/null || mktemp -d)
trap 'rm -rf "$scratch"' EXIT
lowered=()
if [ "$(id -u)" -eq 0 ]; then
	lowered=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --)
fi

# What of libFuzzer's last words stands behind a key.
stat_of() {
	sed -n "s/^stat::$1: *//p" "$2" | tail -n 1
}

# target SECONDS NAME OPTION...: runs it, so long at most; relative paths are of its folder.
target() {
	local limit=$1 name=$2

	shift 2
	(cd "$scratch/$name" && "${lowered[@]}" timeout -k 5 "$limit" env TMPDIR="$scratch/$name/tmp" \
		ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:handle_abort=1 \
		UBSAN_OPTIONS=print_stacktrace=1 "./fuzz_$name" -timeout=180 -report_slow_units=600 -rss_limit_mb=2560 \
		-close_fd_mask=2 "$@")
}

prepare() {
	local name=$1 dir=$scratch/$1

	mkdir -p "$dir"/{seeds,corpus,finds,tmp} "$build/fuzz/$name"
	cp "$build/tests/fuzz_$name" "$dir"
	find "$top/tests/fuzz/corpus/$name" -maxdepth 1 -type f -exec cp -t "$dir/seeds" {} + 2>/dev/null || true
	# The same files are fed to both.
	[ "$name" != symres ] || cp "$top"/tests/fuzz/corpus/gilscan/* "$dir/seeds"
	find "$build/fuzz/$name" -type f -exec cp -t "$dir/corpus" {} +
	[ ${#lowered[@]} -eq 0 ] || chown -R 65534:65534 "$dir"
	chmod 755 "$scratch"
}

# What was found, as small as it gets within a while.
keep_finds() {
	local name=$1 dir=$scratch/$1 find small kept

	for find in "$dir"/finds/*; do
		[ -f "$find" ] || continue
		small=$dir/small
		target 60 "$name" -minimize_crash=1 -max_total_time=20 -exact_artifact_path="$small" \
			"$find" >"$dir/minimized" 2>&1 || true
		[ -s "$small" ] || small=$find
		kept=$top/tests/fuzz/corpus/$name/found-$(sha1sum <"$small" | cut -c 1-8)
		as_owner mkdir -p "${kept%/*}"
		as_owner tee "$kept" <"$small" >/dev/null
		say "$name: $kept breaks it"
		rm -f "$dir/small"
	done
}

fuzz() {
	local name=$1 dir=$scratch/$1 log=$build/fuzz/$1.log before cases cpu edges found new
	local TIMEFORMAT='%U %S'

	prepare "$name"
	before=$(find "$dir/corpus" -type f | wc -l)
	{ time target $((seconds + 300)) "$name" -max_total_time="$seconds" -print_final_stats=1 \
		-artifact_prefix="$dir/finds/" "$dir/corpus" "$dir/seeds" >"$log" 2>&1 || true; } 2>"$dir/times"
	cases=$(stat_of number_of_executed_units "$log")
	cpu=$(awk '{ print $1 + $2 }' "$dir/times")
	edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
	found=$(find "$dir/finds" -type f | wc -l)
	new=$(($(find "$dir/corpus" -type f | wc -l) - before))
	[ -n "$cases" ] || found=$((found > 0 ? found : 1)) # it did not even end as it should
	# shellcheck disable=SC2059 # the format is below
	printf "$row" "$name" "$seconds" "$cpu" "${cases:--}" \
		"$(awk -v n="${cases:-0}" -v s="$cpu" 'BEGIN { printf "%d", (s > 0) ? n / s : 0 }')" "${edges:--}" \
		"$(find "$dir/seeds" -type f | wc -l)" "$new" "$found"
	findings=$((findings + found))
	[ ${#drop[@]} -eq 0 ] || chown -R "$owner_uid:$owner_gid" "$dir/corpus"
	cp -a "$dir/corpus/." "$build/fuzz/$name/"
	keep_finds "$name"
	rm -rf "$dir"
}

say "$seconds seconds each; what they say is in $build/fuzz/NAME.log"
findings=0
row='%-12s %8s %8s %10s %8s %8s %8s %8s %8s\n'
# shellcheck disable=SC2059 # the format is above
printf "$row" target seconds "CPU s" cases "/CPU s" edges seeds new findings
for name in "${names[@]}"; do
	fuzz "$name"
done
[ "$findings" -eq 0 ]
