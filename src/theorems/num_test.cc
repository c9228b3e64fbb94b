// Right implementations pass the num theorems, and each theorem catches a fault of its kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "headproof/check.h"
#include "subjects/guarded.h"
#include "theorems/attention_theorem.h"
#include "theorems/num_common.h"

namespace headproof {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TheoremReport check_one(AttentionSubject& subject, std::string_view id, std::uint64_t seed,
                        int cases = 64) {
  CheckOptions options;
  options.theorems = {std::string(id)};
  options.seed = seed;
  options.seconds = 1000;
  options.cases = cases;
  return check(subject, options).theorems.at(0);
}

void expect_right(AttentionSubject& subject, std::uint64_t seeds, int cases) {
  CheckOptions options;
  for (const AttentionTheorem& theorem : attention_theorems()) {
    if (theorem.id.substr(0, 4) == "num-") options.theorems.emplace_back(theorem.id);
  }
  options.seconds = 1000;
  options.cases = cases;
  for (options.seed = 0; options.seed < seeds; ++options.seed) {
    for (const TheoremReport& report : check(subject, options).theorems) {
      const bool right =
          report.outcome == Outcome::holds || report.outcome == Outcome::not_applicable;
      EXPECT_TRUE(right) << subject.name() << ", " << report.id << ", seed " << options.seed << ": "
                         << report.why
                         << (report.counterexample ? report.counterexample->note : "");
    }
  }
}

TEST(Num, BuiltinImplementationsPass) {
  for (const char* name : {"reference", "canonical", "fused", "float64"}) {
    expect_right(*builtin_attention(name), 2, 32);
  }
}

/// Softmax attention as a person writes it in a few lines, in blocks of keys with a running
/// maximum, or all at once when `block` is 0; weights and out are rounded to `dtype`.
struct Written {
  Index block = 0;
  Dtype dtype = Dtype::float32;
  float hidden = -infinity;         ///< what stands for the score of a hidden key
  float first_maximum = -infinity;  ///< where the running maximum starts
  bool subtract_maximum = true;

  static bool may(const AttentionProblem& p, Index b, Index h, Index i, Index j) {
    const Index keys =
        p.key_length.empty() ? p.seq_len_k() : p.key_length[static_cast<std::size_t>(b)];
    const Index offset =
        p.query_offset.value_or(p.causal == Causal::bottom_right ? keys - p.seq_len_q() : 0);
    if (p.causal != Causal::none && j > i + offset) return false;
    if (p.window && j <= i + offset - *p.window) return false;
    if (j >= keys) return false;
    const auto at = [&](const auto& mask) {
      const auto& size = mask.shape();
      return mask(b % size[0], h % size[1], i % size[2], j % size[3]);
    };
    return (!p.mask || at(*p.mask)) && (!p.bias || at(*p.bias) != -infinity);
  }

  float logit(const AttentionProblem& p, Index b, Index h, Index kv, Index i, Index j) const {
    if (!may(p, b, h, i, j)) return hidden;
    float dot = 0;
    for (Index c = 0; c < p.head_dim(); ++c) dot += p.q(b, h, i, c) * p.k(b, kv, j, c);
    const auto scale =
        static_cast<float>(p.scale.value_or(1 / std::sqrt(static_cast<double>(p.head_dim()))));
    float score = scale * dot;
    const auto cap = static_cast<float>(p.softcap);
    if (cap > 0) score = cap * std::tanh(score / cap);
    if (!p.bias) return score;
    const auto& size = p.bias->shape();
    return score + (*p.bias)(b % size[0], h % size[1], i % size[2], j % size[3]);
  }

  AttentionReply operator()(const AttentionProblem& p) const {
    AttentionAnswer answer;
    answer.out = Tensor<double, 4>({p.batch(), p.num_heads(), p.seq_len_q(), p.value_dim()});
    if (p.want_lse || p.d_out) {
      answer.lse = Tensor<double, 3>({p.batch(), p.num_heads(), p.seq_len_q()});
    }
    if (p.d_out) {
      answer.gradients = {Tensor<double, 4>(p.q.shape()), Tensor<double, 4>(p.k.shape()),
                          Tensor<double, 4>(p.v.shape())};
    }
    for (Index b = 0; b < p.batch(); ++b) {
      for (Index h = 0; h < p.num_heads(); ++h) {
        for (Index i = 0; i < p.seq_len_q(); ++i) {
          row(p, b, h, i, answer);
          if (p.d_out) row_gradients(p, b, h, i, answer);
        }
      }
    }
    if (p.d_out) {
      for (auto* gradient :
           {&answer.gradients->d_q, &answer.gradients->d_k, &answer.gradients->d_v}) {
        for (double& value : *gradient) value = rounded(static_cast<float>(value), dtype);
      }
    }
    return answer;
  }

  static void add(double& sum, float term) {
    sum = static_cast<float>(sum) + term;  // as a float accumulates
  }

  /// With the weights made again from lse, and delta from the rounded out.
  void row_gradients(const AttentionProblem& p, Index b, Index h, Index i,
                     AttentionAnswer& answer) const {
    const Index kv = h / (p.num_heads() / p.num_kv_heads());
    const auto lse = static_cast<float>((*answer.lse)(b, h, i));
    const auto scale =
        static_cast<float>(p.scale.value_or(1 / std::sqrt(static_cast<double>(p.head_dim()))));
    float delta = 0;
    for (Index c = 0; c < p.value_dim(); ++c) {
      delta += (*p.d_out)(b, h, i, c) * static_cast<float>(answer.out(b, h, i, c));
    }
    for (Index j = p.seq_len_k(); j-- > 0;) {
      if (!may(p, b, h, i, j)) continue;
      float d_weight = 0;
      for (Index c = 0; c < p.value_dim(); ++c) {
        d_weight += (*p.d_out)(b, h, i, c) * p.v(b, kv, j, c);
      }
      const float weight = std::exp(logit(p, b, h, kv, i, j) - lse);
      float d_score = weight * (d_weight - delta);
      if (p.softcap > 0) {
        float dot = 0;
        for (Index c = 0; c < p.head_dim(); ++c) dot += p.q(b, h, i, c) * p.k(b, kv, j, c);
        const float capped = std::tanh(scale * dot / static_cast<float>(p.softcap));
        d_score *= 1 - capped * capped;
      }
      d_score = rounded(d_score, dtype);
      for (Index c = 0; c < p.head_dim(); ++c) {
        add(answer.gradients->d_q(b, h, i, c), scale * d_score * p.k(b, kv, j, c));
        add(answer.gradients->d_k(b, kv, j, c), scale * d_score * p.q(b, h, i, c));
      }
      for (Index c = 0; c < p.value_dim(); ++c) {
        add(answer.gradients->d_v(b, kv, j, c), rounded(weight, dtype) * (*p.d_out)(b, h, i, c));
      }
    }
  }

  void row(const AttentionProblem& p, Index b, Index h, Index i, AttentionAnswer& answer) const {
    const Index keys = p.seq_len_k(), kv = h / (p.num_heads() / p.num_kv_heads());
    std::vector<float> sums(static_cast<std::size_t>(p.value_dim()));
    float maximum = first_maximum, sum = 0;
    const Index step = block > 0 ? block : std::max<Index>(keys, 1);
    for (Index first = 0; first < keys; first += step) {
      std::vector<float> logits;
      float next = maximum;
      for (Index j = first; j < std::min(keys, first + step); ++j) {
        logits.push_back(logit(p, b, h, kv, i, j));
        if (!(logits.back() <= next)) next = logits.back();  // NaN stays
        if (std::isnan(next)) break;
      }
      if (next == -infinity) continue;
      if (!subtract_maximum) next = 0;
      const float before = std::exp(maximum - next);
      sum = sum == 0 ? 0 : sum * before;
      for (float& value : sums) value = value == 0 ? 0 : value * before;
      maximum = next;
      for (std::size_t at = 0; at < logits.size(); ++at) {
        const Index j = first + static_cast<Index>(at);
        if (logits[at] == -infinity) continue;
        const float weight = std::exp(logits[at] - maximum);
        sum += weight;
        if (weight == 0) continue;
        for (Index c = 0; c < p.value_dim(); ++c) {
          sums[static_cast<std::size_t>(c)] += rounded(weight, dtype) * p.v(b, kv, j, c);
        }
      }
    }
    for (Index c = 0; c < p.value_dim(); ++c) {
      const float value = sums[static_cast<std::size_t>(c)] / sum;
      answer.out(b, h, i, c) = sum == 0 ? 0 : rounded(value, dtype);
    }
    if (answer.lse) (*answer.lse)(b, h, i) = maximum + std::log(sum);
  }
};

Domain domain_of(Dtype dtype, std::initializer_list<Feature> missing) {
  Domain domain;
  domain.dtype = dtype;
  domain.features = Features::all();
  for (Feature feature : missing) domain.features.set(feature, false);
  return domain;
}

/// All that `Written` does.
Domain written_domain(Dtype dtype = Dtype::float32) {
  return domain_of(dtype, {Feature::weights, Feature::threads, Feature::strides, Feature::decode});
}

TEST(Num, PlainOnesPassInEveryDtypeAndBlock) {
  for (Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16}) {
    for (Index block : {0, 1, 16}) {
      Written written;
      written.block = block;
      written.dtype = dtype;
      const auto subject = function_attention("written", written_domain(dtype), written);
      expect_right(*subject, 1, 24);
    }
  }
}

TEST(Num, OneWithTheLowestNumberForHiddenKeysPasses) {
  Written written;
  written.hidden = std::numeric_limits<float>::lowest();
  expect_right(*function_attention("lowest", written_domain(), written), 1, 24);
}

TEST(Num, OneThatAcceptsFewSizesPasses) {
  Domain domain;
  domain.features = {Feature::causal};
  domain.head_dims = {16, 64};
  domain.length_multiple = 16;
  expect_right(*function_attention("few sizes", domain, Written{}), 1, 24);
}

TEST(Num, ACombinationThatIsRefusedIsNoFailure) {
  Written written;
  const auto subject =
      function_attention("either", written_domain(), [=](const AttentionProblem& p) {
        if (p.mask && p.causal != Causal::none) {
          return AttentionReply(
              Refusal{Refusal::Kind::failed, "a mask and is_causal do not go together"});
        }
        return written(p);
      });
  expect_right(*subject, 1, 24);
  CheckOptions options;
  options.theorems = {"num-options", "num-mask"};
  const Report report = check(*subject, options);
  ASSERT_EQ(report.failed_together.size(), 1U);
  EXPECT_EQ(report.failed_together[0].what, "causal + mask");
  EXPECT_EQ(report.failed_together[0].refusal.why, "a mask and is_causal do not go together");
  EXPECT_NE(report.text().find("fails at        causal + mask: a mask and is_causal"),
            std::string::npos)
      << report.text();
}

/// One that knows the bottom right corner alone, as it stands in the keys or in all of them.
std::unique_ptr<AttentionSubject> from_the_bottom_right(
    std::function<void(AttentionProblem&)> change) {
  Domain domain = written_domain();
  for (Feature feature : {Feature::query_offset, Feature::non_causal}) {
    domain.features.set(feature, false);
  }
  return function_attention("bottom right", domain, [=](const AttentionProblem& problem) {
    AttentionProblem asked = problem;
    asked.causal = Causal::bottom_right;
    change(asked);
    return Written{}(asked);
  });
}

TEST(Num, PaddingUnderTheBottomRightCornerAloneIsJudgedByWhereThatIs) {
  const auto unpadded = from_the_bottom_right([](AttentionProblem&) {});
  const auto padded = from_the_bottom_right(
      [](AttentionProblem& p) { p.query_offset = p.seq_len_k() - p.seq_len_q(); });
  EXPECT_EQ(check(*unpadded, {.identify_only = true}).conventions.padding_corner, "unpadded");
  EXPECT_EQ(check(*padded, {.identify_only = true}).conventions.padding_corner, "padded");
  expect_right(*unpadded, 1, 32);
  expect_right(*padded, 1, 32);
  const auto wrong = from_the_bottom_right([](AttentionProblem& p) {
    // One key too few, except where finding the convention looks.
    if (p.batch() > 1 && !p.key_length.empty()) {
      p.query_offset = p.key_length[0] - p.seq_len_q() - 1;
    }
  });
  EXPECT_EQ(check(*wrong, {.identify_only = true}).conventions.padding_corner, "unpadded");
  EXPECT_EQ(check_one(*wrong, "num-options", 0).outcome, Outcome::violated);
}

/// The reference, its answer spoilt.
std::unique_ptr<AttentionSubject> spoilt(
    Domain domain, std::function<void(const AttentionProblem&, AttentionAnswer&)> spoil) {
  const std::shared_ptr<AttentionSubject> right = builtin_attention("reference");
  return function_attention("spoilt", std::move(domain), [=](const AttentionProblem& problem) {
    AttentionReply reply = right->attend(problem);
    if (auto* answer = std::get_if<AttentionAnswer>(&reply)) spoil(problem, *answer);
    return reply;
  });
}

/// The reference, asked something else.
std::unique_ptr<AttentionSubject> asked_wrongly(Domain domain,
                                                std::function<void(AttentionProblem&)> change) {
  const std::shared_ptr<AttentionSubject> right = builtin_attention("reference");
  return function_attention("asked wrongly", std::move(domain),
                            [=](const AttentionProblem& problem) {
                              AttentionProblem other = problem;
                              change(other);
                              return right->attend(other);
                            });
}

/// What the reference offers, and threads and decoding, which change nothing in it.
Domain everything() { return domain_of(Dtype::float32, {}); }

/// The theorem finds the fault, with a counterexample of at most `length` positions and `dim`
/// channels.
void expect_caught(AttentionSubject& subject, std::string_view id, Index length = 4,
                   Index dim = 2) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const TheoremReport report = check_one(subject, id, seed);
    ASSERT_EQ(report.outcome, Outcome::violated) << id << ", seed " << seed << ": " << report.why;
    const AttentionProblem& problem = report.counterexample->problem;
    EXPECT_FALSE(report.counterexample->note.empty()) << id;
    EXPECT_LE(problem.seq_len_q(), length) << id << ", seed " << seed;
    EXPECT_LE(problem.seq_len_k(), length) << id << ", seed " << seed;
    EXPECT_LE(problem.head_dim(), dim) << id << ", seed " << seed;
    EXPECT_LE(problem.value_dim(), dim) << id << ", seed " << seed;
  }
}

void add_to_all(Tensor<double, 4>& tensor, double amount) {
  for (double& value : tensor) value += amount;
}

/// The next float32.
void nudge(AttentionAnswer& answer) {
  for (double& value : answer.out) value = std::nextafter(static_cast<float>(value), infinity);
}

TEST(Num, NoMaximumSubtractedBreaksShiftInvariance) {
  Written written;
  written.subtract_maximum = false;
  expect_caught(*function_attention("no maximum", written_domain(), written),
                "num-shift-invariance");
}

TEST(Num, ARunningMaximumThatStartsAtAFiniteNumberBreaksShiftsAndExtremeScores) {
  Written written;
  written.first_maximum = -1e4F;
  const auto subject = function_attention("-1e4", written_domain(), written);
  expect_caught(*subject, "num-shift-invariance");
  expect_caught(*subject, "num-extreme-scores");
}

TEST(Num, AFiniteStandInForMinusInfinityBreaksExtremeScores) {
  for (float hidden : {-1e4F, -1e9F}) {
    Written written;
    written.hidden = hidden;
    expect_caught(*function_attention("stand-in", written_domain(), written), "num-extreme-scores");
  }
}

TEST(Num, ZeroKeysOfATailBreakShiftInvariance) {
  // Keys of 0 beyond the last one, up to a multiple of 4, with weight and without value.
  Written written;
  const auto subject =
      function_attention("tail", written_domain(), [written](const AttentionProblem& p) {
        AttentionProblem asked = p;
        asked.want_lse = true;
        AttentionReply reply = written(asked);
        auto& answer = std::get<AttentionAnswer>(reply);
        const auto extra = static_cast<double>((4 - p.seq_len_k() % 4) % 4);
        for (Index at = 0; at < answer.out.size(); ++at) {
          const double lse = answer.lse->data()[at / std::max<Index>(p.value_dim(), 1)];
          answer.out.data()[at] /= 1 + extra * std::exp(-lse);
        }
        return reply;
      });
  expect_caught(*subject, "num-shift-invariance");
}

TEST(Num, AClampedOutputBreaksLinearity) {
  expect_caught(*spoilt(everything(),
                        [](const AttentionProblem&, AttentionAnswer& answer) {
                          for (double& value : answer.out) value = std::clamp(value, -1.5, 1.5);
                        }),
                "num-linearity-in-v");
}

TEST(Num, ADroppedLastKeyBreaksPermutation) {
  const auto drop = [](AttentionProblem& p) {
    const Index keys = p.seq_len_k();
    if (p.causal == Causal::none && p.key_length.empty() && keys > 1) {
      p.key_length.assign(static_cast<std::size_t>(p.batch()), keys - 1);
    }
  };
  expect_caught(*asked_wrongly(everything(), drop), "num-key-permutation");
}

TEST(Num, ALeakBetweenHeadsBreaksIndependence) {
  for (double leak : {0.1, 1e-12}) {
    const auto subject =
        spoilt(everything(), [leak](const AttentionProblem& p, AttentionAnswer& answer) {
          if (p.batch() < 2 || p.v.size() == 0 || answer.out.size() == 0) return;
          answer.out(0, 0, 0, 0) += leak * p.v(p.batch() - 1, 0, 0, 0);
        });
    expect_caught(*subject, "num-head-independence");
  }
}

TEST(Num, ZeroTimesNaNIsPoison) {
  const auto subject = spoilt(everything(), [](const AttentionProblem& p, AttentionAnswer& answer) {
    for (Index b = 0; b < p.batch(); ++b) {
      for (Index h = 0; h < p.num_heads(); ++h) {
        for (Index i = 0; i < p.seq_len_q(); ++i) {
          for (Index c = 0; c < p.value_dim(); ++c) {
            for (Index j = 0; j < p.seq_len_k(); ++j) {
              const Index kv = h / (p.num_heads() / p.num_kv_heads());
              answer.out(b, h, i, c) += 0 * p.v(b, kv, j, c);
            }
          }
        }
      }
    }
  });
  expect_caught(*subject, "num-poison");
}

TEST(Num, ATinyWeightOnHiddenValuesIsPoison) {
  const auto subject = spoilt(everything(), [](const AttentionProblem& p, AttentionAnswer& answer) {
    if (answer.out.size() == 0 || p.v.size() == 0 || p.causal == Causal::none) return;
    const double last = p.v(0, 0, p.seq_len_k() - 1, 0);
    if (std::isfinite(last)) answer.out(0, 0, 0, 0) += 1e-30 * last;
  });
  expect_caught(*subject, "num-poison");
}

TEST(Num, NaNTurnedToZeroIsSwallowed) {
  expect_caught(*spoilt(everything(),
                        [](const AttentionProblem&, AttentionAnswer& answer) {
                          for (double& value : answer.out) {
                            if (std::isnan(value)) value = 0;
                          }
                        }),
                "num-nan-visible");
}

bool empty_row(const AttentionProblem& p, Index b, Index h, Index i) {
  for (Index j = 0; j < p.seq_len_k(); ++j) {
    if (Written::may(p, b, h, i, j)) return false;
  }
  return true;
}

TEST(Num, GarbageAndInconsistencyInEmptyRowsAreCaught) {
  // Zero where a mask leaves nothing, what lay in memory where padding does.
  const auto subject = spoilt(everything(), [](const AttentionProblem& p, AttentionAnswer& answer) {
    for (Index b = 0; b < p.batch() && !p.key_length.empty(); ++b) {
      for (Index h = 0; h < p.num_heads(); ++h) {
        for (Index i = 0; i < p.seq_len_q(); ++i) {
          if (empty_row(p, b, h, i)) {
            for (Index c = 0; c < p.value_dim(); ++c) answer.out(b, h, i, c) = 777;
          }
        }
      }
    }
  });
  expect_caught(*subject, "num-empty-rows");
  const auto infinite = spoilt(everything(), [](const AttentionProblem&, AttentionAnswer& answer) {
    if (!answer.lse) return;
    for (double& lse : *answer.lse) lse = std::isinf(lse) ? std::fabs(lse) : lse;
  });
  expect_caught(*infinite, "num-empty-rows");
}

TEST(Num, AnAnswerWithoutKeysIsCaught) {
  const auto subject = spoilt(everything(), [](const AttentionProblem& p, AttentionAnswer& answer) {
    if (p.seq_len_k() == 0) add_to_all(answer.out, 1);
  });
  expect_caught(*subject, "num-zero-sizes");
}

TEST(Num, AssumedDenseInputsAreCaught) {
  const auto subject = asked_wrongly(everything(), [](AttentionProblem& p) {
    if (p.strided) std::reverse(p.v.begin(), p.v.end());
  });
  expect_caught(*subject, "num-strides");
  const auto expanded = asked_wrongly(everything(), [](AttentionProblem& p) {
    const bool one = p.num_kv_heads() > 1 && p.seq_len_k() > 1 && heads_are_equal(p.v);
    if (p.strided && one) std::reverse(p.v.begin(), p.v.end());
  });
  expect_caught(*expanded, "num-strides");
}

TEST(Num, ChangedInputsAreCaught) {
  const auto subject = spoilt(everything(), [](const AttentionProblem& p, AttentionAnswer& answer) {
    answer.inputs_changed = p.seq_len_q() > 2;
  });
  expect_caught(*subject, "num-inputs-untouched");
}

TEST(Num, StateOfAnotherCallIsCaught) {
  // A mask kept from the longest call so far hides what it does not cover.
  Written written;
  auto longest = std::make_shared<Index>(0);
  const auto subject =
      function_attention("keeps", written_domain(), [=](const AttentionProblem& p) {
        AttentionReply reply = written(p);
        if (*longest > 2 * p.seq_len_k() - 1 && p.seq_len_k() > 1) {
          add_to_all(std::get<AttentionAnswer>(reply).out, 0.1);
        }
        *longest = p.seq_len_k();
        return reply;
      });
  expect_caught(*subject, "num-history");
}

TEST(Num, OptionsThatAreIgnoredAreCaught) {
  const std::function<void(AttentionProblem&)> ignored[] = {
      [](AttentionProblem& p) { p.scale.reset(); },
      [](AttentionProblem& p) {
        if (p.scale && *p.scale < 0) p.scale = -*p.scale;
      },
      [](AttentionProblem& p) {
        if (p.scale == 0.0) p.scale.reset();  // taken for "not given"
      },
      [](AttentionProblem& p) {
        if (p.want_weights) p.causal = Causal::none;  // the path that keeps A forgets the mask
      },
      [](AttentionProblem& p) {
        if (p.query_offset) ++*p.query_offset;
      },
      [](AttentionProblem& p) {
        for (Index& length : p.key_length) length = p.seq_len_k();
      },
      [](AttentionProblem& p) {
        if (p.threads == 3) std::reverse(p.v.begin(), p.v.end());
      },
      [](AttentionProblem& p) {
        if (p.causal == Causal::bottom_right && p.seq_len_k() < p.seq_len_q()) {
          p.causal = Causal::top_left;
        }
      }};
  for (const auto& change : ignored) {
    SCOPED_TRACE(&change - ignored);
    expect_caught(*asked_wrongly(everything(), change), "num-options");
  }
}

TEST(Num, HeadsOfKeysInAnotherOrderAreCaught) {
  const auto subject = asked_wrongly(everything(), [](AttentionProblem& p) {
    if (p.num_heads() == p.num_kv_heads() || p.num_kv_heads() < 2) return;
    for (auto* tensor : {&p.k, &p.v}) {
      const Index size = tensor->size() / p.batch() / p.num_kv_heads();
      std::rotate(tensor->begin(), tensor->begin() + size, tensor->end());
    }
  });
  expect_caught(*subject, "num-grouped-heads");
}

TEST(Num, WindowsOfAnotherSizeAreCaught) {
  const auto wide = asked_wrongly(everything(), [](AttentionProblem& p) {
    if (p.window && *p.window != 2) ++*p.window;  // 2 is what finding the convention tries
  });
  expect_caught(*wide, "num-window");
  const auto with_mask_only = asked_wrongly(everything(), [](AttentionProblem& p) {
    if (p.window && *p.window < 3 && !p.mask) p.window.reset();
  });
  expect_caught(*with_mask_only, "num-window");
}

TEST(Num, SoftcapsIgnoredOrAppliedToHiddenKeysAreCaught) {
  const auto ignored = asked_wrongly(everything(), [](AttentionProblem& p) { p.softcap = 0; });
  expect_caught(*ignored, "num-softcap");
  // Hidden before the cap: minus infinity becomes -cap, a number.
  const auto before = asked_wrongly(everything(), [](AttentionProblem& p) {
    if (p.softcap == 0 || !p.mask) return;
    p.bias = Tensor<float, 4>(p.mask->shape());
    for (Index at = 0; at < p.mask->size(); ++at) {
      p.bias->data()[at] = p.mask->data()[at] ? 0 : -2 * static_cast<float>(p.softcap);
    }
    p.mask.reset();
  });
  expect_caught(*before, "num-softcap");
}

TEST(Num, MasksThatAreMisreadAreCaught) {
  const std::function<void(AttentionProblem&)> misread[] = {
      [](AttentionProblem& p) {
        if (p.mask) p.causal = Causal::none;  // replaced, not intersected
      },
      [](AttentionProblem& p) {
        // Each element's mask is read by the next one.
        if (p.mask && p.mask->shape()[0] > 1) {
          std::rotate(p.mask->begin(), p.mask->begin() + p.mask->size() / p.mask->shape()[0],
                      p.mask->end());
        }
      },
      [](AttentionProblem& p) {
        // An axis of size 1 for all keys is read for the first key only.
        if (!p.mask || p.mask->shape()[3] != 1 || p.seq_len_k() < 2) return;
        Tensor<bool, 4> wide(
            {p.mask->shape()[0], p.mask->shape()[1], p.mask->shape()[2], p.seq_len_k()});
        std::fill(wide.begin(), wide.end(), true);
        for (Index row = 0; row < p.mask->size(); ++row) {
          wide.data()[row * p.seq_len_k()] = p.mask->data()[row];
        }
        p.mask = wide;
      },
      [](AttentionProblem& p) {
        if (!p.bias) return;
        for (float& value : *p.bias) value = std::max(value, -10.0F);  // not minus infinity
      }};
  for (const auto& change : misread) {
    expect_caught(*asked_wrongly(everything(), change), "num-mask");
  }
}

TEST(Num, AWrongLogarithmIsCaught) {
  const auto subject = spoilt(everything(), [](const AttentionProblem& p, AttentionAnswer& answer) {
    if (!answer.lse || p.softcap == 0) return;
    for (double& lse : *answer.lse) lse += 0.25;
  });
  expect_caught(*subject, "num-lse");
}

TEST(Num, WrongGradientsAreCaught) {
  const std::function<void(const AttentionProblem&, AttentionAnswer&)> wrong[] = {
      [](const AttentionProblem& p, AttentionAnswer& answer) {
        if (p.k.shape() == p.v.shape()) std::swap(answer.gradients->d_k, answer.gradients->d_v);
      },
      [](const AttentionProblem& p, AttentionAnswer& answer) {
        // The backward pass forgets the mask.
        AttentionProblem open = p;
        open.causal = Causal::none;
        const AttentionReply reply = builtin_attention("reference")->attend(open);
        answer.gradients = std::get<AttentionAnswer>(reply).gradients;
      },
      [](const AttentionProblem&, AttentionAnswer& answer) {
        for (double& value : answer.gradients->d_q) value *= 2;  // the scale twice, or not at all
      },
      [](const AttentionProblem&, AttentionAnswer& answer) {
        for (double& value : answer.gradients->d_k) {
          if (value == 0) value = 1e-20;  // something for what nobody sees
        }
      },
      [](const AttentionProblem& p, AttentionAnswer& answer) {
        // Rows that see nothing poison all.
        for (Index b = 0; b < p.batch(); ++b) {
          for (Index i = 0; i < p.seq_len_q(); ++i) {
            if (!empty_row(p, b, 0, i)) continue;
            add_to_all(answer.gradients->d_v, std::numeric_limits<double>::quiet_NaN());
          }
        }
      }};
  for (const auto& spoil : wrong) {
    const auto subject =
        spoilt(everything(), [&spoil](const AttentionProblem& p, AttentionAnswer& answer) {
          if (answer.gradients) spoil(p, answer);
        });
    expect_caught(*subject, "num-gradient");
  }
}

TEST(Num, DecodingThatForgetsIsCaught) {
  const auto forgets = spoilt(everything(), [](const AttentionProblem& p, AttentionAnswer& answer) {
    if (!p.decode) return;
    AttentionProblem last = p;
    last.window = 2;
    const AttentionReply reply = builtin_attention("reference")->attend(last);
    answer.out = std::get<AttentionAnswer>(reply).out;
  });
  expect_caught(*forgets, "num-decode");
  Written written;
  const auto first_key_only =
      function_attention("one query", written_domain(), [=](const AttentionProblem& p) {
        AttentionProblem asked = p;
        if (p.seq_len_q() == 1 && p.seq_len_k() == 3) asked.causal = Causal::top_left;
        return written(asked);
      });
  expect_caught(*first_key_only, "num-decode");
}

TEST(Num, OtherBitsAreCaught) {
  struct Case {
    std::string_view id;
    std::function<bool(const AttentionProblem&)> other_bits;
  };
  int calls = 0;
  const Case cases[] = {
      {"num-determinism", [&calls](const AttentionProblem&) { return ++calls % 2 == 0; }},
      {"num-thread-invariance", [](const AttentionProblem& p) { return p.threads == 7; }},
      {"num-batch-invariance", [](const AttentionProblem& p) { return p.batch() > 1; }},
      {"num-batch-invariance", [](const AttentionProblem& p) { return p.num_heads() > 1; }},
      {"num-prefix", [](const AttentionProblem& p) { return p.seq_len_q() > 2; }},
      {"num-decode-equals-prefill", [](const AttentionProblem& p) { return p.decode; }}};
  for (const Case& one : cases) {
    const auto& other_bits = one.other_bits;
    const auto subject =
        spoilt(everything(), [&other_bits](const AttentionProblem& p, AttentionAnswer& answer) {
          if (other_bits(p)) nudge(answer);
        });
    expect_caught(*subject, one.id);
  }
}

}  // namespace
}  // namespace headproof
