#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/lint.sh: clang-tidy (.clang-tidy) and cppcheck over the C files, shellcheck over the scripts.
# Needs a build folder (compile_commands.json and the BPF skeleton): run scripts/test.sh before.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

[ -f "$build/compile_commands.json" ] || die "$build holds no build; run scripts/test.sh first"
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) ||
	die "clang-tidy is missing; scripts/setup.sh --lint installs it"
for tool in cppcheck shellcheck; do
	command -v $tool >/dev/null || die "$tool is missing; scripts/setup.sh --lint installs it"
done

cd "$top"
say "shellcheck"
shellcheck -x scripts/*.sh tests/vm/*.sh .ci/run

say "clang-tidy"
# One file a run, and that once, however many programs it is built into: clang-tidy 14 reports false
# va_list errors in the second and later ones.
once=$(mktemp -d)
trap 'rm -r "$once"' EXIT
python3 - "$build/compile_commands.json" >"$once/compile_commands.json" <<'PYTHON'
import json, sys
print(json.dumps(list({c["file"]: c for c in json.load(open(sys.argv[1]))}.values()), indent=0))
PYTHON
tidy_files() {
	xargs -r -d '\n' -n 1 -P "$(nproc)" "$tidy" --quiet -p "$once" "$@" 2>/dev/null
}
files=$(sed -n 's/^ *"file": "\(.*\.c\)",*$/\1/p' "$once/compile_commands.json" |
	grep -v /alone/ | sort -u)
# The analyzer that follows paths takes most of the time: a fifth of its usual patience finds what it
# has found here so far. Of the tests, which run, it is left out.
grep -v "^$top/tests/" <<<"$files" |
	tidy_files --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang \
		--extra-arg=max-nodes=45000
grep "^$top/tests/" <<<"$files" | tidy_files --checks=-clang-analyzer-*

# Macros of libbpf that cppcheck, which reads no system headers, must know. Left out:
#   missingIncludeSystem: see above
#   normalCheckLevelMaxBranches: a note of newer versions about their own effort
say "cppcheck"
cppcheck --quiet --error-exitcode=1 --inline-suppr -j "$(nproc)" --std=c11 \
	--enable=warning,performance,portability --suppress=missingIncludeSystem \
	--suppress=normalCheckLevelMaxBranches -I include -I src -I bpf -I tools \
	-D'LIBBPF_OPTS(type,name,...)=struct type name = {__VA_ARGS__}' -D'SEC(name)=' \
	-DGT_VERSION='""' bpf include src tools tests
