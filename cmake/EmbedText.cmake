# ingot_texts(TARGET [FILES]): every *.cuh file under the current folder, and these, as a string that TARGET's code can include: "x.cuh" becomes
# <the file's path under src/>.h with `inline constexpr std::string_view x_cuh`. A line break stands in front of the text.
# Run as a script with -DIN=.. -DOUT=.. it writes one such header.
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${IN}" text)
  cmake_path(GET IN STEM name)
  file(WRITE "${OUT}" "#pragma once\n#include <string_view>\n\nnamespace ingot {\ninline constexpr std::string_view ${name}_cuh = R\"cuh(\n${text})cuh\";\n}  // namespace ingot\n")
  return()
endif()

set(INGOT_EMBED_TEXT "${CMAKE_CURRENT_LIST_FILE}")
function(ingot_texts target)
  file(GLOB_RECURSE texts CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cuh")
  foreach(text ${texts} ${ARGN})
    cmake_path(RELATIVE_PATH text BASE_DIRECTORY "${CMAKE_SOURCE_DIR}/src" OUTPUT_VARIABLE name)
    set(header "${CMAKE_BINARY_DIR}/generated/${name}.h")
    add_custom_command(OUTPUT "${header}" COMMAND ${CMAKE_COMMAND} -DIN=${text} -DOUT=${header} -P "${INGOT_EMBED_TEXT}" DEPENDS "${text}" "${INGOT_EMBED_TEXT}")
    target_sources(${target} PRIVATE "${header}")
  endforeach()
  target_include_directories(${target} PRIVATE "${CMAKE_BINARY_DIR}/generated")
endfunction()
