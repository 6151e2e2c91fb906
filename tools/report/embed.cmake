# SPDX-License-Identifier: Apache-2.0
#
#     cmake -DDIR=<tools/report> -DOUT=<file.c> -DSCRIPTS=<names> -DSTYLES=<names> -P embed.cmake
#
# report.html with its styles and scripts in it, as two arrays of bytes: what stands before the page's
# data and what stands behind it. In CMake's own language, so that a cross build needs no program of
# the build machine.
#
# The page may run and apply only what was put into it here: its policy names the hashes.
cmake_minimum_required(VERSION 3.20)

# base64 of what the SHA-256 in hexadecimal stands for, as a Content-Security-Policy wants it.
function(hash_of text out)
	set(alphabet ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
	string(SHA256 hex "${text}")
	string(APPEND hex 00) # 32 bytes are ten groups of three and two bytes
	set(result "")
	foreach(at RANGE 0 63 3)
		string(SUBSTRING "${hex}" ${at} 3 three)
		math(EXPR high "0x${three} >> 6")
		math(EXPR low "0x${three} & 63")
		string(SUBSTRING ${alphabet} ${high} 1 a)
		string(SUBSTRING ${alphabet} ${low} 1 b)
		string(APPEND result ${a}${b})
	endforeach()
	string(SUBSTRING "${result}" 0 43 result)
	set(${out} "sha256-${result}=" PARENT_SCOPE)
endfunction()

# All files one after the other.
function(join_files out)
	set(all "")
	foreach(name IN LISTS ARGN)
		file(READ ${DIR}/${name} text)
		string(APPEND all "${text}")
	endforeach()
	set(${out} "${all}" PARENT_SCOPE)
endfunction()

join_files(style ${STYLES})
join_files(script ${SCRIPTS})
set(script "\"use strict\";\n(function () {\n${script}})();\n")
hash_of("${style}" style_hash)
hash_of("${script}" script_hash)

file(READ ${DIR}/report.html page)
string(REPLACE "@STYLE_HASH@" "${style_hash}" page "${page}")
string(REPLACE "@SCRIPT_HASH@" "${script_hash}" page "${page}")
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
string(FIND "${page}" "@DATA@" at)
if(at LESS 0)
	message(FATAL_ERROR "report.html has no @DATA@")
endif()
string(SUBSTRING "${page}" 0 ${at} head)
math(EXPR at "${at} + 6")
string(SUBSTRING "${page}" ${at} -1 tail)

set(code "/* Made by tools/report/embed.cmake. NOLINTBEGIN */\n#include \"html_private.h\"\n")
foreach(part head tail)
	file(WRITE ${OUT}.${part} "${${part}}")
	file(READ ${OUT}.${part} hex HEX)
	file(REMOVE ${OUT}.${part})
	string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
	string(REGEX REPLACE "(................................................................................)" "\\1\n" hex "${hex}")
	string(APPEND code "const unsigned char gt_report_${part}[] = {\n${hex}};\n"
		"const size_t gt_report_${part}_len = sizeof(gt_report_${part});\n")
endforeach()
string(APPEND code "/* NOLINTEND */\n")
file(WRITE ${OUT} "${code}")
