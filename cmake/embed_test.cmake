# Embeds awkward files, compiles what comes out, and compares what the program prints with the files:
#   cmake -DCOMPILER=c++ -DFOLDER=where-to-work -P embed_test.cmake
cmake_minimum_required(VERSION 3.25)

set(embed ${CMAKE_CURRENT_LIST_DIR}/embed.cmake)
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})

set(awkward "a;b;;c\\;d [x] [[y]] ]=] [=[ \\ \\\\ \"q\" 'q' $ \${CMAKE_VERSION} \@x\@ {} )\" %s ??/ #\n\n")
string(APPEND awkward "\t\r\nlone \r carriage return, and no newline at the end; é ’ 注 \\x41 \\n")
file(WRITE ${FOLDER}/awkward "${awkward}")
file(WRITE ${FOLDER}/empty "")
# UTF-8 over more than 65,536 bytes, in one line and in many.
string(REPEAT "注é’;]" 30000 long)
file(WRITE ${FOLDER}/long "${long}")
string(REPEAT "zero λ;\n" 20000 lines)
file(WRITE ${FOLDER}/lines "${lines}")

file(WRITE ${FOLDER}/code [=[
before
    // begin: result
    if (a[0] < b) {
      call("x;y", '\\');  // ${kept} [bracket

    }
    // end: result
  // begin: result.2
  two
   three
  // end: result.2
// begin: nothing
// end: nothing
]=])
file(WRITE ${FOLDER}/expected_region [=[
if (a[0] < b) {
  call("x;y", '\\');  // ${kept} [bracket

}
]=])
file(WRITE ${FOLDER}/expected_second "two\n three\n")

set(entries awkward=awkward empty=empty long_line=long lines=lines "region=code#result"
            "second=code#result.2" "nothing=code#nothing")
execute_process(COMMAND ${CMAKE_COMMAND} -DOUTPUT=embedded.cc -DNAMESPACE=test::inner
                        "-DENTRIES=${entries}" -P ${embed}
                WORKING_DIRECTORY ${FOLDER} COMMAND_ERROR_IS_FATAL ANY)

file(WRITE ${FOLDER}/main.cc [=[
#include <fstream>
#include <string_view>
namespace test::inner {
extern const std::string_view awkward, empty, long_line, lines, region, second, nothing;
}
// Read before main: the constants are there before any code runs.
const std::size_t early = test::inner::awkward.size();
int main() {
  using namespace test::inner;
  std::ofstream("awkward.out", std::ios::binary) << awkward;
  std::ofstream("empty.out", std::ios::binary) << empty;
  std::ofstream("long.out", std::ios::binary) << long_line;
  std::ofstream("lines.out", std::ios::binary) << lines;
  std::ofstream("region.out", std::ios::binary) << region;
  std::ofstream("second.out", std::ios::binary) << second;
  std::ofstream("nothing.out", std::ios::binary) << nothing;
  return early == awkward.size() ? 0 : 1;
}
]=])
execute_process(COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -Wpedantic -Werror main.cc embedded.cc
                        -o program
                WORKING_DIRECTORY ${FOLDER} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${FOLDER}/program WORKING_DIRECTORY ${FOLDER} COMMAND_ERROR_IS_FATAL ANY)
foreach(pair awkward=awkward empty=empty long=long lines=lines region=expected_region
             second=expected_second nothing=empty)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 output)
  list(GET pair 1 expected)
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${output}.out ${expected}
                  WORKING_DIRECTORY ${FOLDER} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

foreach(bad "x=code#absent" "x=code#resul" "x=absent" "no entry" "7=code")
  execute_process(COMMAND ${CMAKE_COMMAND} -DOUTPUT=bad.cc -DNAMESPACE=test "-DENTRIES=${bad}"
                          -P ${embed}
                  WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    message(FATAL_ERROR "the entry '${bad}' was accepted")
  endif()
  if(EXISTS ${FOLDER}/bad.cc)
    message(FATAL_ERROR "the entry '${bad}' left a file")
  endif()
endforeach()
