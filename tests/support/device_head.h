// One head of an attention on the host with the score functions of the CUDA kernels, as the general kernels go
// through it: a warp of 16 queries, tiles of 64 keys. Products of matrices are plain sums.
#pragma once

#include "support/cuda_host.h"
// Device headers come after it.
#include "kernels/cuda/device/general_scores.cuh"
#include "kernels/cuda/device/softmax.cuh"
#include "kernels/cuda/device/sticks.cuh"
#include "support/device_call.h"

namespace posenc::cuda::testing {

using posenc::testing::Warp;

inline constexpr int kRows = 16;  // of a warp

// A matrix with a row per query, and tiles of it as a thread holds them.
struct RowsByKeys {
  int keys;
  Floats values;
  explicit RowsByKeys(int count)
      : keys(count), values(static_cast<std::size_t>(kRows * count), 0.0f) {}
  float& at(int row, int key) { return values[static_cast<std::size_t>(row * keys + key)]; }
  void read(int key, const ThreadRows& mine, Accum& x) {
    each(key, mine, x, [](float& own, float& stored) { own = stored; });
  }
  void write(int key, const ThreadRows& mine, Accum& x) {
    each(key, mine, x, [](float& own, float& stored) { stored = own; });
  }

 private:
  template <class F>
  void each(int key, const ThreadRows& mine, Accum& x, const F& f) {
    for (int h = 0; h < 2; ++h) {
      for (int j = 0; j < 16; ++j) {
        const int own = key + 16 * mine.column + j;
        float nothing = 0.0f;
        f(x[j / 2][2 * h + j % 2], own < keys ? at(mine.row[h], own) : nothing);
      }
    }
  }
};

using Tensor3 = std::vector<double>;  // [rows, channels] of one head

// One head of one batch entry, as the general kernels go through it.
template <bool kGates>
class HostHead {
  const AttentionParams& p_;

 public:
  HostHead(const HostCall& call, int batch, int head)
      : p_(call.p),
        s_(sequence_of(p_, batch)),
        mask_(key_mask_of(p_, s_)),
        head_(head),
        kv_head_(head / (p_.heads / p_.kv_heads)),
        stride_(std::max(table_stride(p_), logit_stride(0))),
        tiles_((p_.keys + 63) / 64) {
    const AttentionData& d = call.d;
    q = rows(d.q, head_, p_.heads, p_.queries);
    k = rows(d.k, kv_head_, p_.kv_heads, p_.keys);
    v = rows(d.v, kv_head_, p_.kv_heads, p_.keys);
    grad_out = rows(d.grad_out, head_, p_.heads, p_.queries);
    if constexpr (kGates)
      gate_k = d.inputs.empty() ? v : rows(d.inputs[0], kv_head_, p_.kv_heads, p_.keys);
    multiply(q, k, raw);
    multiply(grad_out, v, dweights);
    if constexpr (kGates) multiply(q, gate_k, raw_gates);
    fill_logits();
    if (p_.relative.entries > 0) fill_relative(call);
    out.assign(q.size(), 0.0);
  }

  void forward() {
    Warp::run([&] {
      const ThreadRows mine;
      GeneralChain chain(p_, head_, windows_, mine);
      chain.start_rows(s_, 0);
      read_relative(chain, mine);
      OnlineSoftmax softmax;
      std::uint32_t carry[2] = {0, 0};
      bool counted = p_.cope.npos_max == 0;
      if (p_.breaks_sticks) {
        break_all(chain, mine);
        return;
      }
      for (int tile = tiles_ - 1; tile >= 0; --tile) {
        load_windows_of(64 * tile);
        if (!counted) counted = all_counted(chain.cope(), carry);
        keep_carry(mine, tile, counted, carry);
        visit(chain, mine, 64 * tile, counted, carry, softmax);
      }
      finish(mine, softmax);
    });
  }

  void backward() {
    deltas();
    Warp::run([&] {
      const ThreadRows mine;
      GeneralChain chain(p_, head_, windows_, mine);
      chain.start_rows(s_, 0);
      read_relative(chain, mine);
      RelativeGradient of_relative;
      if (p_.relative.entries > 0) {
        of_relative.start({row_of(drelative, mine.row[0]), row_of(drelative, mine.row[1])});
      }
      RowState rows;
      GeneralTables tables{};
      FireRowSums fire[2];
      start_rows(mine, rows, tables, fire);
      float prefix[2] = {0.0f, 0.0f};
      for (int tile = 0; tile < tiles_; ++tile) {
        load_windows_of(64 * tile);
        differentiate(chain, mine, tile, rows, tables, prefix, fire);
        if (p_.relative.entries == 0) continue;
        Accum db;
        dbiases.read(64 * tile, mine, db);
        of_relative.add(p_.relative, s_.place(0) - 64 * tile, mine, db);
      }
      if (p_.relative.entries > 0) of_relative.finish(p_.relative, mine);
      for (int h = 0; h < 2 && p_.fire.segments > 0; ++h) {
        fire[h].flush(mine.column);
        fire_rows[static_cast<std::size_t>(2 * mine.row[h])] = fire[h].dpsi;
        fire_rows[static_cast<std::size_t>(2 * mine.row[h] + 1)] = fire[h].dscale;
      }
    });
  }

  Tensor3 q, k, v, gate_k, grad_out, out;
  float lse[kRows] = {};
  RowsByKeys raw{p_.keys}, raw_gates{p_.keys}, dweights{p_.keys};
  RowsByKeys weights{p_.keys}, dscores{p_.keys}, dbiases{p_.keys}, dgates{p_.keys};
  Floats logits, dlogits;      // [rows, stride]
  Tensor3 u;                   // of queries times distances, [rows, rank],
  Floats relative, drelative;  // and its tables [rows, stride]
  Floats fire_segments, fire_rows;
  int first_counting = 0;

 private:
  Tensor3 rows(const cases::Tensor& x, int head, int heads, int tokens) const {
    const std::vector<double> all = x.values();
    const auto count = static_cast<std::size_t>(tokens * p_.head_dim);
    const std::size_t first = static_cast<std::size_t>(s_.batch * heads + head) * count;
    return {all.begin() + static_cast<std::ptrdiff_t>(first),
            all.begin() + static_cast<std::ptrdiff_t>(first + count)};
  }
  void multiply(const Tensor3& a, const Tensor3& b, RowsByKeys& to) const {
    const int width = p_.head_dim;
    for (int i = 0; i < p_.queries; ++i) {
      for (int j = 0; j < p_.keys; ++j) {
        double sum = 0.0;
        for (int n = 0; n < width; ++n) {
          sum += a[static_cast<std::size_t>(i * width + n)] *
                 b[static_cast<std::size_t>(j * width + n)];
        }
        to.at(i, j) = static_cast<float>(sum);
      }
    }
  }
  void fill_logits() {
    const int npos = p_.cope.npos_max;
    logits.assign(static_cast<std::size_t>(kRows * stride_), 0.0f);
    dlogits = logits;
    for (int i = 0; i < p_.queries && npos > 0; ++i) {
      for (int n = 0; n <= npos; ++n) {
        const int at = std::min(n, npos - 1);
        double z = 0.0;
        if (p_.cope.slopes != nullptr) z = static_cast<double>(p_.cope.slopes[head_]) * at;
        for (int c = 0; c < p_.head_dim && p_.cope.pos_emb != nullptr; ++c) {
          z += q[static_cast<std::size_t>(i * p_.head_dim + c)] *
               static_cast<double>(p_.cope.pos_emb[c * npos + at]);
        }
        logits[static_cast<std::size_t>(i * stride_ + n)] =
            p_.cope.logit_scale * static_cast<float>(z);
      }
    }
    carries_.assign(static_cast<std::size_t>(kRows * tiles_), 0);
    fire_segments.assign(static_cast<std::size_t>(kRows * 2 * std::max(p_.fire.segments, 1)), 0.0f);
    fire_rows.assign(2 * kRows, 0.0f);
  }

  // The queries, or the rows of the input at their own tokens.
  void fill_relative(const HostCall& call) {
    const int rank = p_.relative.rank;
    u = q;
    if (std::get<RelativeQuery>(call.d.spec.encodings[call.relative]).reads_input()) {
      const std::size_t input = first_input(call.d.token_inputs, call.relative);
      const std::vector<double> all = call.d.inputs[input].values();
      u.assign(static_cast<std::size_t>(p_.queries * rank), 0.0);
      for (int i = std::max(p_.queries - p_.keys, 0); i < p_.queries; ++i) {
        const int token = (s_.batch * p_.heads + head_) * p_.keys + s_.place(i);
        std::copy_n(all.begin() + token * rank, rank, u.begin() + i * rank);
      }
    }
    relative.assign(static_cast<std::size_t>(kRows * stride_), 0.0f);
    drelative = relative;
    const float* table = p_.relative.table + head_ * p_.relative.head_stride;
    for (int i = 0; i < p_.queries; ++i) {
      for (int n = 0; n < p_.relative.entries; ++n) {
        double z = 0.0;
        for (int c = 0; c < rank; ++c) {
          z += u[static_cast<std::size_t>(i * rank + c)] *
               static_cast<double>(table[c * p_.relative.entries + n]);
        }
        row_of(relative, i)[n] = p_.relative.factor * static_cast<float>(z);
      }
    }
  }
  void read_relative(GeneralChain& chain, const ThreadRows& mine) {
    if (p_.relative.entries == 0) return;
    chain.read_relative(row_of(relative, mine.row[0]), row_of(relative, mine.row[1]));
  }

  // What Window<64>::load copies, by one lane.
  void load_windows_of(int key) {
    __syncwarp();
    if (Warp::lane() == 0) {
      fill_window(kBiasWindow, p_.toeplitz, key);
      if (p_.fire.segments > 0) {
        fill_window(kPsiWindow, psi_table(p_.fire, false), key);
        fill_window(kDpsiWindow, psi_table(p_.fire, true), key);
      }
    }
    __syncwarp();
  }
  void fill_window(GeneralWindow which, const ToeplitzTable& table, int key) {
    float* to = windows_ + which * (kGeneralWindow / 4);
    for (int i = 0; i < 64 + 63 && table.table != nullptr; ++i) {
      const std::int64_t at = table.zero + s_.place(0) - key - 63 + i;
      const bool real = at >= 0 && at < table.span;
      to[i] = to[i + Window<64>::kCopy] = real ? table.table[head_ * table.head_stride + at] : 0.0f;
    }
  }

  void keep_carry(const ThreadRows& mine, int tile, bool counted, const std::uint32_t (&carry)[2]) {
    if (counted) {
      if (Warp::lane() == 0) first_counting = std::max(first_counting, tile + 1);
      return;
    }
    for (int h = 0; h < 2; ++h) {
      if (mine.column == 0)
        carries_[static_cast<std::size_t>(tile * kRows + mine.row[h])] = carry[h];
    }
  }
  void visit(GeneralChain& chain, const ThreadRows& mine, int key, bool counted,
             std::uint32_t (&carry)[2], OnlineSoftmax& softmax) {
    Accum x;
    Accum gates = {};
    raw.read(key, mine, x);
    const Seen seen = seen_of(s_, mask_, mine, 0, key);
    replace_hidden(seen, -INFINITY, x);
    if constexpr (kGates) {
      raw_gates.read(key, mine, gates);
      replace_hidden(seen, -INFINITY, gates);
    }
    Biases biases;
    chain.read_biases(s_, 0, key, biases);
    const float* const z[2] = {row_of(logits, mine.row[0]), row_of(logits, mine.row[1])};
    const int last = std::max(p_.cope.npos_max - 1, 0);
    const float constant[2] = {z[0][last], z[1][last]};
    finish_general<kGates>(chain.cope(), chain.softcap(), biases, gates, counted, z, constant,
                           mine.column, seen, x, carry);
    float shrink[2];
    softmax.exponentiate(x, kLog2e, shrink);
    weights.write(key, mine, x);
    __syncwarp();
    if (mine.column == 0) {
      for (int h = 0; h < 2; ++h) add_values(mine.row[h], key, shrink[h]);
    }
    __syncwarp();
  }
  // Whether sticks are broken by raw scores alone.
  [[nodiscard]] bool is_plain() const {
    return p_.toeplitz.table == nullptr && p_.fire.segments == 0 && p_.tokens.at_key == nullptr &&
           p_.relative.entries == 0;
  }
  // As the kernels do, until nothing is left.
  void break_all(GeneralChain& chain, const ThreadRows& mine) {
    float left[2] = {0.0f, 0.0f};
    std::uint32_t any[2] = {0, 0};
    for (int tile = tiles_ - 1; tile >= 0; --tile) {
      if (__all_sync(~0u, nothing_left(left))) {
        first_counting = tile + 1;
        break;
      }
      for (int h = 0; h < 2 && mine.column == 0; ++h) {
        carries_[static_cast<std::size_t>(tile * kRows + mine.row[h])] = __float_as_uint(left[h]);
      }
      load_windows_of(64 * tile);
      break_tile(chain, mine, 64 * tile, left, any);
    }
    for (int h = 0; h < 2; ++h) {
      any[h] |= __shfl_xor_sync(~0u, any[h], 1);
      any[h] |= __shfl_xor_sync(~0u, any[h], 2);
      if (mine.column == 0 && mine.row[h] < p_.queries) {
        lse[mine.row[h]] = any[h] != 0 ? kLn2 * left[h] : -INFINITY;
      }
    }
  }
  void break_tile(GeneralChain& chain, const ThreadRows& mine, int key, float (&left)[2],
                  std::uint32_t (&any)[2]) {
    Accum x;
    raw.read(key, mine, x);
    const Seen seen = seen_of(s_, mask_, mine, 0, key);
    for (int h = 0; h < 2; ++h) any[h] |= seen.bits[h];
    Biases biases;
    chain.read_biases(s_, 0, key, biases);
    if (is_plain()) {
      replace_hidden(seen, -INFINITY, x);
      break_sticks(PlainSticks<true>{p_.scale * kLog2e}, mine.column, x, left);
    } else {
      break_sticks(GeneralSticks{p_.scale, biases, seen}, mine.column, x, left);
    }
    weights.write(key, mine, x);
    __syncwarp();
    for (int h = 0; h < 2 && mine.column == 0; ++h) add_values(mine.row[h], key, 1.0f);
    __syncwarp();
  }
  void add_values(int row, int key, float shrink) {
    if (row >= p_.queries) return;
    for (int c = 0; c < p_.head_dim; ++c) {
      double& sum = out[static_cast<std::size_t>(row * p_.head_dim + c)];
      sum *= static_cast<double>(shrink);
      for (int j = key; j < std::min(key + 64, p_.keys); ++j) {
        sum += static_cast<double>(weights.at(row, j)) *
               v[static_cast<std::size_t>(j * p_.head_dim + c)];
      }
    }
  }
  void finish(const ThreadRows& mine, const OnlineSoftmax& softmax) {
    float sums[2];
    softmax.finish(sums);
    for (int h = 0; h < 2; ++h) {
      const int row = mine.row[h];
      if (mine.column != 0 || row >= p_.queries) continue;
      const bool any = sums[h] > 0.0f;
      lse[row] = any ? kLn2 * (softmax.maximum[h] * kLog2e + std::log2(sums[h])) : -INFINITY;
      for (int c = 0; c < p_.head_dim; ++c) {
        double& x = out[static_cast<std::size_t>(row * p_.head_dim + c)];
        x = any ? x / static_cast<double>(sums[h]) : 0.0;
      }
    }
  }

  void deltas() {
    for (int i = 0; i < p_.queries; ++i) {
      double sum = 0.0;
      for (int c = 0; c < p_.head_dim; ++c) {
        const auto at = static_cast<std::size_t>(i * p_.head_dim + c);
        sum += out[at] * grad_out[at];
      }
      delta_[i] = static_cast<float>(sum);
    }
  }
  void start_rows(const ThreadRows& mine, RowState& rows, GeneralTables& tables,
                  FireRowSums (&fire)[2]) {
    for (int h = 0; h < 2; ++h) {
      const int row = mine.row[h];
      rows.lse2[h] = lse[row] == -INFINITY ? INFINITY : lse[row] * kLog2e;
      rows.delta[h] = delta_[row];
      tables.z[h] = row_of(logits, row);
      tables.dz[h] = row_of(dlogits, row);
      tables.last[h] = tables.z[h][std::max(p_.cope.npos_max - 1, 0)];
      fire[h] = {fire_segments.data() + row * 2 * p_.fire.segments, -1, 0.0f, 0.0f, 0.0f, 0.0f};
    }
  }
  // Weights, and both kernels' gradients.
  void visit_sticks(GeneralChain& chain, const ThreadRows& mine, int tile, const RowState& rows,
                    float (&prefix)[2], FireRowSums (&fire)[2]) {
    const int key = 64 * tile;
    float left[2];
    for (int h = 0; h < 2; ++h) {
      left[h] = __uint_as_float(carries_[static_cast<std::size_t>(tile * kRows + mine.row[h])]);
    }
    const Seen seen = seen_of(s_, mask_, mine, 0, key);
    Biases biases;
    chain.read_biases(s_, 0, key, biases);
    float again[2] = {prefix[0], prefix[1]};
    Accum x;
    Accum y;
    raw.read(key, mine, x);
    dweights.read(key, mine, y);
    sticks_backward<false>(p_.scale, biases, mine.column, rows, keep_all(), seen, left, prefix, x,
                           y);
    dbiases.write(key, mine, x);
    if (p_.fire.segments > 0) chain.add_fire_gradient(x, fire);
    raw.read(key, mine, x);
    dweights.read(key, mine, y);
    if (is_plain()) {  // as the tuned kernels
      replace_hidden(seen, -INFINITY, x);
      replace_hidden(seen, 0.0f, y);
      differentiate_sticks<true>(PlainSticks<true>{p_.scale * kLog2e}, mine.column, rows, left,
                                 again, x, y);
      replace_hidden(seen, 0.0f, x);
      replace_hidden(seen, 0.0f, y);
    } else {
      sticks_backward<true>(p_.scale, biases, mine.column, rows, keep_all(), seen, left, again, x,
                            y);
    }
    weights.write(key, mine, x);
    dscores.write(key, mine, y);
  }
  void differentiate(GeneralChain& chain, const ThreadRows& mine, int tile, const RowState& rows,
                     const GeneralTables& tables, float (&prefix)[2], FireRowSums (&fire)[2]) {
    if (p_.breaks_sticks) {
      if (tile >= first_counting) visit_sticks(chain, mine, tile, rows, prefix, fire);
      return;
    }
    const int key = 64 * tile;
    const bool counted = p_.cope.npos_max == 0 || tile < first_counting;
    std::uint32_t carry[2] = {0, 0};
    for (int h = 0; h < 2 && !counted; ++h) {
      carry[h] = carries_[static_cast<std::size_t>(tile * kRows + mine.row[h])];
    }
    const Seen seen = seen_of(s_, mask_, mine, 0, key);
    Biases biases;
    chain.read_biases(s_, 0, key, biases);
    Accum x;
    Accum y;
    Accum g = {};
    const auto read = [&] {
      raw.read(key, mine, x);
      replace_hidden(seen, -INFINITY, x);
      dweights.read(key, mine, y);
      if constexpr (kGates) {
        raw_gates.read(key, mine, g);
        replace_hidden(seen, -INFINITY, g);
      }
    };
    read();
    float again[2] = {prefix[0], prefix[1]};
    general_backward<kGates, false>(chain.cope(), chain.softcap(), biases, counted, tables,
                                    mine.column, rows, keep_all(), seen, carry, prefix, g, x, y);
    dbiases.write(key, mine, x);
    dscores.write(key, mine, y);
    if constexpr (kGates) dgates.write(key, mine, g);
    if (p_.fire.segments > 0) chain.add_fire_gradient(x, fire);
    read();  // as the keys' kernel: weights, and the same gradients
    general_backward<kGates, true>(chain.cope(), chain.softcap(), biases, counted, tables,
                                   mine.column, rows, keep_all(), seen, carry, again, g, x, y);
    weights.write(key, mine, x);
    dscores.write(key, mine, y);
  }
  float* row_of(Floats& all, int row) const { return all.data() + row * stride_; }

  Sequence s_;
  const std::uint8_t* mask_;
  int head_;
  int kv_head_;
  int stride_;
  int tiles_;
  std::vector<std::uint32_t> carries_;
  float delta_[kRows] = {};
  float windows_[3 * kGeneralWindow / 4] = {};
};

}  // namespace posenc::cuda::testing
