// Limits of the machine, measured together with the rows that are compared with them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace posenc::bench {

// One product of 1024 x 1024 matrices with OpenBLAS, on as many threads as the kernels use.
class Sgemm {
 public:
  Sgemm();
  ~Sgemm();
  Sgemm(const Sgemm&) = delete;
  Sgemm& operator=(const Sgemm&) = delete;

  void run();
  static constexpr double kFlops = 2.0 * 1024 * 1024 * 1024;
  // The CPU that OpenBLAS takes this one for.
  static std::string core();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads every byte, changes nothing about it, and writes it back where it was.
void update_in_place(std::span<std::byte> bytes);
// Reads every byte.
void read_through(std::span<const std::byte> bytes);

}  // namespace posenc::bench
