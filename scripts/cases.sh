#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/cases.sh [SECONDS]: runs the worked cases of docs/cases.md under giltrace, as root, prints
# the summary of each, and at last the table that stands there. GT_PYTHON: the Python that runs them
# [python3]; cases of which it lacks a module (numpy, torch) are left out. The recordings stay in
# build/cases.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

need_root
seconds=${1:-3}
python=${GT_PYTHON:-python3}
out=$build/cases
names=()

# run NAME PROGRAM [ARGUMENT...]
run() {
	local name=$1 program=$2

	say "$name: ${*:2}"
	rm -rf "${out:?}/$name"
	"$build/giltrace" --no-summary --follow -o "$out/$name" -- \
		"$python" "$top/docs/cases/$program" "${@:3}" | tee "$out/$name.said"
	"$build/gil2trace" --quiet --summary "$out/$name"
	"$build/gil2trace" --quiet --summary=json "$out/$name" >"$out/$name.json"
	names+=("$name")
}

has() {
	"$python" -c "import $1" 2>/dev/null || {
		say "left out: $python has no module $1"
		return 1
	}
}

# What docs/cases.md shows of each: the process that the command was, and in it the thread (beside
# the main thread, where there are others) that waited for the greatest part of its time.
table() {
	python3 - "$out" "${names[@]}" <<'END'
import json, os, sys

def ms(ns):
    return "%.2f ms" % (ns / 1e6)

print("| case | it said | GIL held | waiting | thread that waited most | its waits: median, longest | for whom |")
print("|---|---|---|---|---|---|---|")
for name in sys.argv[2:]:
    path = os.path.join(sys.argv[1], name)
    p = min(json.load(open(path + ".json"))["processes"], key=lambda p: p["pid"])
    said = open(path + ".said").read().strip()
    held = sum(g["held_ns"] for g in p["gils"]) / max(1, p["known_ns"])
    row = [name, said, "%.1f %%" % (100 * held), "%.2f threads" % float(p["contention"])]
    t = max(p["threads"], key=lambda t: float(t["wait_share"]), default=None)
    if t and t["wait_ns"]:
        pair = max((x for x in p["pairs"] if x["victim"] == t["tid"]), key=lambda x: x["ns"])
        of = {x["tid"]: x["name"] for x in p["threads"]}
        row += ["%s: %.1f %% of its time" % (t["name"], 100 * float(t["wait_share"])),
                "%s, %s" % (ms(t["waits"]["median_ns"]), ms(t["waits"]["max_ns"])),
                "%s %.0f %%" % (of.get(pair["blocker"], "nobody"), 100 * float(pair["share"]))]
    else:
        row += ["none waited", "", ""]
    print("| " + " | ".join(row) + " |")
END
}

mkdir -p "$out"
run threads threads.py "$seconds"
run threads-short-interval threads.py "$seconds" 0.0005
run processes processes.py "$seconds"
run long-hold longhold.py "$seconds"
run asyncio asyncio_busy.py "$seconds"
run asyncio-alone asyncio_busy.py "$seconds" alone
if has numpy; then
	run numpy numpy_threads.py "$seconds"
	run numpy-small numpy_threads.py "$seconds" 8
fi
if has torch; then
	run dataloader dataloader.py "$seconds" 2
	run dataloader-decode dataloader.py "$seconds" 2 decode
fi
say "The table of docs/cases.md"
table
