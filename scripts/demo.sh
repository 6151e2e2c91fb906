#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sudo scripts/demo.sh [SECONDS]: installs what is missing, builds, records the GIL of
# scripts/demo_workload.py for 3 s (or SECONDS) and converts the recording to a trace.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
need_root
seconds=${1:-3}
[[ $seconds =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "usage: demo.sh [SECONDS]"

"$top/scripts/setup.sh"
say "Building in $build"
build_in "$build" -DGT_TESTS=OFF

# A folder for each run: viewers keep what they have read from a path before.
out=$build/demo/$(date +%Y%m%d-%H%M%S)
as_owner mkdir -p "$out"
# giltrace gives its files to the user who ran sudo; here, to the owner of the clone.
[ ${#drop[@]} -eq 0 ] || export SUDO_UID=$owner_uid SUDO_GID=$owner_gid

say "Starting scripts/demo_workload.py: four CPU-bound threads and one that does I/O"
coproc workload { as_owner python3 "$top/scripts/demo_workload.py"; }
workload_job=$!
workload_in=${workload[1]}
read -r _ pid <&"${workload[0]}" || die "the workload did not start"

say "giltrace -p $pid -d $seconds -o $out"
rc=0
"$build/giltrace" -p "$pid" -d "$seconds" -o "$out" || rc=$?
exec {workload_in}>&- # the end of its input ends it
wait "$workload_job" || true
case $rc in
0) ;;
6) say "giltrace lost events (its exit status is 6); the trace shows where" ;;
*) die "giltrace failed with exit status $rc" ;;
esac

say "gil2trace $out/*.gil -o $out/trace.json"
as_owner "$build/gil2trace" "$out"/*.gil -o "$out/trace.json"

cat <<END

The trace is $out/trace.json
Open it with MindStudio Insight (Import Data) or in Perfetto (https://ui.perfetto.dev,
"Open trace file").
END
