# headproof_embed(TARGET OUTPUT name.cc ENTRIES "symbol=path" "symbol2=path2#region"...): compiles
# the bytes of files into the target as std::string_view constants of namespace headproof; see
# embed.cmake. Relative paths start at the project's folder.
function(headproof_embed target)
  cmake_parse_arguments(arg "" "OUTPUT" "ENTRIES" ${ARGN})
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${arg_OUTPUT})
  set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embed.cmake)
  set(entries "")
  set(files "")
  foreach(entry IN LISTS arg_ENTRIES)
    string(REGEX MATCH "^([^=]*)=([^#]*)(.*)$" matched "${entry}")
    set(region "${CMAKE_MATCH_3}")
    cmake_path(ABSOLUTE_PATH CMAKE_MATCH_2 BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE file)
    list(APPEND entries "${CMAKE_MATCH_1}=${file}${region}")
    list(APPEND files ${file})
  endforeach()
  list(REMOVE_DUPLICATES files)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DNAMESPACE=headproof "-DENTRIES=${entries}"
            -P ${script}
    DEPENDS ${files} ${script}
    COMMENT "Embedding ${arg_OUTPUT}"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
