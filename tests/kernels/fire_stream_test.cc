// FIRE as the streams of the CUDA kernels compute it (device/fire_stream.cuh), compiled for the host: biases and sums of
// gradients at tiles of 16 rows, against the network's segments one pair at a time in float64.
#include "support/cuda_host.h"
// Device headers come after it.
#include <gtest/gtest.h>

#include <random>

#include "kernels/cuda/device/fire_stream.cuh"
#include "kernels/fire_tables.h"
#include "support/device_call.h"

namespace posenc::cuda {
namespace {

using posenc::testing::Warp;

constexpr int kRows = 16;  // of a warp
constexpr int kKeys = 64;  // of a tile
using Pairs = PairWindow<64, kKeys>;

struct Shape {
  int queries;
  int keys;
  double c;
  double init_threshold;
};

// A random network with many bends, and its tables.
class Network {
 public:
  explicit Network(const Shape& shape)
      : s_{0, 0, 0, shape.queries, 0, shape.keys, 1 << 29, 1 << 29} {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> unit(-1.0, 1.0);
    Fire config;
    config.init_threshold = shape.init_threshold;
    const auto width = static_cast<std::size_t>(config.width);
    Parameters parameters(6);
    parameters[0] = {shape.c};
    parameters[1] = {1.0};
    for (const std::size_t count : {width, width, width, std::size_t{1}}) {
      std::vector<double> values;
      while (values.size() < count) values.push_back(unit(random));
      parameters[2 + filled_++] = values;
    }
    const DistanceRange range{shape.queries - 1, shape.keys, shape.keys - shape.queries, 0, 0};
    tables_ = FireTables(config, parameters, 1, range);
    p.scale = 0.25f;
    p.heads = 1;
    p.queries = shape.queries;
    p.keys = shape.keys;
    p.fire = testing::host_table(tables_, range);
    for (int i = 0; i < p.fire.segments; ++i) entries.push_back(fire_entry(p, 0, i));
  }
  [[nodiscard]] const Sequence& sequence() const { return s_; }
  [[nodiscard]] float psi(int query, int key) const { return at(p.fire.psi, query, key); }
  [[nodiscard]] float dpsi(int query, int key) const { return at(p.fire.dpsi, query, key); }
  [[nodiscard]] double u(int query, int key) const {
    return static_cast<double>(psi(query, key)) * static_cast<double>(row_scale_of(p, s_, query));
  }
  [[nodiscard]] int segment(double u) const {
    int segment = 0;
    while (segment + 1 < p.fire.segments && u >= static_cast<double>(p.fire.bounds[segment + 1]))
      ++segment;
    return segment;
  }
  [[nodiscard]] double bias(int query, int key) const {
    const int of = segment(u(query, key));
    return static_cast<double>(p.fire.slopes[of]) * u(query, key) +
           static_cast<double>(p.fire.intercepts[of]);
  }

  AttentionParams p;
  std::vector<FireEntry> entries;

 private:
  [[nodiscard]] float at(const float* table, int query, int key) const {
    const std::int64_t index = p.fire.zero + s_.place(query) - key;
    return index >= 0 && index < p.fire.span ? table[index] : 0.0f;
  }

  Sequence s_;
  std::size_t filled_ = 0;
  FireTables tables_;
};

// As WindowCopy stores it: `rows` are queries, or (key_stream.cuh) `distance` rises with the query.
template <class Window, class F>
std::vector<float> window_of(const F& entry) {
  std::vector<float> window(2 * Window::kCopy, 0.0f);
  for (int i = 0; i < Window::kEntries; ++i) window[i] = window[Window::kCopy + 1 + i] = entry(i);
  return window;
}

struct TileOf {
  int query;
  int key;
};

std::vector<TileOf> tiles_of(const Shape& shape) {
  std::vector<TileOf> tiles;
  for (int query = 0; query < shape.queries; query += kRows) {
    for (int key = 0; key < shape.keys; key += kKeys) tiles.push_back({query, key});
  }
  return tiles;
}

template <class F>
void for_each_real(const Shape& shape, const TileOf& tile, const F& f) {
  for (int i = 0; i < kRows && tile.query + i < shape.queries; ++i) {
    for (int j = 0; j < kKeys && tile.key + j < shape.keys; ++j) f(tile.query + i, tile.key + j);
  }
}

class FireStream : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow the contexts that play a warp";
#endif
  }
};

std::vector<float> psi_window(const Network& n, const TileOf& tile, bool derivative) {
  return window_of<Pairs>([&](int i) {
    const int query = tile.query;
    const int key = tile.key - Pairs::kFirst + i;  // as far from the first row as entry i says
    return derivative ? n.dpsi(query, key) : n.psi(query, key);
  });
}

// As those who copy find them: `finder` goes from tile to tile.
FireSpan span_of(const Network& n, SpanFinder& finder, int query, int rows, int key, int keys) {
  finder.read_rows(n.p, n.sequence(), query, rows);
  finder.read_keys(n.p.fire, key, keys);
  return finder.find(n.entries.data(), n.p.fire.segments);
}

TEST_P(FireStream, SpansHoldTheSegmentsOfAllPairs) {
  const Network n(GetParam());
  SpanFinder finder;
  int most = 0;
  for (const TileOf& tile : tiles_of(GetParam())) {
    const FireSpan span = span_of(n, finder, tile.query, kRows, tile.key, kKeys);
    most = std::max(most, span.last - span.first);
    for_each_real(GetParam(), tile, [&](int query, int key) {
      const double u = n.u(query, key);
      EXPECT_GE(n.segment(u * (1 + 1e-6)), span.first) << query << " " << key;
      EXPECT_LE(n.segment(u * (1 - 1e-6)), span.last) << query << " " << key;
    });
  }
  EXPECT_GT(most, 1) << "some tile has more than one bend";
}

TEST_P(FireStream, BiasesAreThoseOfTheSegments) {
  const Network n(GetParam());
  SpanFinder finder;
  for (const TileOf& tile : tiles_of(GetParam())) {
    const FireSpan span = span_of(n, finder, tile.query, kRows, tile.key, kKeys);
    const std::vector<float> window = psi_window(n, tile, false);
    std::vector<float> found(kRows * kKeys, NAN);
    Warp::run([&] {
      const ThreadRows mine;
      const float scale[2] = {row_scale_of(n.p, n.sequence(), tile.query + mine.row[0]),
                              row_scale_of(n.p, n.sequence(), tile.query + mine.row[1])};
      Accum x;
      start_from_fire(n.entries.data(), span, scale,
                      Pairs::at(window.data(), mine.row[0], mine.column), 0, x);
      for (int i = 0; i < 32; ++i) {
        found[mine.row[i / 16] * kKeys + i % 16 / 2 * 8 + 2 * mine.column + i % 2] =
            x[i % 16 / 2][i / 16 * 2 + i % 2];
      }
    });
    for_each_real(GetParam(), tile, [&](int query, int key) {
      const float bias = found[(query - tile.query) * kKeys + key - tile.key] * n.p.scale;
      EXPECT_NEAR(static_cast<double>(bias), n.bias(query, key), 2e-5) << query << " " << key;
    });
  }
}

TEST_P(FireStream, BiasesByKeysAreTheSame) {
  using Window = QueryWindow<128>;
  const Network n(GetParam());
  SpanFinder finder;
  const int tile = GetParam().queries / 64 * 64;
  for (int key = 0; key < GetParam().keys; key += kRows) {
    const FireSpan span = span_of(n, finder, tile, 64, key, kRows);
    const int first = key / 128 * 128;  // of the block
    const std::vector<float> window = window_of<Window>([&](int i) {
      return n.psi(tile, first + 127 - i);  // distances rise with the entry
    });
    std::vector<float> scales;
    for (int i = 0; i < 64; ++i) scales.push_back(row_scale_of(n.p, n.sequence(), tile + i));
    std::vector<float> found(kRows * 64, NAN);
    Warp::run([&] {
      const ThreadRows mine;
      Accum x = {};
      add_fire_of_queries(n.entries.data(), span,
                          reinterpret_cast<const float2*>(scales.data()) + mine.column,
                          Window::at(window.data(), key - first + mine.row[0], mine.column), x);
      for (int i = 0; i < 32; ++i) {
        found[mine.row[i / 16] * 64 + i % 16 / 2 * 8 + 2 * mine.column + i % 2] =
            x[i % 16 / 2][i / 16 * 2 + i % 2];
      }
    });
    const double intercept = static_cast<double>(n.p.fire.intercepts[span.last]);
    for (int i = 0; i < 64 && tile + i < GetParam().queries; ++i) {
      for (int j = 0; j < kRows && key + j < GetParam().keys; ++j) {
        EXPECT_NEAR(static_cast<double>(found[j * 64 + i] * n.p.scale) + intercept,
                    n.bias(tile + i, key + j), 2e-5);
      }
    }
  }
}

TEST_P(FireStream, GradientsAreTheSumsOverTheSegments) {
  const Network n(GetParam());
  const auto segments = static_cast<std::size_t>(n.p.fire.segments);
  const auto db_of = [](int query, int key) {
    return std::sin(0.7f * static_cast<float>(query) + 1.3f * static_cast<float>(key));
  };
  for (int query = 0; query < GetParam().queries; query += kRows) {
    std::vector<float> found(2 * segments, 0.0f);
    std::vector<float2> found_rows(kRows, {NAN, NAN});
    Warp::run([&] {
      const ThreadRows mine;
      FireGradient gradient;
      SpanFinder finder;
      gradient.start_rows(n.p, n.sequence(), query, mine);
      for (int key = 0; key < GetParam().keys; key += kKeys) {
        const std::vector<float> psi = psi_window(n, {query, key}, false);
        const std::vector<float> dpsi = psi_window(n, {query, key}, true);
        Accum db;
        for (int i = 0; i < 32; ++i) {
          const int row = query + mine.row[i / 16];
          const int own = key + i % 16 / 2 * 8 + 2 * mine.column + i % 2;
          const bool real = row < GetParam().queries && own < GetParam().keys;
          db[i % 16 / 2][i / 16 * 2 + i % 2] = real ? db_of(row, own) : 0.0f;
        }
        gradient.add(n.entries.data(), found.data(), span_of(n, finder, query, kRows, key, kKeys),
                     Pairs::at(psi.data(), mine.row[0], mine.column),
                     Pairs::at(dpsi.data(), mine.row[0], mine.column), db);
      }
      gradient.finish_rows(n.entries.data(), found.data(), n.p.scale, found_rows.data(), mine,
                           GetParam().queries - query);
    });
    std::vector<double> want(2 * segments, 0.0);
    for (int i = query; i < std::min(query + kRows, GetParam().queries); ++i) {
      double of_dpsi = 0.0;
      double of_psi = 0.0;
      for (int j = 0; j < GetParam().keys; ++j) {
        const auto segment = static_cast<std::size_t>(n.segment(n.u(i, j)));
        const double db = static_cast<double>(db_of(i, j));
        want[2 * segment] += db * n.u(i, j);
        want[2 * segment + 1] += db;
        of_dpsi += db * static_cast<double>(n.p.fire.slopes[segment] * n.dpsi(i, j));
        of_psi += db * static_cast<double>(n.p.fire.slopes[segment] * n.psi(i, j));
      }
      const float2 row = found_rows[static_cast<std::size_t>(i - query)];
      EXPECT_NEAR(static_cast<double>(row.x), of_dpsi, 2e-3) << "row " << i;
      EXPECT_NEAR(static_cast<double>(row.y), of_psi, 2e-3) << "row " << i;
    }
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(found[i]), want[i], 1e-3)
          << "rows from " << query << ", sum " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, FireStream,
                         ::testing::Values(Shape{96, 96, 0.1, 20.0}, Shape{96, 96, 3.0, 200.0},
                                           Shape{23, 200, 0.7, 30.0}, Shape{100, 40, 0.3, 10.0}));

}  // namespace
}  // namespace posenc::cuda
