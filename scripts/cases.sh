#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/cases.sh [SECONDS]: runs the worked cases of docs/cases.md under giltrace, as root, and
# prints the summary of each. GT_PYTHON: the Python that runs them [python3]; cases of which it
# lacks a module (numpy, torch) are left out. The recordings stay in build/cases.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

need_root
seconds=${1:-3}
python=${GT_PYTHON:-python3}
out=$build/cases

# run NAME PROGRAM [ARGUMENT...]
run() {
	local name=$1 program=$2

	say "$name: ${*:2}"
	rm -rf "${out:?}/$name"
	"$build/giltrace" --no-summary --follow -o "$out/$name" -- \
		"$python" "$top/docs/cases/$program" "${@:3}"
	"$build/gil2trace" --quiet --summary "$out/$name"
}

has() {
	"$python" -c "import $1" 2>/dev/null || {
		say "left out: $python has no module $1"
		return 1
	}
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
