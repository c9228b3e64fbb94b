// Subjects in a shared library, most of them wrong in one way; process_test.cc asks each.
#include <headproof/subject.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace {

constexpr std::uint64_t all = (std::uint64_t{HEADPROOF_OFFERS_DECODE} << 1) - 1;
constexpr std::uint64_t by_headproof =
    all &
    ~std::uint64_t{HEADPROOF_OFFERS_WEIGHTS | HEADPROOF_OFFERS_THREADS | HEADPROOF_OFFERS_DECODE};

using Attention = int (*)(const headproof_problem*, char*, std::size_t);

headproof_subject subject(Attention attention, std::uint64_t features = by_headproof) {
  headproof_subject made{};
  made.abi_version = HEADPROOF_ABI_VERSION;
  made.struct_size = sizeof made;
  made.dtype = HEADPROOF_FLOAT32;
  made.features = features;
  made.attention = attention;
  made.backward = headproof_attention_backward;
  return made;
}

headproof_subject with(headproof_subject made, int dtype, int layout) {
  made.dtype = dtype;
  made.layout = layout;
  return made;
}

float* out(const headproof_problem* p) { return static_cast<float*>(p->out.data); }
std::int64_t size(const headproof_problem* p) {
  return p->batch * p->num_heads * p->seq_len_q * p->value_dim;
}

int right(const headproof_problem* p, char* error, std::size_t error_size) {
  return headproof_attention(p, error, error_size);
}

int crash(const headproof_problem*, char*, std::size_t) {
  volatile int* nowhere = nullptr;
  *nowhere = 1;  // NOLINT
  return 0;
}
int stop(const headproof_problem*, char*, std::size_t) {
  std::fputs("the sum is negative\n", stderr);
  std::abort();
}
int leave(const headproof_problem*, char*, std::size_t) { _exit(0); }
int leave_7(const headproof_problem*, char*, std::size_t) { _exit(7); }
int hang(const headproof_problem*, char*, std::size_t) {
  for (;;) sleep(1);
}
int crash_when_long(const headproof_problem* p, char* error, std::size_t error_size) {
  return p->seq_len_q > 4 ? crash(p, error, error_size) : right(p, error, error_size);
}

int print(const headproof_problem* p, char* error, std::size_t error_size) {
  std::puts("ok bytes=0");
  std::fflush(stdout);
  return right(p, error, error_size);
}
int chatter(const headproof_problem* p, char* error, std::size_t error_size) {
  for (int line = 0; line < 40000; ++line) std::fputs("a line on stderr\n", stderr);
  return right(p, error, error_size);
}

int write_after(const headproof_problem* p, char* error, std::size_t error_size) {
  const int status = right(p, error, error_size);
  out(p)[size(p)] = out(p)[size(p) + 1] = 1;
  return status;
}
int write_before(const headproof_problem* p, char* error, std::size_t error_size) {
  const int status = right(p, error, error_size);
  out(p)[-3] = 1;
  return status;
}
int write_after_lse(const headproof_problem* p, char* error, std::size_t error_size) {
  const int status = right(p, error, error_size);
  if (p->lse.data != nullptr) {
    static_cast<float*>(p->lse.data)[p->batch * p->num_heads * p->seq_len_q] = 1;
  }
  return status;
}
int change_inputs(const headproof_problem* p, char* error, std::size_t error_size) {
  const int status = right(p, error, error_size);
  *static_cast<float*>(const_cast<void*>(p->k.data)) = 3;
  return status;
}
int write_nothing(const headproof_problem*, char*, std::size_t) { return HEADPROOF_DONE; }

int refuse(const headproof_problem*, char* error, std::size_t error_size) {
  std::snprintf(error, error_size, "no such\nmatter");
  return HEADPROOF_UNSUPPORTED;
}
int fail(const headproof_problem*, char* error, std::size_t error_size) {
  std::memset(error, 'x', error_size);  // no end
  return HEADPROOF_FAILED;
}
int say_42(const headproof_problem*, char*, std::size_t) { return 42; }
int throws(const headproof_problem*, char*, std::size_t) {
  throw std::runtime_error("thrown on purpose");
}

/// out = v: right for one token.
int copy_values(const headproof_problem* p, char*, std::size_t) {
  std::memcpy(p->out.data, p->v.data, static_cast<std::size_t>(size(p)) * 2);
  return HEADPROOF_DONE;
}

/// The weights as outer data: A = 1 for one token, and what it was told in out.
int tell(const headproof_problem* p, char*, std::size_t) {
  out(p)[0] = static_cast<float>(p->threads);
  out(p)[1] = static_cast<float>(p->decode);
  if (p->A.data != nullptr) *static_cast<float*>(p->A.data) = 1;
  return HEADPROOF_DONE;
}

headproof_subject wrong_version() {
  headproof_subject made = subject(right);
  made.abi_version = 7;
  return made;
}
headproof_subject wrong_size() {
  headproof_subject made = subject(right);
  made.struct_size = 8;
  return made;
}
headproof_subject no_backward() {
  headproof_subject made = subject(right);
  made.backward = nullptr;
  return made;
}
headproof_subject picky() {
  headproof_subject made = subject(right);
  made.name = "picky one";
  made.head_dims[0] = 16;
  made.head_dims[1] = 32;
  made.length_multiple = 16;
  made.max_length = 4096;
  return made;
}

}  // namespace

extern "C" {
extern const headproof_subject faults_right, faults_bshd, faults_double_bshd, faults_crash,
    faults_stop, faults_leave, faults_leave_7, faults_hang, faults_crash_when_long, faults_print,
    faults_chatter, faults_write_after, faults_write_before, faults_write_after_lse,
    faults_change_inputs, faults_write_nothing, faults_refuse, faults_fail, faults_say_42,
    faults_throws, faults_half, faults_bfloat16, faults_tell, faults_wrong_version,
    faults_wrong_size, faults_no_attention, faults_no_backward, faults_picky, faults_wrong_dtype;

const headproof_subject faults_right = subject(right);
const headproof_subject faults_bshd = with(subject(right), HEADPROOF_FLOAT32, HEADPROOF_BSHD);
const headproof_subject faults_double_bshd =
    with(subject(right), HEADPROOF_FLOAT64, HEADPROOF_BSHD);
const headproof_subject faults_crash = subject(crash);
const headproof_subject faults_stop = subject(stop);
const headproof_subject faults_leave = subject(leave);
const headproof_subject faults_leave_7 = subject(leave_7);
const headproof_subject faults_hang = subject(hang);
const headproof_subject faults_crash_when_long = subject(crash_when_long);
const headproof_subject faults_print = subject(print);
const headproof_subject faults_chatter = subject(chatter);
const headproof_subject faults_write_after = subject(write_after);
const headproof_subject faults_write_before = subject(write_before);
const headproof_subject faults_write_after_lse = subject(write_after_lse);
const headproof_subject faults_change_inputs = subject(change_inputs);
const headproof_subject faults_write_nothing = subject(write_nothing);
const headproof_subject faults_refuse = subject(refuse);
const headproof_subject faults_fail = subject(fail);
const headproof_subject faults_say_42 = subject(say_42);
const headproof_subject faults_throws = subject(throws);
const headproof_subject faults_half =
    with(subject(copy_values, HEADPROOF_OFFERS_CAUSAL), HEADPROOF_FLOAT16, HEADPROOF_BHSD);
const headproof_subject faults_bfloat16 =
    with(subject(copy_values, HEADPROOF_OFFERS_CAUSAL), HEADPROOF_BFLOAT16, HEADPROOF_BHSD);
const headproof_subject faults_tell = subject(tell, all);
const headproof_subject faults_wrong_version = wrong_version();
const headproof_subject faults_wrong_size = wrong_size();
const headproof_subject faults_no_attention = subject(nullptr);
const headproof_subject faults_no_backward = no_backward();
const headproof_subject faults_picky = picky();
const headproof_subject faults_wrong_dtype = with(subject(right), 9, HEADPROOF_BHSD);
}
