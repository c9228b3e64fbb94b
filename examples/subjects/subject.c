/* An attention in C that headproof can check. Put your own into `attention`:

     cc -O2 -shared -fPIC subject.c -o libmine.so -lm
     headproof check ./libmine.so

   It needs headproof/subject.h alone; -I names the folder that holds headproof/. */
#include <headproof/subject.h>
#include <math.h>
#include <stdlib.h>

/* The element of an input at batch b, head h and row i, channel 0. */
static const float* row(const struct headproof_input* input, int64_t b, int64_t h, int64_t i) {
  return (const float*)input->data + b * input->strides[0] + h * input->strides[1] +
         i * input->strides[2];
}

/* One row of out: softmax(scale q k^T) v over the keys 0 .. keys - 1. */
static void attend(const struct headproof_problem* p, int64_t b, int64_t h, int64_t i, int64_t keys,
                   double scale, float* weights) {
  const int64_t kv = h / (p->num_heads / p->num_kv_heads);
  const float* q = row(&p->q, b, h, i);
  float largest = -INFINITY, sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const float* k = row(&p->k, b, kv, j);
    float score = 0;
    for (int64_t c = 0; c < p->head_dim; ++c) {
      score += q[c * p->q.strides[3]] * k[c * p->k.strides[3]];
    }
    weights[j] = (float)scale * score;
    largest = fmaxf(largest, weights[j]);
  }
  for (int64_t j = 0; j < keys; ++j) {
    weights[j] = expf(weights[j] - largest);
    sum += weights[j];
  }
  float* out =
      (float*)p->out.data + b * p->out.strides[0] + h * p->out.strides[1] + i * p->out.strides[2];
  for (int64_t c = 0; c < p->value_dim; ++c) {
    float value = 0;
    for (int64_t j = 0; j < keys; ++j) {
      value += weights[j] * row(&p->v, b, kv, j)[c * p->v.strides[3]];
    }
    out[c * p->out.strides[3]] = keys > 0 ? value / sum : 0;
  }
}

static int attention(const struct headproof_problem* p, char* error, size_t error_size) {
  (void)error; /* one sentence of error_size bytes, where something else than 0 is returned */
  (void)error_size;
  const double scale = p->has_scale ? p->scale : 1 / sqrt((double)p->head_dim);
  float* weights = malloc(sizeof(float) * (size_t)(p->seq_len_k + 1));
  if (weights == NULL) return HEADPROOF_FAILED;
  for (int64_t b = 0; b < p->batch; ++b) {
    for (int64_t h = 0; h < p->num_heads; ++h) {
      for (int64_t i = 0; i < p->seq_len_q; ++i) {
        int64_t keys = p->seq_len_k; /* what query i may see */
        if (p->causal == HEADPROOF_CAUSAL_TOP_LEFT) keys = i + 1;
        if (p->causal == HEADPROOF_CAUSAL_BOTTOM_RIGHT) keys = p->seq_len_k - p->seq_len_q + i + 1;
        if (keys > p->seq_len_k) keys = p->seq_len_k;
        attend(p, b, h, i, keys < 0 ? 0 : keys, scale, weights);
      }
    }
  }
  free(weights);
  return HEADPROOF_DONE;
}

/* What it does; the checker asks for nothing else. */
const struct headproof_subject headproof_subject = {
    .abi_version = HEADPROOF_ABI_VERSION,
    .struct_size = sizeof(struct headproof_subject),
    .name = "mine",
    .dtype = HEADPROOF_FLOAT32,
    .layout = HEADPROOF_BHSD,
    .features = HEADPROOF_OFFERS_CAUSAL | HEADPROOF_OFFERS_NON_CAUSAL |
                HEADPROOF_OFFERS_RECTANGULAR | HEADPROOF_OFFERS_VALUE_DIM |
                HEADPROOF_OFFERS_ZERO_SIZES | HEADPROOF_OFFERS_BATCHES | HEADPROOF_OFFERS_HEADS |
                HEADPROOF_OFFERS_GROUPED_HEADS | HEADPROOF_OFFERS_SCALE | HEADPROOF_OFFERS_STRIDES,
    .attention = attention,
};
