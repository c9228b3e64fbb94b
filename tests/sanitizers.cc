// What the sanitizers cannot see into: libraries that were built without them.

extern "C" {

// oneTBB hands tasks from thread to thread by means that the thread sanitizer does not know; what
// the tasks compute is compared bit for bit in fused_test.cc, with 1, 2 and 7 threads.
const char* __tsan_default_suppressions();
const char* __tsan_default_suppressions() { return "race:tbb::detail\n"; }

}  // extern "C"
