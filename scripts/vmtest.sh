#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# scripts/vmtest.sh [option...] KERNEL -- COMMAND...: runs COMMAND under another Linux kernel, with
# Debian's packages as userland, in qemu's software emulation; prints its console. Needs no root.
#
#   KERNEL   SUITE[:VERSION]: the newest Debian kernel of SUITE whose version begins with VERSION
#            (bullseye:5.10, bookworm:6.1, trixie, trixie-backports:6.18); or the path of a kernel,
#            or of a package linux-image or linux-binary
#   -a ARCH  amd64 (default) or arm64
#   -d DIR[:NAME]  DIR is there, as NAME (default: by the same path); COMMAND starts in the first one
#   -x GLOB  without files and folders of -d that match it
#   -u SUITE the userland's (default bookworm)
#   -p "PACKAGE..."  more packages in it; of those that end in -dbg only the debug files
#   -f FLAVOUR  the kernel's: cloud-ARCH (default), ARCH, rt-ARCH
#   -o DIR   what COMMAND leaves in /out comes into DIR (over the console: about 150 kB/s)
#   -m MEM (2G)  -c CPUS (2)  -t SECONDS (600)  -A ACCELERATOR (tcg,thread=multi)  -k "KERNEL ARG..."
#   -v       with all that the kernel says
#   -n       only fetches what the run needs
#   -l       lists the versions of KERNEL, a suite, and ends
#
# Exit status: that of COMMAND; 77: what is needed is neither in the cache nor can the archive be
# reached; 124: it took too long; 125: nothing was run, for another reason; 126: the machine died.
#
# What is fetched is kept in ${GT_VM_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/giltrace/vm} and then left
# alone, without a look at the network; to have it anew, remove it. The archive is that of this
# machine's own apt, or $GT_DEBIAN_MIRROR. No modules are loaded and no disk is there: all that a
# machine has travels in its initramfs.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source-path=SCRIPTDIR source=debian.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/debian.sh"

export LC_ALL=C
UNREACHABLE=77 TOO_LONG=124 NOT_RUN=125 DIED=126

fail() {
	printf 'vmtest.sh: %s\n' "${*:2}" >&2
	exit "$1"
}

usage() {
	sed -n '4,/^$/s/^# \{0,1\}//p' "$0" >&2
	exit $NOT_RUN
}

arch=amd64 userland=bookworm packages='' flavour='' out='' memory=2G cpus=2 limit=600
accelerator=tcg,thread=multi arguments='' level=loglevel=4 only='' dirs=() without=()
while getopts a:d:x:u:p:f:o:m:c:t:A:k:vnl option; do
	case $option in
	a) arch=$OPTARG ;;
	d) dirs+=("$OPTARG") ;;
	x) without+=("-$OPTARG") ;;
	u) userland=$OPTARG ;;
	p) packages+=" $OPTARG" ;;
	f) flavour=$OPTARG ;;
	o) out=$OPTARG ;;
	m) memory=$OPTARG ;;
	c) cpus=$OPTARG ;;
	t) limit=$OPTARG ;;
	A) accelerator=$OPTARG ;;
	k) arguments=$OPTARG ;;
	v) level=ignore_loglevel ;;
	n) only=fetch ;;
	l) only=list ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
kernel=$1
shift
[ "${1:-}" != -- ] || shift
[ $# -gt 0 ] || [ -n "$only" ] || usage
case $arch in
amd64) qemu=qemu-system-x86_64 qemu_package=qemu-system-x86 console=ttyS0 ;;
arm64) qemu=qemu-system-aarch64 qemu_package=qemu-system-arm console=ttyAMA0 ;;
*) fail $NOT_RUN "giltrace knows amd64 and arm64, not $arch" ;;
esac
flavour=${flavour:-cloud-$arch}

cache=${GT_VM_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/giltrace/vm}
mkdir -p "$cache"/{kernel,userland}
work=$(mktemp -d "${TMPDIR:-/tmp}/vmtest.XXXXXX")
trap 'rm -rf "$work"' EXIT

# ---- packages ----

# What apt says where it reaches nobody.
no_network='Could not (resolve|connect)|Temporary failure|Connection (timed|refused|failed)'
no_network+='|Unable to connect|Cannot initiate'

# update SUITE ARCH: its lists, with those that it builds upon.
update() {
	local suite=$1 base=${1%-backports} said=$work/update

	find_archive || fail $UNREACHABLE "no packages of $suite: $why"
	also=()
	case $base in
	sid | experimental) ;;
	*) also=("${archive%/}-security $base-security") ;;
	esac
	[ "$suite" = "$base" ] || also+=("$archive $base")
	own_apt deb "$suite" "$2" apt-get update -o APT::Update::Error-Mode=any 2>"$said" && return
	cat "$said" >&2
	! grep -qE "$no_network" "$said" || fail $UNREACHABLE "$archive cannot be reached"
	fail $NOT_RUN "the lists of $suite cannot be had from $archive"
}

# fetch DIR SUITE ARCH PACKAGE...: with all that they depend on.
fetch() {
	local dir=$1 suite=$2 arch=$3

	shift 3
	say "Fetching for $suite $arch: $*"
	mkdir -p "$dir/partial"
	update "$suite" "$arch"
	own_apt deb "$suite" "$arch" apt-get -y --no-install-recommends --download-only \
		-o Dir::Cache::archives="$dir" install "$@" >&2 ||
		fail $NOT_RUN "they cannot be had from $archive; see above"
}

# ---- the emulator: this machine's own, or bookworm's, started by its own loader ----

find_qemu() {
	local root=$cache/qemu-$arch host libs

	if command -v "$qemu" >/dev/null; then
		run_qemu=("$qemu")
		return
	fi
	case $(uname -m) in
	x86_64) host=amd64 libs=x86_64-linux-gnu ;;
	aarch64) host=arm64 libs=aarch64-linux-gnu ;;
	*) fail $NOT_RUN "$qemu is not here: package $qemu_package" ;;
	esac
	if [ ! -d "$root" ]; then
		fetch "$work/qemu" bookworm "$host" "$qemu_package" libc6
		unpack "$cache/.qemu" "$work"/qemu/*.deb
		mv "$cache/.qemu" "$root"
	fi
	libs=$root/usr/lib/$libs
	run_qemu=(env QEMU_MODULE_DIR="$libs/qemu" "$(echo "$libs"/ld-linux-*.so.*)"
		--library-path "$libs:$libs/pulseaudio" "$root/usr/bin/$qemu"
		-L "$root/usr/share/qemu" -L "$root/usr/share/seabios")
}

# ---- the kernel ----

# kernel_of PACKAGE DIR: what a package holds as DIR/vmlinuz; fails where it has none.
kernel_of() {
	local new=$work/kernel found

	rm -rf "$new"
	mkdir "$new"
	dpkg-deb --fsys-tarfile "$1" |
		tar -x -C "$new" --wildcards './boot/*' './usr/lib/modules/*/vmlinu*' 2>/dev/null || true # tar complains where one of them is not there
	found=$(find "$new" -type f -name 'vmlinu*' -print -quit)
	[ -n "$found" ] || return
	mkdir -p "$2"
	mv "$found" "$2/vmlinuz"
}

# kernel_versions SUITE [VERSION]: as the packages have it in their names, the newest last.
kernel_versions() {
	local begins=${2:-} names="^linux-image-[0-9]+\.[0-9]+\.[0-9]+[^ ]*-$flavour\$"

	own_apt deb "$1" "$arch" apt-cache search --names-only "$names" |
		sed -n "s/^linux-image-\(${begins//./\\.}${begins:+[^0-9]}.*\)-$flavour .*/\1/p" |
		grep -v -e '-cloud$' -e '-rt$' | sort -V
}

# fetch_kernel SUITE VERSION DIR: an older one where the archive's lists are ahead of its files.
fetch_kernel() {
	local version package

	update "$1" "$arch"
	for version in $(kernel_versions "$1" "$2" | tac); do
		# From 7.x on linux-image is empty, and linux-binary holds the kernel.
		for package in linux-image linux-binary; do
			say "Fetching $package-$version-$flavour"
			rm -rf "$work/debs"
			mkdir "$work/debs"
			(cd "$work/debs" && own_apt deb "$1" "$arch" \
				apt-get download "$package-$version-$flavour" >&2) || break
			if kernel_of "$(echo "$work"/debs/*.deb)" "$3.new"; then
				mv "$3.new" "$3"
				return
			fi
		done
	done
	fail $NOT_RUN "$1 has no kernel $2 ($flavour) that can be had"
}

find_kernel() {
	local suite=${kernel%%:*} version='' dir

	if [ -f "$kernel" ] && [[ $kernel = *.deb ]]; then
		kernel_of "$kernel" "$work" || fail $NOT_RUN "no kernel in $kernel"
		vmlinuz=$work/vmlinuz
	elif [ -f "$kernel" ]; then
		vmlinuz=$kernel
	else
		[ "$suite" = "$kernel" ] || version=${kernel#*:}
		dir=$cache/kernel/$suite-${version:-newest}-$flavour
		[ -d "$dir" ] || fetch_kernel "$suite" "$version" "$dir"
		vmlinuz=$dir/vmlinuz
	fi
}

# ---- the userland: packages unpacked and never configured, as one archive ----

find_userland() {
	local root=$work/root libelf=libelf1t64 wanted

	case $userland in
	bullseye | bookworm) libelf=libelf1 ;;
	esac
	wanted=$(tr ' ' '\n' <<<"busybox-static libc6 libgcc-s1 zlib1g $libelf bash coreutils procps
		python3 $packages" | tr -d '\t' | sed '/^$/d' | sort -u)
	base=$cache/userland/$userland-$arch-$(md5sum <<<"2 $wanted" | cut -c 1-12).cpio
	[ ! -f "$base" ] || return 0
	mapfile -t wanted <<<"$wanted"
	fetch "$work/debs-user" "$userland" "$arch" "${wanted[@]}"
	# What would only configure the others.
	(cd "$work/debs-user" && rm -f perl* libperl* usrmerge_* dpkg_* debconf_*)
	mkdir -p "$root/usr/lib/debug"
	find "$work/debs-user" -name '*-dbg_*.deb' | while read -r deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --wildcards './usr/lib/debug/*' || true
		rm "$deb"
	done
	unpack "$root" "$work"/debs-user/*.deb
	rm -rf "$root"/usr/share/{man,locale,info,bug,lintian,gcc,gdb}
	[ -e "$root/usr/bin/sh" ] || ln -s bash "$root/usr/bin/sh"
	mkdir -p "$root"/{root,run,sys,out,mnt,bb,etc,var/tmp}
	chmod 1777 "$root/tmp" "$root/var/tmp"
	echo root:x:0:0:root:/root:/bin/bash >"$root/etc/passwd"
	echo root:x:0: >"$root/etc/group"
	echo 127.0.0.1 localhost >"$root/etc/hosts"
	python3 "$top/tests/vm/mkcpio.py" "$base.new" "$root="
	mv "$base.new" "$base"
	rm -rf "$root" "$work/debs-user"
}

# ---- the run ----

# initramfs COMMAND...: the userland and, laid over it, what this run brings.
initramfs() {
	local dir source name first='' args=()

	for dir in "${dirs[@]}"; do
		source=$(realpath -e -- "${dir%%:*}") || fail $NOT_RUN "no $dir"
		name=$source
		[[ $dir != *:* ]] || name=${dir#*:}
		first=${first:-$name}
		args+=("$source=$name")
	done
	printf '%s\n' "${first:-/root}" >"$work/cwd"
	# One word is a line for the shell.
	if [ $# -eq 1 ]; then
		printf '%s\n' "$1"
	else
		printf '%q ' "$@"
	fi >"$work/cmd"
	python3 "$top/tests/vm/mkcpio.py" "$work/over.cpio" "${without[@]}" "${args[@]}" \
		"$top/tests/vm/init.sh=init" "$work/cwd=vmtest.cwd" "$work/cmd=vmtest.cmd"
	cat "$base" "$work/over.cpio" >"$work/initrd"
}

# boot: the console to standard output, without what belongs into $out, and all of it to $work/console.
boot() {
	local machine=(-M virt -cpu "max,pauth-impdef=on")

	[ "$arch" = arm64 ] || machine=(-M pc -cpu max)
	[ "${accelerator%%,*}" != kvm ] || machine=("${machine[@]/max*/host}")
	# No root=: the root file system is the initramfs, a tmpfs, in which uprobes work. With -no-reboot a
	# panic ends qemu at once. no_timer_check: on a busy machine the IO-APIC's timer seems not to work.
	timeout --foreground -k 5 "$limit" "${run_qemu[@]}" "${machine[@]}" -accel "$accelerator" \
		-smp "$cpus" -m "$memory" -nodefaults -no-user-config -display none -serial stdio -no-reboot \
		-kernel "$vmlinuz" -initrd "$work/initrd" \
		-append "console=$console panic=-1 $level mitigations=off no_timer_check $arguments" \
		</dev/null 2>&1 |
		sed -u 's/\r*$//' | tee "$work/console" |
		sed -u '/^VMTEST-OUT-BEGIN/,/^VMTEST-OUT-END/d'
}

# take_out: the folder /out from the console.
take_out() {
	mkdir -p "$out"
	sed -n '/^VMTEST-OUT-BEGIN/,/^VMTEST-OUT-END/p' "$work/console" | sed '1d;$d' | base64 -d |
		tar -xz -C "$out"
}

if [ "$only" = list ]; then
	update "$kernel" "$arch"
	kernel_versions "$kernel"
	exit
fi
exec {lock}>"$cache/.lock"
flock "$lock" # one run at a time fetches
find_qemu
find_kernel
find_userland
exec {lock}>&-
[ "$only" != fetch ] || exit 0

initramfs "$@"
boot || died=$?
if [ -n "$out" ] && grep -aq '^VMTEST-OUT-BEGIN' "$work/console"; then
	take_out
fi
status=$(sed -n 's/^.*VMTEST-EXIT \([0-9]*\),.*/\1/p' "$work/console" | tail -n 1)
[ -z "$status" ] || exit "$status"
case ${died:-0} in
124 | 137) fail $TOO_LONG "not done within $limit s" ;;
esac
fail $DIED "the machine ended without a result (qemu's status: ${died:-0})"
