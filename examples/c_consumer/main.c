// One attention layer in plain C: RoPE and ALiBi with trained slopes, forward and backward, then the
// last token once more as a decode step from a cache of rotated keys.
#include <math.h>
#include <posenc/posenc_c.h>
#include <stdio.h>

enum { HEADS = 4, KV_HEADS = 2, TOKENS = 6, DIM = 8 };

static float q[HEADS * TOKENS * DIM], out[HEADS * TOKENS * DIM], dq[HEADS * TOKENS * DIM];
static float k[KV_HEADS * TOKENS * DIM], dk[KV_HEADS * TOKENS * DIM];
static float v[KV_HEADS * TOKENS * DIM], dv[KV_HEADS * TOKENS * DIM];
static float lse[HEADS * TOKENS], last[HEADS * DIM];

static void fill(float* x, int count, float step) {
  for (int i = 0; i < count; ++i) x[i] = sinf(step * (float)(i + 1));
}

// Says what went wrong and gives 1, so that a chain of calls stops at the first failure.
static int failed(int64_t status) {
  if (status >= 0) return 0;
  fprintf(stderr, "%s: %s\n", posenc_status_name((posenc_status)status), posenc_last_error());
  return 1;
}

static int print_spec(const posenc_spec* spec) {
  char text[128], hash[17];
  if (failed(posenc_spec_to_text(spec, text, sizeof text))) return 1;
  if (failed(posenc_spec_hash(spec, hash, sizeof hash))) return 1;
  printf("posenc %s, ABI %u\n%s has the hash %s\n", posenc_version(),
         (unsigned)posenc_abi_version(), text, hash);
  return 0;
}

static int train_step(const posenc_attention_call* forward, posenc_parameters* gradients) {
  char path[128];
  if (failed(posenc_attention_explain(forward, path, sizeof path))) return 1;
  if (failed(posenc_attention(forward))) return 1;
  printf("%s\nout[0] %.4f, lse[0] %.4f\n", path, out[0], lse[0]);

  posenc_attention_backward_call backward = {.struct_size = sizeof backward};
  backward.forward = forward;
  backward.grad_out = forward->out;  // the loss is |out|^2 / 2
  backward.dq = posenc_dense(dq, POSENC_FLOAT32, 1, HEADS, TOKENS, DIM);
  backward.dk = posenc_dense(dk, POSENC_FLOAT32, 1, KV_HEADS, TOKENS, DIM);
  backward.dv = posenc_dense(dv, POSENC_FLOAT32, 1, KV_HEADS, TOKENS, DIM);
  backward.dparameters = gradients;
  if (failed(posenc_attention_backward(&backward))) return 1;
  double slopes[HEADS];
  if (failed(posenc_parameters_get_f64(gradients, "alibi.slopes", slopes, HEADS))) return 1;
  for (int h = 0; h < HEADS; ++h) printf("gradient of slope %d: %.4f\n", h, slopes[h]);
  return 0;
}

// The last query alone against a cache of rotated keys gives the same last row.
static int decode_step(posenc_attention_call call) {
  posenc_rope_call turn = {.struct_size = sizeof turn, .plan = call.plan, .q = call.k};
  if (failed(posenc_rope(&turn))) return 1;  // in place
  const int64_t offset = TOKENS - 1;         // its place follows from the number of keys
  call.keys_are_turned = 1;
  call.q.data = q + offset * DIM;
  call.q.shape[2] = 1;
  call.out = posenc_dense(last, POSENC_FLOAT32, 1, HEADS, 1, DIM);
  call.lse = NULL;
  call.lse_count = 0;
  if (failed(posenc_attention(&call))) return 1;
  float error = 0.0f;
  for (int h = 0; h < HEADS; ++h) {
    for (int c = 0; c < DIM; ++c) {
      error = fmaxf(error, fabsf(last[h * DIM + c] - out[(h * TOKENS + offset) * DIM + c]));
    }
  }
  printf("decoding the last token differs by %s\n", error < 1e-6f ? "less than 1e-6" : "too much");
  return error < 1e-6f ? 0 : 1;
}

static int run(const posenc_spec* spec, const posenc_plan* plan, const posenc_parameters* values,
               posenc_parameters* gradients) {
  fill(q, HEADS * TOKENS * DIM, 0.7f);
  fill(k, KV_HEADS * TOKENS * DIM, 1.1f);
  fill(v, KV_HEADS * TOKENS * DIM, 1.3f);
  posenc_attention_call call = {.struct_size = sizeof call};
  call.plan = plan;
  call.parameters = values;
  call.q = posenc_dense(q, POSENC_FLOAT32, 1, HEADS, TOKENS, DIM);
  call.k = posenc_dense(k, POSENC_FLOAT32, 1, KV_HEADS, TOKENS, DIM);
  call.v = posenc_dense(v, POSENC_FLOAT32, 1, KV_HEADS, TOKENS, DIM);
  call.out = posenc_dense(out, POSENC_FLOAT32, 1, HEADS, TOKENS, DIM);
  call.mask.flags = POSENC_CAUSAL;
  call.lse = lse;
  call.lse_count = HEADS * TOKENS;
  return print_spec(spec) || train_step(&call, gradients) || decode_step(call);
}

int main(void) {
  posenc_spec* spec = NULL;
  posenc_plan* plan = NULL;
  posenc_parameters *values = NULL, *gradients = NULL;
  const char* json = "[{\"rope\": {\"theta\": 500000}}, {\"alibi\": {\"trainable\": true}}]";
  posenc_plan_options options = {.struct_size = sizeof options};
  options.shape.head_dim = DIM;
  options.shape.heads = HEADS;
  options.kv_heads = KV_HEADS;

  int problem = failed(posenc_spec_from_json(json, &spec)) ||
                failed(posenc_plan_create(spec, &options, &plan)) ||
                failed(posenc_parameters_create(spec, &options.shape, 1, &values)) ||
                failed(posenc_parameters_copy(values, &gradients)) ||
                run(spec, plan, values, gradients);

  posenc_parameters_free(gradients);
  posenc_parameters_free(values);
  posenc_plan_free(plan);
  posenc_spec_free(spec);
  return problem;
}
