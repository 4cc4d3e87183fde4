# For any Linux with glibc 2.28 or later (manylinux_2_28): PyPI's zig has clang, a libc++ that goes into each library, and the names of every glibc. `tools/portable.sh` writes the folder.
set(INGOT_PORTABLE "${CMAKE_CURRENT_LIST_DIR}/../build/portable-tools")
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
