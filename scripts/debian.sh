# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced after common.sh by what takes packages from Debian's archive without installing them: apt
# with a state of its own for each suite and architecture, in $cache/.apt, with signatures checked.
# The archive is that of this machine's own apt, or $GT_DEBIAN_MIRROR.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Sets $archive, or $why it cannot be had.
find_archive() {
	why='' archive=${GT_DEBIAN_MIRROR:-}
	if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
		why="apt-get and dpkg-deb are not here"
	elif [ ! -f "$keyring" ]; then
		why="$keyring is not here (package debian-archive-keyring)"
	elif [ -z "$archive" ]; then
		# shellcheck disable=SC2016 # apt's own variable
		archive=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' |
			grep -m 1 -E '/debian/?$') ||
			why="this machine's apt knows no Debian archive; set GT_DEBIAN_MIRROR"
	fi
	[ -z "$why" ]
}

# What own_apt knows beside its suite: "ARCHIVE SUITE"...
also=()

# own_apt deb|deb-src SUITE ARCH COMMAND...
own_apt() {
	# shellcheck disable=SC2154 # $cache is of those that source this file
	local kind=$1 suite=$2 arch=$3 dir=$cache/.apt/$1-$2-$3 line

	shift 3
	mkdir -p "$dir"/{none,state/lists/partial,cache/archives/partial}
	: >"$dir/status"
	# Of the machine's configuration only how the network is reached.
	apt-config dump | grep -E '^Acquire::(https?|Retries)\b' >"$dir/apt.conf" || true
	for line in "$archive $suite" "${also[@]}"; do
		echo "$kind [arch=$arch signed-by=$keyring] $line main"
	done >"$dir/sources.list"
	# Debian lets the lists of sid expire before mirrors renew them; signatures stay checked.
	APT_CONFIG=$dir/apt.conf "$@" -qq -o Dir::Etc::main="$dir/apt.conf" -o Dir::Etc::parts="$dir/none" \
		-o Dir::Etc::sourcelist="$dir/sources.list" -o Dir::Etc::sourceparts="$dir/none" \
		-o Dir::Etc::preferences="$dir/none/none" -o Dir::Etc::preferencesparts="$dir/none" \
		-o Dir::State="$dir/state" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" \
		-o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User=root \
		-o APT::Get::AllowUnauthenticated=false -o Acquire::AllowInsecureRepositories=false \
		-o Acquire::Languages=none -o Acquire::Check-Valid-Until=false \
		-o APT::Keep-Downloaded-Packages=true </dev/null
}

declare -A fresh

# lists KIND SUITE ARCH: the lists of packages, once a run.
lists() {
	[ -z "${fresh[$*]:-}" ] || return 0
	own_apt "$@" apt-get update && fresh[$*]=1
}

# unpack ROOT DEB...: bin, lib etc. are links into usr, as in an installed system.
unpack() {
	local root=$1 deb d

	shift
	mkdir -p "$root"/{proc,dev,tmp,usr/{bin,sbin,lib,lib64}}
	for d in bin sbin lib lib64; do
		ln -sfn "usr/$d" "$root/$d"
	done
	for deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink \
			--no-same-owner --exclude './usr/share/doc/*' --exclude './usr/lib/debug/*' || return
	done
}
