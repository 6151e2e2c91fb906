#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sudo scripts/test.sh [ctest option...]: installs what is missing, builds, runs all tests.
# Where BPF does not work (no root, a container, a kernel without it) the tests that attach to
# processes skip and say why; GT_REQUIRE_BPF=1 in the environment makes that a failure.
# GT_CMAKE_OPTIONS holds more options for cmake, separated by spaces.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

"$top/scripts/setup.sh" --tests
say "Building in $build"
read -r -a options <<<"${GT_CMAKE_OPTIONS:-}"
build_in "$build" -DGT_TESTS=ON "${options[@]}"
say "Testing"
cd "$build"
rc=0
# Tests often wait for what others do: one more than there are CPUs.
ctest --output-on-failure --no-label-summary --parallel $(($(nproc) + 1)) "$@" || rc=$?
[ ${#drop[@]} -eq 0 ] || chown -hR "$owner_uid:$owner_gid" Testing
# ctest does not tell why a test was skipped; where nothing may be, its summary comes last.
if [ "${GT_REQUIRE_BPF:-}" != 1 ]; then
	grep -hs '^e2e: \(SKIPPED\|MISSING\)' Testing/Temporary/LastTest.log | sort -u || true
fi
exit $rc
