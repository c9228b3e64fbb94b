// The works of `headproof bench`, and the peaks that they are held against, one by one.

#include <benchmark/benchmark.h>

#include "speed/bench.h"
#include "speed/machine.h"

namespace headproof {
namespace {

using benchmark::Counter;
using benchmark::State;

[[maybe_unused]] const bool works_registered = [] {
  for (const std::string& name : default_works) {
    const Work work = parse_work(name).value();
    const auto time = [work](State& state) {
      const auto run = prepare(work);
      if (!run) {
        state.SkipWithError(run.error().message.c_str());
        return;
      }
      for (auto _ : state) (*run)();
      state.counters["flop/s"] = {work.flops(), Counter::kIsIterationInvariantRate};
      state.counters["bytes/s"] = {work.bytes(), Counter::kIsIterationInvariantRate};
    };
    benchmark::RegisterBenchmark(name.c_str(), time)->Unit(benchmark::kMillisecond)->UseRealTime();
  }
  return true;
}();

void Machine_multiply_add(State& state) {
  double flops = 0;
  for (auto _ : state) flops += measure_flops(static_cast<int>(state.range(0)));
  state.counters["flop/s"] = {flops, Counter::kAvgIterations};
}
BENCHMARK(Machine_multiply_add)->Arg(1)->Arg(2);

void Machine_read(State& state) {
  ReadBandwidth read;
  double bytes = 0;
  for (auto _ : state) bytes += read.measure(static_cast<int>(state.range(0)));
  state.counters["bytes/s"] = {bytes, Counter::kAvgIterations};
}
BENCHMARK(Machine_read)->Arg(1)->Arg(2);

}  // namespace
}  // namespace headproof
