#include "subjects/library_host.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "headproof/subject.h"
#include "subjects/guarded.h"
#include "subjects/protocol.h"

namespace headproof {
namespace {

static_assert(HEADPROOF_OFFERS_DECODE == 1 << static_cast<int>(Feature::decode) &&
                  HEADPROOF_OFFERS_LSE == 1 << static_cast<int>(Feature::lse) &&
                  HEADPROOF_OFFERS_SCALE == 1 << static_cast<int>(Feature::scale),
              "the bits of C follow the order of Feature");

/// The two ends of the pipe, out of reach of what the library prints.
class Channel {
 public:
  Channel() : in_(::fcntl(0, F_DUPFD_CLOEXEC, 3)), out_(::fcntl(1, F_DUPFD_CLOEXEC, 3)) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, 0);
    ::close(nothing);
    ::dup2(2, 1);
    // Whoever asked may be gone while the library hangs; then nobody else would end it.
    std::thread([in = in_] {
      pollfd wait{in, 0, 0};
      while (::poll(&wait, 1, -1) < 0) {
      }
      std::this_thread::sleep_for(std::chrono::seconds(2));
      ::_exit(1);
    }).detach();
  }

  /// The next line, without its end; nothing when there is no more.
  std::optional<std::string> line() {
    std::size_t end = 0;
    while ((end = received_.find('\n')) == std::string::npos) {
      if (received_.size() > longest_line || !more()) return std::nullopt;
    }
    std::string text = received_.substr(0, end);
    received_.erase(0, end + 1);
    return text;
  }

  std::optional<std::string> bytes(std::size_t size) {
    while (received_.size() < size) {
      if (!more()) return std::nullopt;
    }
    std::string text = received_.substr(0, size);
    received_.erase(0, size);
    return text;
  }

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::write(out_, text.data(), text.size());
      if (sent < 0 && errno != EINTR) ::_exit(1);
      text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    }
  }

 private:
  bool more() {
    std::array<char, 1 << 16> part;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into
    ssize_t got = -1;
    while ((got = ::read(in_, part.data(), part.size())) < 0 && errno == EINTR) {
    }
    if (got > 0) received_.append(part.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  int in_, out_;
  std::string received_;
};

int code_of(Dtype dtype) {
  constexpr std::array codes = {HEADPROOF_FLOAT32, HEADPROOF_FLOAT64, HEADPROOF_FLOAT16,
                                HEADPROOF_BFLOAT16};
  return codes[static_cast<std::size_t>(dtype)];
}

/// One question put to the library's functions.
class Call {
 public:
  Call(const headproof_subject& subject, const Domain& domain, const AttentionProblem& problem)
      : subject_(subject), domain_(domain), problem_(problem) {}

  /// The reply as it goes over the pipe.
  std::string reply() {
    prepare();
    if (auto line = refusal(subject_.attention(&c_, error_.data(), error_.size()))) return *line;
    if (problem_.d_out) {
      if (auto line = refusal(subject_.backward(&c_, &gradients_, error_.data(), error_.size()))) {
        return *line;
      }
    }
    if (auto line = trespass()) return *line;
    const bool changed = std::any_of(inputs_.begin(), inputs_.end(),
                                     [](const auto& input) { return input->changed(); });
    AttentionAnswer answer;
    answer.out = out_->tensor();
    if (problem_.want_lse) answer.lse = without_channels(lse_->tensor());
    if (problem_.want_weights) answer.weights = weights_->tensor();
    if (problem_.d_out) {
      answer.gradients = AttentionGradients<double>{d_q_->tensor(), d_k_->tensor(), d_v_->tensor()};
    }
    const std::string numbers = format_answer(answer, domain_);
    return std::string("ok") + (changed ? " inputs_changed=1" : "") +
           " bytes=" + std::to_string(numbers.size()) + "\n" + numbers;
  }

 private:
  /// The line for a status that is no success; a write beyond the ends comes first.
  std::optional<std::string> refusal(int status) {
    if (status == HEADPROOF_DONE) return std::nullopt;
    if (auto line = trespass()) return line;
    error_.back() = '\0';
    std::string why = in_one_line(error_.data());
    if (why.empty()) why = "the library gave no reason";
    if (status == HEADPROOF_UNSUPPORTED) return "unsupported " + why + "\n";
    if (status == HEADPROOF_USED_WRONGLY || status == HEADPROOF_FAILED)
      return "error " + why + "\n";
    return "error the library returned " + std::to_string(status) + ", which is no status of " +
           "headproof/subject.h\n";
  }

  std::optional<std::string> trespass() const {
    for (const auto* list : {&outputs_, &inputs_}) {
      for (const auto& memory : *list) {
        if (auto sentence = memory->trespass()) return "crashed " + *sentence + "\n";
      }
    }
    return std::nullopt;
  }

  static Tensor<double, 3> without_channels(const Tensor<double, 4>& tensor) {
    const auto& shape = tensor.shape();
    Tensor<double, 3> result({shape[0], shape[1], shape[2]});
    std::copy(tensor.begin(), tensor.end(), result.begin());
    return result;
  }

  headproof_input input(const char* name, const Tensor<float, 4>& tensor, bool strided) {
    const bool heads_inside = (domain_.layout == Layout::bshd) != strided;
    inputs_.push_back(std::make_unique<Guarded>(
        name, tensor.shape(), code_of(domain_.dtype), heads_inside, strided ? 3 : 0,
        strided && problem_.strided_channels, strided && heads_are_equal(tensor)));
    Guarded& memory = *inputs_.back();
    memory.fill(tensor);
    return described<headproof_input>(memory);
  }

  headproof_output output(const char* name, const std::array<Index, 4>& shape, int dtype,
                          Guarded*& place) {
    outputs_.push_back(
        std::make_unique<Guarded>(name, shape, dtype, domain_.layout == Layout::bshd, 0));
    place = outputs_.back().get();
    return described<headproof_output>(*place);
  }

  template <class Described>
  static Described described(Guarded& memory) {
    Described result{memory.data(), {}};
    std::copy_n(memory.strides().begin(), 4, result.strides);
    return result;
  }

  void prepare() {
    const AttentionProblem& p = problem_;
    const int dtype = code_of(domain_.dtype);
    const int wide = dtype == HEADPROOF_FLOAT64 ? HEADPROOF_FLOAT64 : HEADPROOF_FLOAT32;
    c_.struct_size = sizeof c_;
    c_.dtype = dtype;
    c_.batch = p.batch();
    c_.num_heads = p.num_heads();
    c_.num_kv_heads = p.num_kv_heads();
    c_.seq_len_q = p.seq_len_q();
    c_.seq_len_k = p.seq_len_k();
    c_.head_dim = p.head_dim();
    c_.value_dim = p.value_dim();
    c_.q = input("q", p.q, p.strided);
    c_.k = input("k", p.k, p.strided);
    c_.v = input("v", p.v, p.strided);
    const std::array<Index, 4> rows = {p.batch(), p.num_heads(), p.seq_len_q(), p.value_dim()};
    c_.out = output("out", rows, dtype, out_);
    if (p.want_lse || p.d_out) {
      c_.lse = output_of_rows(wide);
    }
    if (p.want_weights) {
      c_.A = output_bhsd("A", {p.batch(), p.num_heads(), p.seq_len_q(), p.seq_len_k()}, dtype,
                         weights_);
    }
    c_.causal = p.causal == Causal::none       ? HEADPROOF_CAUSAL_NONE
                : p.causal == Causal::top_left ? HEADPROOF_CAUSAL_TOP_LEFT
                                               : HEADPROOF_CAUSAL_BOTTOM_RIGHT;
    c_.has_scale = p.scale.has_value();
    c_.scale = p.scale.value_or(0);
    c_.has_query_offset = p.query_offset.has_value();
    c_.query_offset = p.query_offset.value_or(0);
    c_.window = p.window.value_or(0);
    c_.softcap = p.softcap;
    c_.threads = p.threads;
    c_.decode = p.decode ? 1 : 0;
    if (!p.key_length.empty()) c_.key_length = p.key_length.data();
    set_mask(wide);
    if (p.d_out) {
      gradients_.d_out = input("d_out", *p.d_out, false);
      gradients_.d_q = output("d_q", p.q.shape(), dtype, d_q_);
      gradients_.d_k = output("d_k", p.k.shape(), dtype, d_k_);
      gradients_.d_v = output("d_v", p.v.shape(), dtype, d_v_);
    }
  }

  headproof_output output_bhsd(const char* name, const std::array<Index, 4>& shape, int dtype,
                               Guarded*& place) {
    outputs_.push_back(std::make_unique<Guarded>(name, shape, dtype, false, 0));
    place = outputs_.back().get();
    return described<headproof_output>(*place);
  }

  headproof_output output_of_rows(int dtype) {
    return output_bhsd("lse", {problem_.batch(), problem_.num_heads(), problem_.seq_len_q(), 1},
                       dtype, lse_);
  }

  void set_mask(int wide) {
    const auto set = [this](int kind, const void* data, const std::array<Index, 4>& shape) {
      c_.mask.kind = kind;
      c_.mask.data = data;
      const View<const int, 4> dense(nullptr, shape);
      std::copy_n(shape.begin(), 4, c_.mask.shape);
      std::copy_n(dense.strides.begin(), 4, c_.mask.strides);
    };
    if (problem_.mask) {
      // Bytes of 0 and 1, as bool is here.
      set(HEADPROOF_MASK_BOOL, problem_.mask->data(), problem_.mask->shape());
    }
    if (problem_.bias) {
      inputs_.push_back(
          std::make_unique<Guarded>("mask", problem_.bias->shape(), wide, false, Index{0}));
      inputs_.back()->fill(*problem_.bias);
      set(wide == HEADPROOF_FLOAT64 ? HEADPROOF_MASK_FLOAT64 : HEADPROOF_MASK_FLOAT32,
          inputs_.back()->data(), problem_.bias->shape());
    }
  }

  const headproof_subject& subject_;
  const Domain& domain_;
  const AttentionProblem& problem_;
  headproof_problem c_{};
  headproof_gradients gradients_{};
  std::vector<std::unique_ptr<Guarded>> inputs_, outputs_;
  Guarded *out_ = nullptr, *lse_ = nullptr, *weights_ = nullptr, *d_q_ = nullptr, *d_k_ = nullptr,
          *d_v_ = nullptr;
  std::array<char, 1024> error_{};
};

/// The subject that the library exports.
Result<const headproof_subject*> load_subject(std::string_view name) {
  const auto [path, symbol] = library_and_symbol(name);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return Error{"there is no file " + path};
  // A path with a slash, because a bare name would be looked for in the system's folders.
  void* library = ::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{path + " cannot be loaded as a library: " + in_one_line(::dlerror())};
  }
  const auto* subject = static_cast<const headproof_subject*>(::dlsym(library, symbol.c_str()));
  if (subject == nullptr) {
    return Error{path + " has no symbol " + symbol +
                 "; headproof check --template c prints a library that has one"};
  }
  if (subject->abi_version != HEADPROOF_ABI_VERSION) {
    return Error{symbol + " has the ABI version " + std::to_string(subject->abi_version) +
                 "; this headproof knows version " + std::to_string(HEADPROOF_ABI_VERSION) +
                 " of headproof/subject.h"};
  }
  if (subject->struct_size != sizeof(headproof_subject)) {
    return Error{symbol + " has a struct_size of " + std::to_string(subject->struct_size) +
                 " bytes; that of this headproof is " + std::to_string(sizeof(headproof_subject))};
  }
  if (subject->attention == nullptr) return Error{symbol + ".attention is null"};
  return subject;
}

Result<Hello> hello_of(const headproof_subject& subject) {
  Hello hello;
  if (subject.name != nullptr) hello.name = subject.name;
  Domain& domain = hello.domain;
  bool known = false;
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::float16, Dtype::bfloat16}) {
    if (code_of(dtype) != subject.dtype) continue;
    domain.dtype = dtype;
    known = true;
  }
  if (!known) {
    return Error{"dtype is " + std::to_string(subject.dtype) +
                 "; it must be one of enum headproof_dtype"};
  }
  if (subject.layout != HEADPROOF_BHSD && subject.layout != HEADPROOF_BSHD) {
    return Error{"layout is " + std::to_string(subject.layout) +
                 "; it must be one of enum headproof_layout"};
  }
  domain.layout = subject.layout == HEADPROOF_BHSD ? Layout::bhsd : Layout::bshd;
  for (Index dim : subject.head_dims) {
    if (dim == 0) break;
    domain.head_dims.push_back(dim);
  }
  if (subject.length_multiple != 0) domain.length_multiple = subject.length_multiple;
  if (subject.max_length != 0) domain.max_length = subject.max_length;
  for (int at = 0; at < feature_count; ++at) {
    domain.features.set(static_cast<Feature>(at), (subject.features >> at & 1U) != 0);
  }
  if (subject.features >> feature_count != 0) {
    return Error{"features has bits that this headproof does not know"};
  }
  if (domain.features.has(Feature::backward) && subject.backward == nullptr) {
    return Error{"backward is null, though it is offered"};
  }
  return hello;
}

std::string reply_to(const headproof_subject& subject, const Domain& domain, const Line& line,
                     std::string_view payload) {
  const auto problem = parse_question(line, payload, domain);
  if (!problem) return "error the question " + problem.error().message + "\n";
  if (problem->d_out && subject.backward == nullptr) return "unsupported no backward\n";
  try {
    return Call(subject, domain, *problem).reply();
  } catch (const std::bad_alloc&) {
    return "error there is not enough memory\n";
  } catch (const std::exception& exception) {
    return "error an exception left the library: " + in_one_line(exception.what()) + "\n";
  }
}

}  // namespace

std::pair<std::string, std::string> library_and_symbol(std::string_view name) {
  const std::size_t colon = name.rfind(':');
  const auto is_symbol = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char letter) {
      return letter == '_' || (letter >= '0' && letter <= '9') ||
             (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
    });
  };
  if (colon != name.npos && is_symbol(name.substr(colon + 1))) {
    return {std::string(name.substr(0, colon)), std::string(name.substr(colon + 1))};
  }
  return {std::string(name), "headproof_subject"};
}

int serve_library(std::string_view name) {
  Channel channel;
  std::optional<Hello> hello;
  const headproof_subject* subject = nullptr;
  while (const auto text = channel.line()) {
    const Line line(*text);
    if (line.word() == "hello") {
      auto loaded = load_subject(name);
      auto read = loaded ? hello_of(**loaded) : Result<Hello>(loaded.error());
      if (!read) {
        channel.send("error " + read.error().message + "\n");
        continue;
      }
      subject = *loaded;
      hello = std::move(*read);
      channel.send(format_hello(*hello));
      continue;
    }
    const auto size = bytes_that_follow(line);
    if (!size || !hello) break;
    const auto payload = channel.bytes(static_cast<std::size_t>(*size));
    if (!payload) break;
    channel.send(reply_to(*subject, hello->domain, line, *payload));
  }
  return 0;
}

}  // namespace headproof
