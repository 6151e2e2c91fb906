#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# load_builds.sh BUILDS: each BUILDS/NAME/bin/giltrace-CLANG, beside the libraries that it was linked
# with, loads its BPF object into this kernel and records a moment of a Python. Prints, for each,
# "loaded NAME/CLANG" or "refused NAME/CLANG: WHY". For scripts/buildmatrix.sh; runs here as in a VM,
# as root, and leaves /dev, /proc and /sys mounted below BUILDS.

set -u

# It gives its GIL up and takes it again, and leaves the CPU, which a VM has little of, to the others.
coproc python3 -c 'import time
print("ready", flush=True)
while True:
	time.sleep(0.005)'
pid=$COPROC_PID
read -r _ <&"${COPROC[0]}" || exit 2

for program in "$1"/*/bin/giltrace-*; do
	root=${program%/bin/*} clang=${program##*/giltrace-}
	for fs in dev proc sys; do
		[ -n "$(ls -A "$root/$fs")" ] || mount --bind "/$fs" "$root/$fs" || exit 2
	done
	# --follow=bpf: all programs of the object, or none. It says how many events it got.
	said=$(chroot "$root" "/bin/${program##*/}" -p "$pid" -d 0.1 --follow=bpf --no-summary \
		-o /tmp/out 2>&1)
	status=$?
	if [ $status -eq 0 ] && grep -qE ' [1-9][0-9]* events, ' <<<"$said"; then
		echo "loaded ${root##*/}/$clang"
	else
		echo "refused ${root##*/}/$clang: status $status: ${said//$'\n'/; }"
	fi
	rm -rf "$root/tmp/out"
done
kill "$pid"
