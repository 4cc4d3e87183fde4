# The same for AArch64, on any machine.
set(INGOT_PORTABLE_ARCH aarch64)
include("${CMAKE_CURRENT_LIST_DIR}/portable.cmake")
