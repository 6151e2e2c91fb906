# SPDX-License-Identifier: Apache-2.0
#
# Toolchain file: builds giltrace for another machine, or against another distribution's libraries,
# with this machine's clang and lld. clang is there for the BPF program anyway, and needs no more
# than a sysroot (scripts/sysroot.sh) for any target. scripts/cross.sh knows how it is used:
#
#   cmake -DCMAKE_TOOLCHAIN_FILE=scripts/cross.cmake -DGT_SYSROOT=<dir> -DGT_TARGET_ARCH=arm64|amd64

# cmake reads this file again for each trial build.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES GT_SYSROOT GT_TARGET_ARCH)

if(GT_TARGET_ARCH STREQUAL arm64)
	set(CMAKE_SYSTEM_PROCESSOR aarch64)
elseif(GT_TARGET_ARCH STREQUAL amd64)
	set(CMAKE_SYSTEM_PROCESSOR x86_64)
else()
	message(FATAL_ERROR "-DGT_TARGET_ARCH=arm64 or amd64, not \"${GT_TARGET_ARCH}\"")
endif()
if(NOT EXISTS "${GT_SYSROOT}/usr/include")
	message(FATAL_ERROR "-DGT_SYSROOT=\"${GT_SYSROOT}\" is no sysroot; scripts/sysroot.sh makes one")
endif()

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSROOT ${GT_SYSROOT})
set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_C_COMPILER_TARGET ${CMAKE_LIBRARY_ARCHITECTURE})
find_program(CMAKE_C_COMPILER NAMES clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14)
find_program(GT_LLD NAMES ld.lld ld.lld-19 ld.lld-18 ld.lld-17 ld.lld-16 ld.lld-15 ld.lld-14)
if(NOT CMAKE_C_COMPILER OR NOT GT_LLD)
	message(FATAL_ERROR "clang or lld is missing; Debian, Ubuntu, openEuler: clang, lld; "
		"or run scripts/setup.sh --cross as root")
endif()
set(CMAKE_EXE_LINKER_FLAGS_INIT -fuse-ld=${GT_LLD})
set(CMAKE_SHARED_LINKER_FLAGS_INIT -fuse-ld=${GT_LLD})

# Programs are this machine's; everything else is the target's, and nothing of this machine will do.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_PATH} "")
set(gt_pkgconfig ${GT_SYSROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/pkgconfig)
set(ENV{PKG_CONFIG_LIBDIR} ${gt_pkgconfig}:${GT_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${GT_SYSROOT})
