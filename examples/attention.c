/* Causal attention from C: three tokens at once, then one by one with a cache, and a mistake. */
#include <headproof/subject.h>
#include <stdio.h>
#include <string.h>

enum { tokens = 3, head_dim = 2 };

int main(void) {
  const float q[tokens][head_dim] = {{1, 0}, {0, 1}, {2, 1}};
  const float k[tokens][head_dim] = {{1, 1}, {0, 2}, {3, 0}};
  const float v[tokens][head_dim] = {{1, 10}, {2, 20}, {3, 30}};
  float out[tokens][head_dim], decoded[tokens][head_dim];
  char error[256];

  struct headproof_problem problem = {
      .struct_size = sizeof problem,
      .dtype = HEADPROOF_FLOAT32,
      .batch = 1,
      .num_heads = 1,
      .num_kv_heads = 1,
      .seq_len_q = tokens,
      .seq_len_k = tokens,
      .head_dim = head_dim,
      .value_dim = head_dim,
      .q = {q, {0, 0, head_dim, 1}}, /* the strides of axes of size 1 do not matter */
      .k = {k, {0, 0, head_dim, 1}},
      .v = {v, {0, 0, head_dim, 1}},
      .out = {out, {0, 0, head_dim, 1}},
      .causal = HEADPROOF_CAUSAL_BOTTOM_RIGHT,
  };
  if (headproof_attention(&problem, error, sizeof error) != HEADPROOF_DONE) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  for (int i = 0; i < tokens; ++i) printf("out[%d] = %.6f %.6f\n", i, out[i][0], out[i][1]);

  struct headproof_cache* cache = NULL;
  int status = headproof_cache_create(&problem, &cache, error, sizeof error);
  problem.seq_len_q = problem.seq_len_k = 1;
  for (int i = 0; i < tokens && status == HEADPROOF_DONE; ++i) {
    problem.q.data = q[i];
    problem.k.data = k[i];
    problem.v.data = v[i];
    problem.out.data = decoded[i];
    status = headproof_cache_append(cache, &problem, error, sizeof error);
    if (status == HEADPROOF_DONE) {
      status = headproof_cache_attend(cache, &problem, error, sizeof error);
    }
  }
  headproof_cache_free(cache);
  if (status != HEADPROOF_DONE) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  const int same_bits = memcmp(out, decoded, sizeof out) == 0;
  printf("one token at a time: %s bits\n", same_bits ? "the same" : "other");

  problem.v.data = NULL;
  status = headproof_attention(&problem, error, sizeof error);
  printf("without v: status %d, %s\n", status, error);
  return same_bits && status == HEADPROOF_USED_WRONGLY ? 0 : 1;
}
