// The same bits: num-determinism, num-thread-invariance, num-batch-invariance, num-prefix,
// num-decode-equals-prefill; and num-decode, which asks of decoding what rounding allows. A right
// implementation may differ in bits; these say whether it does.

#include <algorithm>

#include "theorems/num_common.h"

namespace headproof {
namespace {

const std::vector<std::string_view> regimes_with_numbers = {"gaussian", "single", "one-hot",
                                                            "lanes",    "long",   "huge-scores"};

/// A problem of any size; bits need no definition that would take its time.
AttentionProblem draw_any(Draw& draw, bool causal) {
  Sizes sizes = draw.sizes();
  if (draw.regime == "long") sizes = modest(draw, sizes);
  AttentionProblem problem = draw.problem(sizes, causal);
  problem.want_lse = draw.domain.features.has(Feature::lse) && draw.chance(2);
  return problem;
}

AttentionProblem draw_with_gradients(Draw& draw) {
  AttentionProblem problem = draw_any(draw, draw.either_causal());
  if (draw.domain.features.has(Feature::backward) && draw.chance(3)) add_d_out(draw, problem);
  return problem;
}

Verdict judge_determinism(Asker& asker, const AttentionProblem& problem) {
  if (problem.q.size() == 0 || problem.v.size() == 0) return not_applicable("a size is 0");
  Findings findings;
  Checked& same = findings.bitwise("the same problem gives the same bits");
  const AttentionAnswer first = asker.ask(problem);
  compare_bits(same, asker.ask(problem), first, "the second time");
  // Other scores, which -q and -k together would not give.
  AttentionProblem other = problem;
  for (auto* tensor : {&other.q, &other.v}) {
    for (float& value : *tensor) value = -value;
  }
  for (float& value : other.k) value = rounded(value / 2, asker.domain.dtype);
  asker.distract(other);
  compare_bits(same, asker.ask(problem), first, "after another problem");
  return findings.verdict();
}

Verdict judge_threads(Asker& asker, const AttentionProblem& problem) {
  Findings findings;
  Checked& same = findings.bitwise("any number of threads gives the same bits");
  AttentionProblem asked = problem;
  asked.threads = 1;
  const AttentionAnswer one = asker.ask(asked);
  for (int threads : {2, 3, 7}) {
    asked.threads = threads;
    compare_bits(same, asker.ask(asked), one, "with " + std::to_string(threads) + " threads");
  }
  return findings.verdict();
}

/// out and lse of some batch elements and heads of an answer.
AttentionAnswer part_of(const AttentionAnswer& answer, std::size_t axis, Index at) {
  AttentionAnswer one;
  one.out = part(answer.out, axis, at, 1);
  if (answer.lse) one.lse = part(*answer.lse, axis, at, 1);
  return one;
}

Verdict judge_batch(Asker& asker, const AttentionProblem& problem) {
  const Index batch = problem.batch(), heads = problem.num_heads();
  if (batch * heads < 2) return not_applicable("there is one head only");
  Findings findings;
  Checked& elements = findings.bitwise("a batch element alone has the bits it has in the batch");
  Checked& alone = findings.bitwise("a head alone has the bits it has among the others");
  const AttentionAnswer answer = asker.ask(problem);
  const auto ends = [](Index count) {
    return count > 1 ? std::vector<Index>{0, count - 1} : std::vector<Index>{};
  };
  for (Index b : ends(batch)) {
    compare_bits(elements, asker.ask(batch_element(problem, b)), part_of(answer, 0, b),
                 "of batch element " + std::to_string(b) + " alone", {.batch = b});
  }
  for (Index h : ends(heads)) {
    compare_bits(alone, asker.ask(one_head(problem, asker.conventions, h)), part_of(answer, 1, h),
                 "of head " + std::to_string(h) + " alone", {.head = h});
  }
  return findings.verdict();
}

Verdict judge_prefix(Asker& asker, const AttentionProblem& problem) {
  const Index length = problem.seq_len_q(), step = asker.domain.length_multiple;
  if (problem.causal == Causal::none || length != problem.seq_len_k()) {
    return not_applicable("it is about causal attention of a sequence to itself");
  }
  if (length <= step) return not_applicable("there is no shorter sequence");
  Findings findings;
  Checked& same = findings.bitwise("the first tokens alone have the bits they have in all");
  const AttentionAnswer answer = asker.ask(problem);
  for (Index t : {step, length / 2 / step * step, length - step}) {
    if (t == 0) continue;
    AttentionAnswer expected;
    expected.out = part(answer.out, 2, 0, t);
    if (answer.lse) expected.lse = part(*answer.lse, 2, 0, t);
    compare_bits(same, asker.ask(first_keys(queries(problem, 0, t), t)), expected,
                 "of the first " + std::to_string(t) + " alone");
  }
  return findings.verdict();
}

/// Rows of out as decoding gives them.
struct Decoded {
  Index first;
  Tensor<double, 4> out;
};

/// The subject's own path for decoding, or queries one by one (by as many as lengths are multiples
/// of) against the keys up to their own. Empty when the subject offers no way.
std::vector<Decoded> decode(Asker& asker, const AttentionProblem& problem) {
  if (asker.has(Feature::decode)) {
    AttentionProblem asked = problem;
    asked.decode = true;
    return {{0, asker.ask(asked).out}};
  }
  std::vector<Decoded> rows;
  if (!asker.has(Feature::rectangular)) return rows;
  const Index step = asker.domain.length_multiple;
  const std::string& corner = asker.conventions.corner;
  for (Index at : few(problem.seq_len_q() / step)) {
    const Index first = at * step;
    AttentionProblem asked = first_keys(queries(problem, first, step), first + step);
    if (corner == "bottom_right" || corner == "as_asked") {
      asked.causal = Causal::bottom_right;
    } else if (asker.has(Feature::query_offset)) {
      asked.query_offset = first;
    } else if (asker.has(Feature::non_causal) && step == 1 && !problem.window) {
      asked.causal = Causal::none;
    } else {
      return {};
    }
    rows.push_back({first, asker.ask(asked).out});
  }
  return rows;
}

AttentionProblem draw_decoding(Draw& draw) {
  AttentionProblem problem = draw.problem(modest(draw, draw.sizes()), true);
  if (draw.domain.features.has(Feature::window) && draw.chance(4)) add_window(draw, problem);
  return problem;
}

template <class Compare>
Verdict judge_decoding(Asker& asker, const AttentionProblem& problem, Findings& findings,
                       Compare&& compare) {
  if (problem.causal == Causal::none || problem.seq_len_q() != problem.seq_len_k()) {
    return not_applicable("it is about causal attention of a sequence to itself");
  }
  const std::vector<Decoded> rows = decode(asker, problem);
  if (rows.empty()) return not_applicable("the subject offers no way to decode");
  const AttentionAnswer answer = asker.ask(problem);
  for (const Decoded& decoded : rows) {
    compare(decoded, part(answer.out, 2, decoded.first, decoded.out.shape()[2]));
  }
  return findings.verdict();
}

Verdict judge_decode_bits(Asker& asker, const AttentionProblem& problem) {
  Findings findings;
  Checked& same = findings.bitwise("decoding gives the bits of prefill");
  return judge_decoding(
      asker, problem, findings, [&](const Decoded& decoded, const Tensor<double, 4>& prefill) {
        compare_bits(same, {.out = decoded.out}, {.out = prefill},
                     "decoded from query " + std::to_string(decoded.first) + " on",
                     {.row = decoded.first});
      });
}

Verdict judge_decode(Asker& asker, const AttentionProblem& problem) {
  Findings findings;
  Checked& close = findings.bounded("decoding gives what prefill gives");
  const AttentionOracle oracle(problem, asker.domain, asker.conventions);
  return judge_decoding(
      asker, problem, findings, [&](const Decoded& decoded, const Tensor<double, 4>& prefill) {
        const Index rows = decoded.out.shape()[2];
        compare_close(
            close, decoded.out, prefill, part(oracle.out_error, 2, decoded.first, rows), 2,
            "decoded from query " + std::to_string(decoded.first) + " on; prefill gives",
            [&](Index b, Index h, Index i) { return sees_any(oracle, b, h, decoded.first + i); },
            decoded.first);
      });
}

constexpr std::string_view no_bound = "None: bits are compared.";

}  // namespace

AttentionTheorem num_determinism() {
  return {
      .id = "num-determinism",
      .title = "The same problem gives the same bits",
      .statement =
          "Asked again, at once or after another problem, a problem gives the same bits "
          "of out, of lse and of gradients.",
      .bound = no_bound,
      .claim = Claim::bitwise,
      .regimes = regimes_with_numbers,
      .draw = draw_with_gradients,
      .judge = judge_determinism,
  };
}

AttentionTheorem num_thread_invariance() {
  return {
      .id = "num-thread-invariance",
      .title = "The number of threads does not show",
      .statement = "With 1, 2, 3 and 7 threads out, lse and gradients have the same bits.",
      .bound = no_bound,
      .claim = Claim::bitwise,
      .needs = {Feature::threads},
      .regimes = regimes_with_numbers,
      .draw = draw_with_gradients,
      .judge = judge_threads,
  };
}

AttentionTheorem num_batch_invariance() {
  return {
      .id = "num-batch-invariance",
      .title = "The rest of the batch does not show",
      .statement =
          "Each batch element alone, and each head alone, has the bits of out and lse "
          "that it has among the others.",
      .bound = no_bound,
      .claim = Claim::bitwise,
      .regimes = regimes_with_numbers,
      .draw = [](Draw& draw) { return draw_any(draw, draw.either_causal()); },
      .judge = judge_batch,
  };
}

AttentionTheorem num_prefix() {
  return {
      .id = "num-prefix",
      .title = "What follows does not show",
      .statement =
          "Under the causal mask the first $t$ tokens alone have the bits of out and lse "
          "that they have in a longer sequence.",
      .bound = no_bound,
      .claim = Claim::bitwise,
      .needs = {Feature::causal},
      .regimes = regimes_with_numbers,
      .draw = [](Draw& draw) { return draw_any(draw, true); },
      .judge = judge_prefix,
  };
}

AttentionTheorem num_decode_equals_prefill() {
  return {
      .id = "num-decode-equals-prefill",
      .title = "Decoding gives the bits of prefill",
      .statement =
          "Query $i$ alone against keys $0 .. i$, by the subject's own path for decoding "
          "or by one call each, has the bits of row $i$ of causal attention.",
      .bound = no_bound,
      .claim = Claim::bitwise,
      .needs = {Feature::causal},
      .regimes = regimes_with_numbers,
      .draw = draw_decoding,
      .judge = judge_decode_bits,
  };
}

AttentionTheorem num_decode() {
  return {
      .id = "num-decode",
      .title = "Decoding gives what prefill gives",
      .statement =
          "Query $i$ alone against keys $0 .. i$, by the subject's own path for decoding "
          "or by one call each, is row $i$ of causal attention, up to rounding; with a "
          "window too.",
      .bound = "Twice that of num-accuracy, as both answers may be off by it.",
      .claim = Claim::bounded,
      .needs = {Feature::causal},
      .regimes = regimes_with_numbers,
      .draw = draw_decoding,
      .judge = judge_decode,
  };
}

}  // namespace headproof
