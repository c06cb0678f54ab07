// FIRE's tables as the device fills them, against those of the host.
#include "kernels/cuda/fire_tables.h"

#include <random>

#include "kernels/cuda/device.h"
#include "kernels/fire_tables.h"

namespace posenc::cuda {
namespace {

using testing::Bytes;

constexpr std::int64_t kHeads = 3;

Parameters random_network(std::int64_t width, double c) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(-1.0, 1.0);
  const auto numbers = [&](std::int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& x : values) x = unit(random);
    return values;
  };
  return {{c}, {-1.5}, numbers(width), numbers(width), numbers(kHeads * width), numbers(kHeads)};
}

class CudaFireTables : public testing::Test {};

std::vector<float> read(const float* from, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  EXPECT_EQ(cudaMemcpy(values.data(), from, values.size() * sizeof(float), cudaMemcpyDeviceToHost),
            cudaSuccess);
  return values;
}
void expect_near(const std::vector<float>& found, const float* want, const char* name) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], want[i], 1e-6f * (1.0f + std::abs(want[i]))) << name << " " << i;
  }
}

TEST_F(CudaFireTables, AreThoseOfTheHost) {
  for (const std::int64_t width : {1, 3, 32, 100}) {
    Fire config;
    config.width = width;
    config.init_threshold = 12.0;
    const Parameters parameters = random_network(width, -0.4);
    const DistanceRange range{.before = 39, .places = 60, .lowest_place = -4};
    const FireTables host(config, parameters, kHeads, range);
    std::vector<double> flat;
    for (const std::vector<double>& x : parameters) flat.insert(flat.end(), x.begin(), x.end());
    const Bytes values(flat);
    const FireTablesCall call{values.as<double>(), width,        config.init_threshold, kHeads,
                              range.before,        range.span(), range.lowest_place,    64};
    const Bytes memory(std::vector<std::uint8_t>(fire_tables_bytes(call), 0xff));
    FireTable table;
    fill_fire_tables(call, memory.as<void>(), table, nullptr).throw_if_error();
    ASSERT_EQ(table.segments, static_cast<int>(width + 1));
    ASSERT_EQ(host.segments(), static_cast<std::size_t>(width + 1));
    const cpu::FireProblem want = host.problem(0);
    expect_near(read(table.bounds + 1, width), want.bounds + 1, "bound");
    expect_near(read(table.slopes, kHeads * (width + 1)), want.slopes, "slope");
    expect_near(read(table.intercepts, kHeads * (width + 1)), want.intercepts, "intercept");
    expect_near(read(table.psi, range.span()), want.psi - range.before, "psi");
    expect_near(read(table.dpsi, range.span()), want.dpsi - range.before, "dpsi");
    expect_near(read(table.row_scale, 64), want.row_scale + range.lowest_place, "scale of row");
  }
}

// Weights of 0 never switch, and a NaN has no place: their segments are empty and last.
TEST_F(CudaFireTables, UnitsThatNeverSwitchComeLast) {
  Parameters parameters = random_network(4, 0.2);
  parameters[2][1] = 0.0;
  parameters[2][2] = NAN;
  std::vector<double> flat;
  for (const std::vector<double>& x : parameters) flat.insert(flat.end(), x.begin(), x.end());
  const Bytes values(flat);
  const FireTablesCall call{values.as<double>(), 4, 12.0, kHeads, 3, 8, 0, 5};
  const Bytes memory(std::vector<std::uint8_t>(fire_tables_bytes(call), 0xff));
  FireTable table;
  fill_fire_tables(call, memory.as<void>(), table, nullptr).throw_if_error();
  const std::vector<float> bounds = read(table.bounds, 6);
  EXPECT_TRUE(std::isfinite(bounds[1]) && std::isfinite(bounds[2]));
  for (const std::size_t i : {3, 4, 5}) EXPECT_EQ(bounds[i], INFINITY) << i;
  EXPECT_TRUE(std::isnan(read(table.slopes, 1)[0]));
}

}  // namespace
}  // namespace posenc::cuda
