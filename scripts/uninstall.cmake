# SPDX-License-Identifier: Apache-2.0
#
# The target uninstall: removes the files that the last cmake --install of this build folder has
# installed (install_manifest.txt), and the folders that are giltrace's own. Honours $DESTDIR.

if(NOT EXISTS install_manifest.txt)
	message(FATAL_ERROR "install_manifest.txt is not here: nothing was installed from this build folder")
endif()
file(STRINGS install_manifest.txt files)
foreach(file IN LISTS files)
	set(path $ENV{DESTDIR}${file})
	file(REMOVE ${path})
	if(EXISTS ${path} OR IS_SYMLINK ${path})
		message(FATAL_ERROR "${path} cannot be removed: run this as the user who installed it")
	endif()
	# Folders up to giltrace's own one. Shared ones stay, even if they are empty now.
	file(RELATIVE_PATH dir ${PREFIX} ${file})
	while(dir MATCHES "^(.*giltrace.*)/[^/]*$")
		set(dir ${CMAKE_MATCH_1})
		file(REMOVE_RECURSE $ENV{DESTDIR}${PREFIX}/${dir}/__pycache__)
		execute_process(COMMAND rmdir $ENV{DESTDIR}${PREFIX}/${dir} ERROR_QUIET)
	endwhile()
	message(STATUS "Removed: ${path}")
endforeach()
file(REMOVE install_manifest.txt)
