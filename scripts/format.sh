#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/format.sh [--check]: brings the C files into the project's format, or only tells which
# are not in it. With clang-format 14, since other versions format a little differently.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

tool=
for candidate in clang-format-14 clang-format; do
	if [[ $("$candidate" --version 2>/dev/null) = *'version 14.'* ]]; then
		tool=$candidate
		break
	fi
done
[ -n "$tool" ] || die "clang-format 14 is missing; scripts/setup.sh --lint installs it"

mode=(-i)
case ${1:-} in
--check) mode=(--dry-run -Werror) ;;
'') ;;
*) die "usage: format.sh [--check]" ;;
esac
cd "$top"
find bpf include src tools tests -name '*.[ch]' -print0 | xargs -0 "$tool" "${mode[@]}"
