# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# bash completion of gil2trace(1), for the loader of bash-completion 2.

_gil2trace() {
	# shellcheck disable=SC2034 # the next line sets them all
	local cur prev words cword split options

	_init_completion -s || return

	case $prev in
	--summary) mapfile -t COMPREPLY < <(compgen -W 'text json' -- "$cur") ;;
	--ids)
		mapfile -t COMPREPLY < <(compgen -W 'namespace host' -- "$cur")
		return
		;;
	--time)
		mapfile -t COMPREPLY < <(compgen -W 'unix relative' -- "$cur")
		return
		;;
	--lanes)
		mapfile -t COMPREPLY < <(compgen -W 'separate inline' -- "$cur")
		return
		;;
	-o | --output | --profiler)
		_filedir
		return
		;;
	--html)
		_filedir html
		return
		;;
	--min-dur | --from | --to | --pid | --tid | --split) return ;;
	esac
	# Of --summary the argument is optional, and is always behind a "=".
	[[ $prev != -i && $prev != --input ]] && $split && return

	options='--input= --output= --summary --html= --min-dur= --from= --to= --pid= --tid=
		--flows --ids= --time= --gzip --per-rank --split= --profiler= --lanes= --merge
		--clip --verbose --quiet --help --usage --version -i -o -v -q -? -V'
	if [[ $cur == -* && $prev != -i && $prev != --input ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
		[[ ${COMPREPLY-} == *= ]] && compopt -o nospace
	else
		_filedir gil
	fi
} && complete -F _gil2trace gil2trace
