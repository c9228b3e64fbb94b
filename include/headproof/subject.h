/* Attention in plain C (C11 or later, and C++): a problem is sizes, pointers, strides and options,
   and any library may offer a function that solves it: `headproof check ./libmine.so` checks it,
   and needs this header alone (`struct headproof_subject` below). Here are also headproof's own
   functions, in the library headproof::attention. What masks, windows and empty rows mean is said
   in attention.h.

   Set a whole struct to zero and fill in what is wanted: zero is the default of every option. */
#ifndef HEADPROOF_SUBJECT_H_
#define HEADPROOF_SUBJECT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a function returns. Unless that is 0, `error` holds one sentence that says why, cut to
   error_size - 1 bytes and ended by a 0; nothing is written where error is null or error_size 0. */
enum headproof_status {
  HEADPROOF_DONE = 0,
  HEADPROOF_UNSUPPORTED = 1,  /* this is not offered; headproof's own functions never return it */
  HEADPROOF_USED_WRONGLY = 2, /* the sentence names the argument */
  HEADPROOF_FAILED = 3        /* memory ran out, or `progress` stopped the work */
};

/* The last two are for subjects; headproof's own functions take the first two. */
enum headproof_dtype {
  HEADPROOF_FLOAT32 = 1,
  HEADPROOF_FLOAT64 = 2,
  HEADPROOF_FLOAT16 = 3,
  HEADPROOF_BFLOAT16 = 4
};

enum headproof_causal {
  HEADPROOF_CAUSAL_NONE = 0,
  HEADPROOF_CAUSAL_TOP_LEFT = 1,    /* query i sees keys 0 .. query_offset + i */
  HEADPROOF_CAUSAL_BOTTOM_RIGHT = 2 /* query i sees keys 0 .. key_length - seq_len_q + i */
};

enum headproof_mask_kind {
  HEADPROOF_MASK_NONE = 0,
  HEADPROOF_MASK_BOOL = 1,    /* bytes 0 (forbidden) or 1 (allowed), and no others */
  HEADPROOF_MASK_FLOAT32 = 2, /* added to the logits; -infinity forbids */
  HEADPROOF_MASK_FLOAT64 = 3
};

/* Numbers of the problem's dtype, aligned as that dtype. Strides count elements, one an axis, and
   may be any number, 0 and negative ones included. `data` may be null where there is no element. */
struct headproof_input {
  const void* data;
  int64_t strides[4];
};

/* The same for a result: its elements share no memory with each other, or with anything else that
   the call reads or writes. */
struct headproof_output {
  void* data;
  int64_t strides[4];
};

struct headproof_mask {
  int32_t kind; /* enum headproof_mask_kind */
  const void* data;
  int64_t shape[4]; /* [batch, num_heads, seq_len_q, seq_len_k], or 1 where one stands for all */
  int64_t strides[4];
};

struct headproof_problem {
  uint32_t struct_size; /* sizeof(struct headproof_problem): which version of it this is */
  int32_t dtype;        /* enum headproof_dtype */

  /* num_kv_heads divides num_heads; query head h reads key/value head
     h / (num_heads / num_kv_heads). */
  int64_t batch, num_heads, num_kv_heads, seq_len_q, seq_len_k, head_dim, value_dim;

  struct headproof_input q;    /* [batch, num_heads, seq_len_q, head_dim] */
  struct headproof_input k;    /* [batch, num_kv_heads, seq_len_k, head_dim] */
  struct headproof_input v;    /* [batch, num_kv_heads, seq_len_k, value_dim] */
  struct headproof_output out; /* [batch, num_heads, seq_len_q, value_dim] */
  /* [batch, num_heads, seq_len_q]; null data: not wanted. Its numbers are float32 where the dtype
     is a smaller one. */
  struct headproof_output lse;
  /* The weights, [batch, num_heads, seq_len_q, seq_len_k]; null data: not wanted. headproof's own
     functions don't give them. */
  struct headproof_output A;

  int32_t causal; /* enum headproof_causal */
  /* Whether `scale`, `query_offset` and `window_right` count: not 0 for yes. */
  int32_t has_scale, has_query_offset, has_window_right;
  double scale;         /* multiplies q k^T; 1 / sqrt(head_dim) by default */
  double softcap;       /* scores become softcap * tanh(scores / softcap); 0 for none */
  int64_t query_offset; /* the position of query 0 among the keys */
  int64_t window;       /* a query sees that many keys up to its own position; 0 for no limit */
  int64_t window_right; /* and that many beyond it */
  /* For subjects; headproof's own functions read neither, since their bits don't depend on them. */
  int32_t threads; /* how many to use; 0 for the subject's own choice */
  int32_t decode;  /* not 0: by the path for decoding; the queries are the last tokens */
  struct headproof_mask mask;
  /* [batch] each, or null: keys before first_key[b] and from key_length[b] on are padding. */
  const int64_t *first_key, *key_length;

  /* Called now and then with the share of the work that is done, in 0 .. 1, by one thread at a
     time, which may be another than the caller's; 0 stops the work. May be null. */
  int (*progress)(double share, void* user);
  void* progress_user;
};

/* Solves a problem: fills out and lse. Their bits depend on the problem alone. They are as before
   when it is used wrongly, and hold no result when it failed. */
int headproof_attention(const struct headproof_problem* problem, char* error, size_t error_size);

/* The gradients of sum(d_out * out): d_out in out's shape, d_q, d_k and d_v in those of q, k, v. */
struct headproof_gradients {
  struct headproof_input d_out;
  struct headproof_output d_q, d_k, d_v;
};

/* Fills d_q, d_k and d_v; reads the problem's out and lse, both as headproof_attention made them.
 */
int headproof_attention_backward(const struct headproof_problem* problem,
                                 const struct headproof_gradients* gradients, char* error,
                                 size_t error_size);

/* What a subject offers; see enum Feature in attention_subject.h. */
enum headproof_feature {
  HEADPROOF_OFFERS_CAUSAL = 1 << 0,
  HEADPROOF_OFFERS_NON_CAUSAL = 1 << 1,
  HEADPROOF_OFFERS_RECTANGULAR = 1 << 2, /* seq_len_q != seq_len_k */
  HEADPROOF_OFFERS_VALUE_DIM = 1 << 3,   /* value_dim != head_dim */
  HEADPROOF_OFFERS_ZERO_SIZES = 1 << 4,
  HEADPROOF_OFFERS_BATCHES = 1 << 5, /* more than one */
  HEADPROOF_OFFERS_HEADS = 1 << 6,   /* more than one */
  HEADPROOF_OFFERS_GROUPED_HEADS = 1 << 7,
  HEADPROOF_OFFERS_SCALE = 1 << 8,
  HEADPROOF_OFFERS_QUERY_OFFSET = 1 << 9,
  HEADPROOF_OFFERS_WINDOW = 1 << 10,
  HEADPROOF_OFFERS_SOFTCAP = 1 << 11,
  HEADPROOF_OFFERS_MASK = 1 << 12, /* HEADPROOF_MASK_BOOL */
  HEADPROOF_OFFERS_BIAS = 1 << 13, /* HEADPROOF_MASK_FLOAT32; _FLOAT64 where the dtype is float64 */
  HEADPROOF_OFFERS_KEY_LENGTH = 1 << 14,
  HEADPROOF_OFFERS_LSE = 1 << 15,
  HEADPROOF_OFFERS_WEIGHTS = 1 << 16,  /* A */
  HEADPROOF_OFFERS_BACKWARD = 1 << 17, /* the function `backward` is there */
  HEADPROOF_OFFERS_THREADS = 1 << 18,
  HEADPROOF_OFFERS_STRIDES = 1 << 19, /* inputs that are not dense in the subject's layout */
  HEADPROOF_OFFERS_DECODE = 1 << 20
};

/* The order of a subject's axes in memory. Shapes and strides are always given in the order
   [batch, num_heads, seq_len, head_dim]. */
enum headproof_layout {
  HEADPROOF_BHSD = 0, /* [batch, num_heads, seq_len, head_dim] */
  HEADPROOF_BSHD = 1  /* [batch, seq_len, num_heads, head_dim] */
};

#define HEADPROOF_ABI_VERSION 1

/* What a library exports to be checked, under the name headproof_subject or another one:

     const struct headproof_subject headproof_subject = {HEADPROOF_ABI_VERSION, ...};

   It is asked only for what it offers. Strides of results are those of the layout, and so are
   those of inputs unless it offers strides. A result's memory holds NaN before it is written. */
struct headproof_subject {
  uint32_t abi_version;    /* HEADPROOF_ABI_VERSION */
  uint32_t struct_size;    /* sizeof(struct headproof_subject) */
  const char* name;        /* may be null */
  int32_t dtype;           /* enum headproof_dtype */
  int32_t layout;          /* enum headproof_layout */
  uint64_t features;       /* enum headproof_feature, added up */
  int64_t head_dims[8];    /* the allowed ones, then 0; none: any */
  int64_t length_multiple; /* of which seq_len_q and seq_len_k must be multiples; 0 for any */
  int64_t max_length;      /* of seq_len_q and seq_len_k; 0 for any */

  /* Solves the problem; an enum headproof_status. HEADPROOF_UNSUPPORTED says that the subject does
     not do this, which is no fault. */
  int (*attention)(const struct headproof_problem* problem, char* error, size_t error_size);
  /* Reads the problem's out and lse, both as `attention` made them, and fills d_q, d_k and d_v;
     null unless offered. */
  int (*backward)(const struct headproof_problem* problem,
                  const struct headproof_gradients* gradients, char* error, size_t error_size);
};

/* Keys and values of tokens that were seen before, for decoding. Rows have, bit for bit, the
   values that they have when all keys come at once. One problem serves all of these functions;
   each says what it reads. */
struct headproof_cache;

/* An empty cache of the problem's dtype, batch, num_kv_heads, head_dim, value_dim and first_key,
   which is copied. */
int headproof_cache_create(const struct headproof_problem* problem, struct headproof_cache** cache,
                           char* error, size_t error_size);

/* Adds the problem's seq_len_k tokens, k and v; after an error the cache is as before. */
int headproof_cache_append(struct headproof_cache* cache, const struct headproof_problem* problem,
                           char* error, size_t error_size);

/* Solves the problem with the cache's keys and values in the place of seq_len_k, k, v and
   first_key, which are not read. The queries are the last tokens with
   HEADPROOF_CAUSAL_BOTTOM_RIGHT. */
int headproof_cache_attend(const struct headproof_cache* cache,
                           const struct headproof_problem* problem, char* error, size_t error_size);

/* How many tokens it holds of each sequence, padding included; `cache` is not null. */
int64_t headproof_cache_size(const struct headproof_cache* cache);

/* Forgets tokens from the end on until `size` are left; none when there are no more. */
void headproof_cache_truncate(struct headproof_cache* cache, int64_t size);

/* Frees the cache; null is allowed. */
void headproof_cache_free(struct headproof_cache* cache);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HEADPROOF_SUBJECT_H_ */
