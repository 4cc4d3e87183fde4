# For any Linux with glibc 2.28 or later (manylinux_2_28): PyPI's zig has clang, a libc++ that goes into each library, and the names of every glibc. `tools/portable.sh` writes the folder.
get_filename_component(INGOT_PORTABLE_FOLDER "${CMAKE_CURRENT_LIST_DIR}/../build" ABSOLUTE)  # without "..", which a second configuration takes out, and all is compiled again
if(NOT INGOT_PORTABLE_ARCH)
  set(INGOT_PORTABLE_ARCH x86_64)
  set(INGOT_PORTABLE "${INGOT_PORTABLE_FOLDER}/portable-tools")
else()
  set(INGOT_PORTABLE "${INGOT_PORTABLE_FOLDER}/portable-tools-${INGOT_PORTABLE_ARCH}")
endif()
if(NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL INGOT_PORTABLE_ARCH)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${INGOT_PORTABLE_ARCH})
  find_program(INGOT_EMULATOR qemu-${INGOT_PORTABLE_ARCH}-static)
  if(INGOT_EMULATOR)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${INGOT_EMULATOR};-L;${INGOT_PORTABLE}/root")  # for ctest; `tools/portable.sh --root` writes it
  endif()
  set(CMAKE_LIBRARY_ARCHITECTURE ${INGOT_PORTABLE_ARCH}-linux-gnu)
  # The host's tools know its own files alone.
  set(CMAKE_AR "${INGOT_PORTABLE}/bin/ar")
  set(CMAKE_RANLIB "${INGOT_PORTABLE}/bin/ranlib")
  add_link_options(-s)
  set(CMAKE_STRIP true)
endif()
set(CMAKE_C_COMPILER "${INGOT_PORTABLE}/bin/clang")
set(CMAKE_CXX_COMPILER "${INGOT_PORTABLE}/bin/clang++")
add_compile_options(-g0 -fomit-frame-pointer)  # as other compilers do without being told
# Exceptions of torch's pass through ingot's functions, which takes one unwinder for the whole process.
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT "${INGOT_PORTABLE}/usr/lib/libgcc_s.so.1")
# Headers and libraries come from there alone: those beside them in the system's folders are of its own glibc.
set(CMAKE_FIND_ROOT_PATH "${INGOT_PORTABLE}")
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
