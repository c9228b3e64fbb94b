// Compiled once for each instruction set; the arithmetic of a row is that of canonical.cc.

#include "attention/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention/few_keys.cc"

#include <hwy/foreach_target.h>  // IWYU pragma: keep
// After it, and not sorted before it.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "attention/few_keys.h"
#include "attention/order.h"
#include "attention/parallel.h"
#include "attention/tile-inl.h"
#include "attention/workspace.h"

#ifndef HEADPROOF_ATTENTION_FEW_KEYS_CC_ONCE
#define HEADPROOF_ATTENTION_FEW_KEYS_CC_ONCE
namespace headproof {

/// The arguments of attention_few_keys.
template <class Scalar>
struct FewKeysCall {
  const View<const Scalar, 4>&q, &k, &v;
  const AttentionOptions& options;
  const View<Scalar, 4>& out;
  const View<Scalar, 3>& lse;

  Index heads() const { return q.shape[0] * k.shape[1]; }  ///< of keys and values
  Index group() const { return q.shape[1] / k.shape[1]; }  ///< query heads of each
  Index width() const { return width_of<Scalar>(v.shape[3]); }
};

/// Row groups that go through a stage together, so that the waits of one are the work of another.
inline constexpr Index few_groups = 4;
/// Rows of a group at most.
inline constexpr Index few_rows_at_most = 8;

/// Elements of memory that a run over some heads finds on its stack.
inline constexpr Index near_elements = 4096;

/// Elements of memory that it needs beside those: 0 or all.
template <class Scalar>
Index few_keys_workspace(const FewKeysCall<Scalar>& call) {
  static_assert(few_groups * few_rows_at_most <= key_block);
  const Index elements =
      call.q.shape[3] * key_block + few_groups * (few_rows_at_most + few_keys) * call.width();
  return elements <= near_elements ? 0 : elements;
}

}  // namespace headproof
#endif

HWY_BEFORE_NAMESPACE();
namespace headproof {
namespace HWY_NAMESPACE {

template <class Real>
inline constexpr int few_lanes = static_cast<int>(LanesOf<PackTag<Real>>());
template <class Real>
using FewBits = hn::TFromD<hn::RebindToUnsigned<PackTag<Real>>>;
template <class Real>
using FewSigned = hn::TFromD<hn::RebindToSigned<PackTag<Real>>>;

/// Rows of the queries that read one key/value head, as many as PackTag has lanes, and that head's
/// few keys. Row r is query (first + r) / group of query head first_head + (first + r) % group.
/// Rows that are not there do what the last does.
template <class Real>
struct RowGroup {
  static constexpr int rows = few_lanes<Real>;
  Index b, first_head, first;
  Index count;  ///< of rows
  const Real* keys;
  Index key_step, key_stride;  ///< from key to key, and from channel to channel
  const Real* values;
  Index value_step;
  Index key_count;
  const Real* query[std::size_t{rows}];
  Real* out[std::size_t{rows}];
  alignas(64) FewBits<Real> allowed[std::size_t{rows}];  ///< bit j: the row sees key j
  alignas(64) Real sums[std::size_t{rows}];
  alignas(64) Real maxima[std::size_t{rows}];
  bool triangle;  ///< row r sees keys 0 .. r, and all rows are there
};

/// Calls step(r, h, i) for the rows of a group, those that are not there included.
template <class Real, class Step>
HWY_INLINE void ForRows(const RowGroup<Real>& group, Index query_heads, Step step) {
  for (Index r = 0; r < group.rows; ++r) {
    const Index row = group.first + std::min(r, group.count - 1);
    step(r, group.first_head + row % query_heads, row / query_heads);
  }
}

/// The rows from group.first on of a head with these keys: where they lie, and what they see.
template <class Real>
HWY_INLINE void LookAt(const FewKeysCall<Real>& call, const VisibleKeys& visible, Index query_heads,
                       RowGroup<Real>& group) {
  using Small = FewSigned<Real>;
  const hn::RebindToSigned<PackTag<Real>> ds;
  const hn::RebindToUnsigned<PackTag<Real>> du;
  // Row r is of query i + later[r].
  Index i = group.first;
  auto later = hn::Min(hn::Iota(ds, 0), hn::Set(ds, static_cast<Small>(group.count - 1)));
  if (query_heads == 1) {
    const Real* query = row_of(call.q, group.b, group.first_head, i);
    Real* out = row_of(call.out, group.b, group.first_head, i);
    const Index query_step = query == nullptr ? 0 : call.q.strides[2];
    const Index out_step = out == nullptr ? 0 : call.out.strides[2];
    HWY_UNROLL(8)
    for (Index r = 0; r < group.rows; ++r) {
      group.query[r] = query;
      group.out[r] = out;
      query += r + 1 < group.count ? query_step : 0;
      out += r + 1 < group.count ? out_step : 0;
    }
  } else {
    i /= query_heads;
    alignas(64) Small after_first[std::size_t{RowGroup<Real>::rows}];
    ForRows(group, query_heads, [&](Index r, Index h, Index query) HWY_ATTR {
      group.query[r] = row_of(call.q, group.b, h, query);
      group.out[r] = row_of(call.out, group.b, h, query);
      after_first[r] = static_cast<Small>(query - i);
    });
    later = hn::Load(ds, after_first);
  }
  // Keys far before and far behind the few are all the same.
  const KeyRange sequence = visible.sequence(), near = visible.around(i);
  const auto of_rows = [&](Index of_first) HWY_ATTR {
    const Index counted = std::clamp<Index>(of_first - sequence.begin, -key_block, key_block);
    return hn::Add(hn::Set(ds, static_cast<Small>(counted)), later);
  };
  const Index there = sequence.end - sequence.begin;
  const auto last = hn::Set(ds, static_cast<Small>(there));
  const auto begin = hn::Min(hn::Max(of_rows(near.begin), hn::Zero(ds)), last);
  const auto end = hn::Max(hn::Min(of_rows(near.end), last), begin);
  const auto one = hn::Set(du, FewBits<Real>{1});
  const auto below = [&](auto key) HWY_ATTR { return hn::Shl(one, hn::BitCast(du, key)); };
  const auto bits = hn::Sub(below(end), below(begin));
  hn::Store(bits, du, group.allowed);
  const auto up_to_row = hn::Sub(below(hn::Iota(ds, 1)), one);
  group.triangle = group.count == group.rows && hn::AllTrue(du, hn::Eq(bits, up_to_row));
  // Keys that are not there are the last again; where none is, a query is one that no row sees.
  group.key_count = there > 0 ? there : 1;
  group.keys = there > 0 ? row_of(call.k, group.b, group.first_head / query_heads, sequence.begin)
                         : group.query[0];
  group.key_step = group.keys == nullptr ? 0 : call.k.strides[2];
  group.key_stride = there > 0 ? call.k.strides[3] : call.q.strides[3];
  if (const auto* const mask = std::get_if<View<const bool, 4>>(&call.options.mask)) {
    group.triangle = false;
    ForRows(group, query_heads, [&](Index r, Index h, Index query) HWY_ATTR {
      const auto of_head = mask_of_head(*mask, group.b, h);
      for (FewBits<Real> left = group.allowed[r]; left != 0; left &= left - 1) {
        const int j = std::countr_zero(left);
        if (!of_head(query, sequence.begin + j)) group.allowed[r] ^= FewBits<Real>{1} << j;
      }
    });
  }
}

/// Weights [keys][rows] of queries packed as [head_dim][key_block]; their sums and maxima. Lanes
/// are rows, so that nothing crosses them, and all vectors of a stage are independent.
template <int keys, class Real>
HWY_NOINLINE void Weights(const Real* HWY_RESTRICT panel, Index head_dim, Real scale,
                          RowGroup<Real>& group, Real* HWY_RESTRICT weights) {
  const PackTag<Real> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  using V = Vec<decltype(d)>;
  const Real* key[std::size_t{keys}];
  V logit[std::size_t{keys}], largest[std::size_t{keys}], sum[std::size_t{keys}];
  key[0] = group.keys;
  HWY_UNROLL(16)
  for (int j = 1; j < keys; ++j) key[j] = key[j - 1] + (j < group.key_count ? group.key_step : 0);
  HWY_UNROLL(16)
  for (int j = 0; j < keys; ++j) logit[j] = hn::Zero(d);
  for (Index c = 0, at = 0; c < head_dim; ++c, at += group.key_stride, panel += key_block) {
    const V q = hn::Load(d, panel);
    HWY_UNROLL(16)
    for (int j = 0; j < keys; ++j) logit[j] = Fma(hn::Set(d, key[j][at]), q, logit[j]);
  }
  const V factor = hn::Set(d, scale), none = hn::Set(d, -std::numeric_limits<Real>::infinity());
  const auto all = hn::Load(du, group.allowed);
  HWY_UNROLL(16)
  for (int j = 0; j < keys; ++j) {
    const auto sees = hn::RebindMask(d, hn::TestBit(all, hn::Set(du, FewBits<Real>{1} << j)));
    logit[j] = hn::IfThenElse(sees, hn::Mul(logit[j], factor), none);
    largest[j] = logit[j];
  }
  // Where a logit is NaN so is all of the row, whatever the largest is.
  for (int half = keys / 2; half > 0; half /= 2) {
    HWY_UNROLL(8)
    for (int j = 0; j < half; ++j) largest[j] = Larger(d, largest[j], largest[j + half]);
  }
  const V origin = Origin(d, largest[0]);
  HWY_UNROLL(16)
  for (int j = 0; j < keys; ++j) {
    sum[j] = ExpBelowOverflow(d, hn::Sub(logit[j], origin));
    hn::Store(sum[j], d, weights + j * group.rows);
  }
  for (int half = keys / 2; half > 0; half /= 2) {
    HWY_UNROLL(8)
    for (int j = 0; j < half; ++j) sum[j] = hn::Add(sum[j], sum[j + half]);
  }
  // A row that sees no key has out 0 / 1.
  const auto empty = hn::RebindMask(d, hn::Eq(all, hn::Zero(du)));
  hn::Store(hn::IfThenElse(empty, hn::Set(d, Real(1)), sum[0]), d, group.sums);
  hn::Store(largest[0], d, group.maxima);
}

/// to[r] = sum over allowed j of weights[j][r] * value[j], ascending j, over sums[r].
template <class D, class Real = hn::TFromD<D>>
HWY_NOINLINE void Values(D d, const RowGroup<Real>& group, const Real* weights, Index width,
                         Real* const* to) {
  constexpr int rows = RowGroup<Real>::rows;
  for (Index c = 0; c < width; c += LanesOf<D>()) {
    Vec<D> total[std::size_t{rows}];
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r) total[r] = hn::Zero(d);
    if (group.triangle) {
      const Real* value = group.values + c;
      HWY_UNROLL(8)
      for (int j = 0; j < rows; ++j, value += group.value_step) {
        const Vec<D> v = hn::LoadU(d, value);
        HWY_UNROLL(8)
        for (int r = 0; r < rows; ++r) {
          if (r >= j) total[r] = Fma(hn::Set(d, weights[j * rows + r]), v, total[r]);
        }
      }
    } else {
      HWY_UNROLL(8)
      for (int r = 0; r < rows; ++r) {
        for (FewBits<Real> left = group.allowed[r]; left != 0; left &= left - 1) {
          const int j = std::countr_zero(left);
          const Vec<D> v = hn::LoadU(d, group.values + j * group.value_step + c);
          total[r] = Fma(hn::Set(d, weights[j * rows + r]), v, total[r]);
        }
      }
    }
    HWY_UNROLL(8)
    for (int r = 0; r < rows; ++r)
      hn::StoreU(hn::Div(total[r], hn::Set(d, group.sums[r])), d, to[r] + c);
  }
}

/// lse = maximum + ln(sum); -infinity for a row that sees no key.
template <class Real>
void WriteLse(const FewKeysCall<Real>& call, Index query_heads, const RowGroup<Real>& group) {
  const PackTag<Real> d;
  alignas(64) Real lse[std::size_t{RowGroup<Real>::rows}];
  const auto sum = hn::Load(d, group.sums);
  const auto all = hn::Add(hn::Load(d, group.maxima), Log(d, sum));
  const auto nan = hn::Set(d, std::numeric_limits<Real>::quiet_NaN());
  hn::Store(hn::IfThenElse(hn::Eq(sum, hn::Zero(d)), nan, all), d, lse);
  ForRows(group, query_heads, [&](Index r, Index h, Index i) { call.lse(group.b, h, i) = lse[r]; });
}

/// Key/value heads first_head .. first_head + heads - 1 with `keys` keys each at most.
template <int keys, class Real>
void RunHeads(const FewKeysCall<Real>& call, Index first_head, Index heads, Real* workspace) {
  const hn::CappedTag<Real, 64 / sizeof(Real)> d;
  constexpr int rows = RowGroup<Real>::rows;
  static_assert(rows <= few_rows_at_most);
  const Index head_dim = call.q.shape[3], value_dim = call.v.shape[3], width = call.width();
  const Index query_heads = call.group(), all_rows = query_heads * call.q.shape[2];
  const Index out_stride = call.out.strides[3];
  const bool values_whole = call.v.strides[3] == 1 && value_dim == width;
  const bool out_whole = out_stride == 1 && value_dim == width;
  const Real scale = scale_of<Real>(call.options, head_dim);
  Real* const panel = workspace;                                        // [head_dim][key_block]
  Real* const totals = panel + head_dim * key_block;                    // [few_groups][rows][width]
  Real* const copies = totals + few_groups * few_rows_at_most * width;  // [few_groups][keys][width]
  alignas(64) Real weights[std::size_t{few_groups}][std::size_t{keys * rows}];
  RowGroup<Real> groups[std::size_t{few_groups}];
  Index used = 0;
  const auto run = [&]() HWY_ATTR {
    for (Index n = 0; n < used; ++n) {
      PackRows(groups[n].query, Index{rows}, call.q.strides[3], head_dim, panel + n * rows);
    }
    for (Index n = 0; n < used; ++n) {
      Weights<keys>(panel + n * rows, head_dim, scale, groups[n], weights[n]);
    }
    for (Index n = 0; n < used; ++n) {
      const RowGroup<Real>& group = groups[n];
      if (out_whole) {
        Values(d, group, weights[n], width, group.out);
      } else {
        Real* total[std::size_t{rows}];
        for (Index r = 0; r < rows; ++r) total[r] = totals + (n * rows + r) * width;
        Values(d, group, weights[n], width, total);
        for (Index r = 0; r < group.count; ++r) {
          for (Index c = 0; c < value_dim; ++c) group.out[r][c * out_stride] = total[r][c];
        }
      }
      if (call.lse.data != nullptr) WriteLse(call, query_heads, group);
    }
    used = 0;
  };
  Index b = first_head / call.k.shape[1], h = first_head - b * call.k.shape[1];
  for (Index n = 0; n < heads; ++n) {
    const VisibleKeys visible(call.options, b, call.q.shape[2], call.k.shape[2]);
    const KeyRange sequence = visible.sequence();
    const Real* values = row_of(call.v, b, h, sequence.begin);
    Index value_step = call.v.strides[2];
    if (!values_whole) {  // The groups at hand are of few_groups heads at most.
      Real* const copy = copies + n % few_groups * keys * width;
      const Index count = sequence.end - sequence.begin;
      pack_rows<Real>({values, {count, value_dim}, {value_step, call.v.strides[3]}}, width, copy);
      values = copy;
      value_step = width;
    }
    for (Index first = 0; first < all_rows; first += rows) {
      RowGroup<Real>& group = groups[used];
      group.b = b;
      group.first_head = h * query_heads;
      group.first = first;
      group.count = std::min<Index>(rows, all_rows - first);
      group.values = values;
      group.value_step = value_step;
      LookAt(call, visible, query_heads, group);
      if (++used == few_groups) run();
    }
    if (++h == call.k.shape[1]) ++b, h = 0;
  }
  run();
}

template <class Real>
void RunFewKeys(const FewKeysCall<Real>& call, Index first_head, Index heads, Real* workspace) {
  constexpr int half = few_keys / 2;
  alignas(64) Real near[std::size_t{near_elements}];
  if (workspace == nullptr) workspace = near;
  if (call.k.shape[2] <= half) return RunHeads<half>(call, first_head, heads, workspace);
  RunHeads<few_keys>(call, first_head, heads, workspace);
}

void RunFewKeysFloat(const FewKeysCall<float>& call, Index first_head, Index heads,
                     float* workspace) {
  RunFewKeys(call, first_head, heads, workspace);
}
void RunFewKeysDouble(const FewKeysCall<double>& call, Index first_head, Index heads,
                      double* workspace) {
  RunFewKeys(call, first_head, heads, workspace);
}

}  // namespace HWY_NAMESPACE
}  // namespace headproof
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headproof {
namespace {

HWY_EXPORT(RunFewKeysFloat);
HWY_EXPORT(RunFewKeysDouble);

void run_few_keys(const FewKeysCall<float>& call, Index first_head, Index heads, float* workspace) {
  HWY_DYNAMIC_DISPATCH(RunFewKeysFloat)(call, first_head, heads, workspace);
}
void run_few_keys(const FewKeysCall<double>& call, Index first_head, Index heads,
                  double* workspace) {
  HWY_DYNAMIC_DISPATCH(RunFewKeysDouble)(call, first_head, heads, workspace);
}

/// Heads of a task at most.
constexpr Index task_heads = 16;

}  // namespace

template <class Scalar>
Status attention_few_keys(const View<const Scalar, 4>& q, const View<const Scalar, 4>& k,
                          const View<const Scalar, 4>& v, const AttentionOptions& options,
                          const View<Scalar, 4>& out, const View<Scalar, 3>& lse) {
  if (q.shape[0] * q.shape[1] * q.shape[2] == 0) return std::monostate();
  const StandardFloatMode mode;
  const FewKeysCall<Scalar> call{q, k, v, options, out, lse};
  const Index heads = call.heads();
  const double work = static_cast<double>(q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]) *
                      static_cast<double>(q.shape[3] + call.width());
  Progress progress(options.progress, static_cast<double>(heads));
  share_out((heads + task_heads - 1) / task_heads, work > forward_serial_work,
            [&] {
              return Workspace(static_cast<std::size_t>(few_keys_workspace(call)) * sizeof(Scalar));
            },
            [&](const Workspace& workspace, Index task) {
              if (progress.stopped()) return;
              const Index first = task * task_heads, count = std::min(task_heads, heads - first);
              run_few_keys(call, first, count, workspace.as<Scalar>());
              progress.add(static_cast<double>(count));
            });
  return progress.status("attention");
}

#define HEADPROOF_INSTANTIATE(Scalar)                                                            \
  template Status attention_few_keys(const View<const Scalar, 4>&, const View<const Scalar, 4>&, \
                                     const View<const Scalar, 4>&, const AttentionOptions&,      \
                                     const View<Scalar, 4>&, const View<Scalar, 3>&);
HEADPROOF_INSTANTIATE(float)
HEADPROOF_INSTANTIATE(double)
#undef HEADPROOF_INSTANTIATE

}  // namespace headproof
#endif
