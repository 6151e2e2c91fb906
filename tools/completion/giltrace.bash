# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# bash completion of giltrace(1), for the loader of bash-completion 2.

# Processes that look like a Python: by their names, or by their files where we may see those.
_giltrace_pythons() {
	{
		grep -l '^python' /proc/[0-9]*/comm
		find /proc/[0-9]*/exe -maxdepth 0 -lname '*/python*'
	} 2>/dev/null | cut -d/ -f3
}

# Those that listen where --tell looks for them.
_giltrace_listeners() {
	local dir=/run socket

	[[ $EUID -eq 0 ]] || dir=$XDG_RUNTIME_DIR
	for socket in "$dir"/giltrace/*.sock; do
		socket=${socket##*/}
		[[ $socket != '*.sock' ]] && printf '%s\n' "${socket%.sock}"
	done
}

# _giltrace_list WORD...: completes the last part of a list with commas.
_giltrace_list() {
	local done=

	[[ $cur == *,* ]] && done=${cur%,*},
	mapfile -t COMPREPLY < <(compgen -P "$done" -W "$*" -- "${cur##*,}")
	compopt -o nospace
}

_giltrace() {
	local cur prev words cword split i options tells=

	_init_completion -s || return
	for ((i = 1; i < cword; i++)); do
		case ${words[i]} in
		--)
			_command_offset $((i + 1))
			return
			;;
		--tell | --tell=*) tells=1 ;;
		esac
	done

	case $prev in
	-p | --pid)
		_giltrace_list "$(_giltrace_pythons)"
		return
		;;
	--follow) mapfile -t COMPREPLY < <(compgen -W 'auto bpf proc' -- "$cur") ;;
	--probe) mapfile -t COMPREPLY < <(compgen -W 'auto sites functions libc' -- "$cur") ;;
	--backend) mapfile -t COMPREPLY < <(compgen -W 'auto multi perf ioctl' -- "$cur") ;;
	--without)
		_giltrace_list memcg-memory ring-sizes uprobes perf-link uprobe-multi \
			uprobe-multi-pid btf
		return
		;;
	--user)
		mapfile -t COMPREPLY < <(compgen -u -- "$cur")
		return
		;;
	-o | --output-dir)
		_filedir -d
		return
		;;
	--control)
		$split && _filedir
		;;
	--tell)
		_filedir
		mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(
			compgen -W "$(_giltrace_listeners)" -- "$cur"
		)
		return
		;;
	--duration | -d | --ring-size | --ring-memory | --ready-fd | --control-fd | \
		--ring | --window-memory | --trigger-hold | --trigger-wait | --ring-files) return ;;
	esac
	# Of --follow and --control the argument is optional, and is always behind a "=".
	$split && return

	options='--pid= --all-npu --all-python --follow --user= --duration= --output-dir= --list
		--json --dry-run --features --probe= --backend= --without= --ring-size=
		--ring-memory= --ring= --window-memory= --trigger-hold= --trigger-wait=
		--ring-files= --no-thread-names --no-summary --ready-fd= --control --control-fd=
		--paused --tell= --verbose --quiet --help --usage --version
		-p -d -o -v -q -? -V'
	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
		[[ ${COMPREPLY-} == *= ]] && compopt -o nospace
	elif [[ $tells ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'mark pause resume status dump stop' -- "$cur")
	fi
} && complete -F _giltrace giltrace
