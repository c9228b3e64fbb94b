// How long the lecture takes, and its parts. `of_lecture` is a time over that of run_lecture, the
// numeric part, measured in the same run; what the whole command takes, measure.cc says.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "headproof/head.h"
#include "lecture/lecture.h"
#include "lecture/lecture_pictures.h"
#include "lecture/page.h"
#include "lecture/report.h"

namespace headproof {
namespace {

using benchmark::Counter;
using benchmark::State;

const Text& text() {
  static const Text decoded = decode_utf8(default_text(), "text").value();
  return decoded;
}

Lecture make_lecture() { return run_lecture(text(), "text", 0).value(); }

const Lecture& lecture() {
  static const Lecture made = [] {
    Lecture lecture = make_lecture();
    run_counterexamples(lecture);
    return lecture;
  }();
  return made;
}

/// The five pictures in PNG, as the page takes them.
std::vector<std::pair<std::string, std::string>> make_pictures() {
  auto drawn = draw_lecture_pictures(lecture(), {PictureFormat::png}).value();
  std::vector<std::pair<std::string, std::string>> pictures;
  for (DrawnPicture& picture : drawn) {
    pictures.emplace_back(picture.name, std::move(picture.bytes));
  }
  return pictures;
}

/// The median of the seconds that five calls take.
template <class Function>
double seconds(Function&& function) {
  function();  // caches are filled before the first time counts
  std::array<double, 5> times{};
  for (double& time : times) {
    const auto start = std::chrono::steady_clock::now();
    function();
    time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::nth_element(times.begin(), times.begin() + 2, times.end());
  return times[2];
}

/// Times `function`, and shows a call's time as a multiple of `unit` seconds under `name`.
template <class Function>
void time_against(State& state, double unit, const char* name, Function&& function) {
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) function();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  state.counters[name] = time.count() / static_cast<double>(state.iterations()) / unit;
}

/// Times a part of the lecture against its numeric part.
template <class Function>
void part_of_lecture(State& state, Function&& function) {
  static const double numbers = seconds([] { benchmark::DoNotOptimize(make_lecture()); });
  time_against(state, numbers, "of_lecture", [&] { benchmark::DoNotOptimize(function()); });
}

void Lecture_numbers(State& state) { part_of_lecture(state, make_lecture); }

/// The sample of lemma-4.5, which a process draws once: it is not in Lecture_numbers, and is in the
/// whole command.
void Lecture_sample(State& state) {
  part_of_lecture(state, [] { return sample_saturation({16, 64, 256}, 512); });
}

/// The mutants that the page shows as counterexamples.
void Lecture_counterexamples(State& state) {
  part_of_lecture(state, [] {
    Lecture copy = lecture();
    run_counterexamples(copy);
    return copy;
  });
}

void Lecture_text(State& state) {
  part_of_lecture(state, [] { return lecture_text(lecture(), "", false); });
}

void Lecture_pictures(State& state) { part_of_lecture(state, make_pictures); }

void Lecture_page(State& state) {
  static const auto pictures = make_pictures();
  part_of_lecture(state, [] { return lecture_page(lecture(), pictures); });
}

BENCHMARK(Lecture_numbers)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(Lecture_sample)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(Lecture_counterexamples)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(Lecture_text)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(Lecture_pictures)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(Lecture_page)->Unit(benchmark::kMillisecond)->UseRealTime();

/// The check of one theorem, on the head of section 4.1.
[[maybe_unused]] const bool theorems_registered = [] {
  for (const Theorem& theorem : theorems()) {
    const auto check = [&theorem](State& state) {
      Generator generator(0);
      const HeadProblem problem = draw_problem(4, 8, 32, 16, generator);
      const auto subject = reference_subject();
      part_of_lecture(state, [&] { return theorem.check(*subject, problem); });
    };
    benchmark::RegisterBenchmark(("Theorem/" + std::string(theorem.id)).c_str(), check)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
  return true;
}();

/// The head of section 4.1 on its four sequences of eight.
void Head_forward(State& state) {
  Generator generator(0);
  Head head(32, 16, 8, generator);
  const Tensor<float, 3> x = generator.randn(4, 8, 32);
  for (auto _ : state) benchmark::DoNotOptimize(head(x).value());
}
BENCHMARK(Head_forward)->Unit(benchmark::kMicrosecond);

void Head_backward(State& state) {
  Generator generator(0);
  const HeadWeights w = draw_head_weights(32, 16, generator);
  const Tensor<float, 3> x = generator.randn(4, 8, 32), d_out = generator.randn(4, 8, 16);
  for (auto _ : state) {
    const auto forward = head_forward<float>(x, w.query, w.key, w.value, true);
    benchmark::DoNotOptimize(
        head_backward<float>(forward, x, w.query, w.key, w.value, d_out, true));
  }
}
BENCHMARK(Head_backward)->Unit(benchmark::kMicrosecond);

/// The definition, causal, for one head of `seq_len` queries and keys and channels of `dim`. It
/// works out masked scores too, but the flops counted are those that a causal head needs.
void Attention_reference(State& state) {
  const Index seq_len = state.range(0), dim = state.range(1);
  Generator generator(0);
  const Tensor<float, 4> q = generator.randn(1, 1, seq_len, dim),
                         k = generator.randn(1, 1, seq_len, dim),
                         v = generator.randn(1, 1, seq_len, dim);
  for (auto _ : state) {
    benchmark::DoNotOptimize(attention_reference<float>(q, k, v, {Causal::top_left, {}}));
  }
  const auto pairs = static_cast<double>(seq_len * (seq_len + 1)) / 2;
  state.counters["flop/s"] = {4 * pairs * static_cast<double>(dim),
                              Counter::kIsIterationInvariantRate};
}
BENCHMARK(Attention_reference)
    ->ArgNames({"seq_len", "dim"})
    ->Args({8, 16})
    ->Args({48, 16})
    ->Args({256, 64})
    ->Args({1024, 64})
    ->Unit(benchmark::kMicrosecond);

/// PyTorch's normals, over the time of as many from the standard library's distribution.
void Random_normals(State& state) {
  Tensor<float, 1> numbers({state.range(0)});
  std::mt19937 engine(0);
  std::normal_distribution<float> normal;
  const int rounds = static_cast<int>(1 + (1 << 16) / numbers.size());
  const double standard = seconds([&] {
    for (int round = 0; round < rounds; ++round) {
      std::generate(numbers.begin(), numbers.end(), [&] { return normal(engine); });
      benchmark::ClobberMemory();
    }
  });
  Generator generator(0);
  time_against(state, standard / rounds, "of_std", [&] {
    generator.normal({numbers.data(), numbers.shape()});
    benchmark::ClobberMemory();
  });
  state.SetItemsProcessed(state.iterations() * numbers.size());
}
BENCHMARK(Random_normals)->Arg(15)->Arg(16)->Arg(1024)->Arg(1 << 20);

}  // namespace
}  // namespace headproof
