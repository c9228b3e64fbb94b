// What the sanitizers overlook in every program that is built with them: libraries that are not.

// What fontconfig keeps when a thread that drew text ends is no leak of the program.
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig\n"; }
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }

// How Pango's threads wait for each other inside glib is not seen, so that they seem to race.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }

// Nor how oneTBB hands tasks from thread to thread. Where headproof's own code starts threads it
// takes std::async under the sanitizer (src/attention/parallel.h); what is left are the squares of
// the backward pass, whose bits backward_test.cc compares with 1, 2 and 7 threads.
extern "C" const char* __tsan_default_suppressions() { return "race:tbb::detail\n"; }
