# Writes a C++ source that holds files, byte for byte, as std::string_view constants:
#   cmake -DOUTPUT=x.cc -DNAMESPACE=n "-DENTRIES=symbol=path;symbol2=path2#region" -P embed.cmake
# An entry with #region takes only the lines between the line that contains "// begin: region" and
# the next one that contains "// end: region", without the indentation that they share.
cmake_minimum_required(VERSION 3.25)

# The bytes of `region` of the text file `path`. No CMake list is made of them, because a list
# would break at a file's semicolons and brackets.
function(read_region path region result)
  file(READ ${path} text)
  string(FIND "${text}" "// begin: ${region}\n" begin)
  string(FIND "${text}" "// end: ${region}\n" end)
  if(begin EQUAL -1 OR end LESS begin)
    message(FATAL_ERROR "${path} has no lines '// begin: ${region}' and '// end: ${region}'")
  endif()
  string(SUBSTRING "${text}" ${begin} -1 text)
  math(EXPR length "${end} - ${begin}")
  string(SUBSTRING "${text}" 0 ${length} text)
  # From the newline that ends the first marker's line to the last one before the second marker.
  string(FIND "${text}" "\n" first)
  string(FIND "${text}" "\n" last REVERSE)
  string(SUBSTRING "${text}" ${first} -1 text)
  math(EXPR length "${last} - ${first} + 1")
  string(SUBSTRING "${text}" 0 ${length} text)
  # The indentation shared is the one that no line with text falls short of.
  set(indentation "")
  while(NOT text MATCHES "\n${indentation}[^ \n]" AND text MATCHES "\n${indentation} ")
    string(APPEND indentation " ")
  endwhile()
  string(REPLACE "\n${indentation}" "\n" text "${text}")
  string(SUBSTRING "${text}" 1 -1 text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

set(source "// Written by cmake/embed.cmake.\n#include <string_view>\n\n")
# The C++ standard promises 65,536 characters in a literal; the supported compilers have no limit.
string(APPEND source "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\n")
string(APPEND source "namespace ${NAMESPACE} {\n\nusing std::string_view_literals::operator\"\"sv;\n")
foreach(entry IN LISTS ENTRIES)
  if(NOT entry MATCHES "^([A-Za-z_][A-Za-z_0-9]*)=([^#]+)(#(.+))?$")
    message(FATAL_ERROR "the entry '${entry}' is not symbol=path or symbol=path#region")
  endif()
  set(symbol ${CMAKE_MATCH_1})
  set(path ${CMAKE_MATCH_2})
  if(CMAKE_MATCH_4)
    read_region(${path} ${CMAKE_MATCH_4} text)
    string(HEX "${text}" bytes)
  else()
    file(READ ${path} bytes HEX)
  endif()
  # Every byte is an escape: a raw string could hold neither a carriage return nor a zero byte on
  # every compiler. A newline ends the line here too, so that no line grows without bound.
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  string(REPLACE "\\x0a" "\\x0a\"\n    \"" bytes "${bytes}")
  string(APPEND source "\nextern const std::string_view ${symbol};\n"
                       "const std::string_view ${symbol} =\n    \"${bytes}\"sv;\n")
endforeach()
string(APPEND source "\n}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${source}")
