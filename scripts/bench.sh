#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sudo scripts/bench.sh [--python PYTHON] [--rounds N] [--seconds S]: what tracing costs, beside
# bpftrace where that is installed. The comparison needs a Python with the symbols take_gil and
# drop_gil: the newest of pyenv's that has them, unless --python names one.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
need_root

"$top/scripts/setup.sh" --tests
say "Building in $build"
build_in "$build" -DGT_TESTS=ON >&2
python=$(command -v python3)
while read -r lib; do
	if [[ $(nm "$lib" 2>/dev/null) = *' t drop_gil'* ]]; then
		python=${lib%/lib/*}/bin/python3
	fi
done < <(find "${PYENV_ROOT:-$HOME/.pyenv}/versions" -path '*/lib/libpython3.*.so.1.0' 2>/dev/null |
	sort -V)
say "Measuring"
exec python3 "$top/tests/bench/bench.py" --build "$build" --python "$python" "$@"
