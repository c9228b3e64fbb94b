// The floating-point mode that the canonical order is defined in.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace headproof {

/// Rounds to nearest and keeps subnormal numbers while it lives; then the caller's mode is back.
class StandardFloatMode {
 public:
#if defined(__SSE__)
  // Writing the register takes as long as a hundred additions: it is written when it has to be.
  StandardFloatMode() : before_(_mm_getcsr()) {
    if ((before_ & other_modes) != 0) _mm_setcsr(before_ & ~other_modes);
  }
  ~StandardFloatMode() {
    if ((before_ & other_modes) != 0) _mm_setcsr(before_);
  }

 private:
  static constexpr unsigned other_modes = 0x6000 | 0x8040;  // RC; FTZ and DAZ
  unsigned before_;
#elif defined(__aarch64__)
  StandardFloatMode() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(before_));
    constexpr unsigned long rounding = 3UL << 22, subnormals = 1UL << 24;  // RMode; FZ
    constexpr unsigned long like_x86 = 7;  // FIZ, AH and NEP, which newer processors have
    __asm__ volatile("msr fpcr, %0" : : "r"(before_ & ~(rounding | subnormals | like_x86)));
  }
  ~StandardFloatMode() { __asm__ volatile("msr fpcr, %0" : : "r"(before_)); }

 private:
  unsigned long before_ = 0;
#else
  StandardFloatMode() {
    std::fegetenv(&before_);
    std::fesetround(FE_TONEAREST);
  }
  ~StandardFloatMode() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
#endif

 public:
  StandardFloatMode(const StandardFloatMode&) = delete;
  StandardFloatMode& operator=(const StandardFloatMode&) = delete;
};

}  // namespace headproof
