// What the sanitizers overlook in every program that is built with them: libraries that are not.

// What fontconfig keeps when a thread that drew text ends is no leak of the program.
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig\n"; }
extern "C" const char* __lsan_default_options() { return "print_suppressions=0"; }

// How Pango's threads wait for each other inside glib is not seen, so that they seem to race.
extern "C" const char* __tsan_default_options() { return "ignore_noninstrumented_modules=1"; }
