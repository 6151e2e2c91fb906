# SPDX-License-Identifier: Apache-2.0
#
# Included by CMakeLists.txt after all install(): what cpack makes (-G DEB, RPM or TGZ), and the target
# uninstall, which takes back what cmake --install has done. scripts/release.sh makes the packages that
# are meant for other hosts (GT_STATIC_DEPS); those of any other build need what this machine has.

set(CPACK_PACKAGE_NAME giltrace)
set(CPACK_PACKAGE_VENDOR "the giltrace developers")
set(CPACK_PACKAGE_CONTACT "the giltrace developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "records and shows who waits for Python's GIL, and for whom")
set(CPACK_PACKAGE_DESCRIPTION "giltrace attaches to running CPython processes by BPF programs and \
records when each thread waits for the GIL, holds it and gives it up. gil2trace makes of it a timeline \
for MindStudio Insight, Perfetto or a browser, and a summary. libgiltrace and the Python package \
giltrace let a program record itself.")
set(CPACK_PACKAGE_FILE_NAME giltrace-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
	GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR})
# As cpack calls it, rpmbuild would strip again, with this machine's tools, and record this machine's
# name and time.
set(CPACK_RPM_SPEC_MORE_DEFINE "%global __os_install_post %{nil}
%global debug_package %{nil}
%global _build_id_links none
%global _buildhost localhost
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
%global __requires_exclude ^/usr/bin/pkg-config$")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/package/prerm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_RPM_PRE_UNINSTALL_SCRIPT_FILE ${CMAKE_CURRENT_LIST_DIR}/package/prerm)
# Folders of the system's; a package that owned them would be in conflict with others.
foreach(dir IN ITEMS bash-completion bash-completion/completions zsh zsh/site-functions
		zsh/vendor-completions man man/man1 man/man3 man/man5 doc)
	list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/${dir})
endforeach()
list(APPEND CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
	set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
else()
	set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
endif()
if(GT_STATIC_DEPS) # and against Debian 11's libc: tests/release compares
	set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.31), zlib1g")
	set(CPACK_RPM_PACKAGE_REQUIRES "glibc >= 2.31")
	set(CPACK_RPM_PACKAGE_LICENSE "Apache-2.0 AND BSD-2-Clause AND LGPL-3.0-or-later AND MIT AND Zlib \
AND bzip2-1.0.6")
elseif(NOT CMAKE_CROSSCOMPILING)
	set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
include(CPack)

add_custom_target(uninstall COMMAND ${CMAKE_COMMAND} -DPREFIX=${CMAKE_INSTALL_PREFIX}
	-P ${CMAKE_CURRENT_LIST_DIR}/uninstall.cmake
	WORKING_DIRECTORY ${CMAKE_BINARY_DIR} COMMENT "Uninstall" VERBATIM)
