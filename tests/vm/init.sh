#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
#
# The first process of scripts/vmtest.sh's machines: mounts what a system has, runs /vmtest.cmd in the
# folder that /vmtest.cwd names, sends /out over the console, tells the status, turns the machine off.

bb=/bin/busybox
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/bb HOME=/root LANG=C.UTF-8

while read -r type where; do
	$bb mkdir -p "$where"
	# Not each kernel has each; what then misses it will tell.
	$bb mount -t "$type" "$type" "$where"
done <<'MOUNTS'
devtmpfs /dev
devpts /dev/pts
tmpfs /dev/shm
tmpfs /run
proc /proc
sysfs /sys
tracefs /sys/kernel/tracing
debugfs /sys/kernel/debug
bpf /sys/fs/bpf
cgroup2 /sys/fs/cgroup
MOUNTS
$bb ln -sf /proc/self/fd /dev/fd
$bb ln -sf fd/0 /dev/stdin
$bb ln -sf fd/1 /dev/stdout
$bb ln -sf fd/2 /dev/stderr
$bb --install -s /bb
$bb ip link set lo up
$bb hostname vmtest

uptime() {
	read -r up _ </proc/uptime
	echo "$up s"
}

echo "VMTEST-BEGIN $($bb uname -r) $($bb uname -m), up $(uptime)"
cd "$($bb cat /vmtest.cwd)" || cd /
/bin/sh /vmtest.cmd </dev/null
status=$?
if [ -n "$($bb ls -A /out)" ]; then
	echo VMTEST-OUT-BEGIN
	$bb tar -C /out -cz . | $bb base64
	echo VMTEST-OUT-END
fi
echo "VMTEST-EXIT $status, up $(uptime)"
$bb poweroff -f
