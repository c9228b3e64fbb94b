/* Causal attention with a fault put in on purpose: see the checker find it.

     cc -O2 -shared -fPIC faulty.c -o libfaulty.so -lm
     headproof check ./libfaulty.so

   The key after its own has a weight in every row: the loop runs to j <= i + 1. */
#include <headproof/subject.h>
#include <math.h>

static int attention(const struct headproof_problem* p, char* error, size_t error_size) {
  (void)error;
  (void)error_size;
  const int64_t length = p->seq_len_q, dim = p->head_dim;
  const double scale = 1 / sqrt((double)dim);
  for (int64_t head = 0; head < p->batch * p->num_heads; ++head) {
    const float* q = (const float*)p->q.data + head * length * dim;
    const float* k = (const float*)p->k.data + head * length * dim;
    const float* v = (const float*)p->v.data + head * length * dim;
    float* out = (float*)p->out.data + head * length * dim;
    for (int64_t i = 0; i < length; ++i) {
      double largest = -INFINITY, sum = 0;
      for (int pass = 0; pass < 2; ++pass) { /* the largest score, then the sums */
        for (int64_t c = 0; c < dim && pass == 1; ++c) out[i * dim + c] = 0;
        for (int64_t j = 0; j <= i + 1 && j < length; ++j) {
          double score = 0;
          for (int64_t c = 0; c < dim; ++c) score += (double)q[i * dim + c] * k[j * dim + c];
          if (pass == 0) {
            largest = fmax(largest, scale * score);
          } else {
            const double weight = exp(scale * score - largest);
            sum += weight;
            for (int64_t c = 0; c < dim; ++c) {
              out[i * dim + c] += (float)(weight * v[j * dim + c]);
            }
          }
        }
      }
      for (int64_t c = 0; c < dim; ++c) out[i * dim + c] /= (float)sum;
    }
  }
  return HEADPROOF_DONE;
}

const struct headproof_subject headproof_subject = {
    .abi_version = HEADPROOF_ABI_VERSION,
    .struct_size = sizeof(struct headproof_subject),
    .name = "faulty",
    .dtype = HEADPROOF_FLOAT32,
    .features = HEADPROOF_OFFERS_CAUSAL | HEADPROOF_OFFERS_BATCHES | HEADPROOF_OFFERS_HEADS,
    .attention = attention,
};
