// A small key-value store shared by all ranks of a job: c10d's TCPStore.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "parallel/launch.h"

namespace posenc::parallel {

class Board {
 public:
  // Of this process alone: rank 0 listens, unless a launcher does, and writes where to launch.file if that is given. Throws
  // an Error where the address cannot be used or nothing listens there within the timeout.
  static Board open(const Launch& launch, std::chrono::milliseconds timeout);
  // Another connection to the same table: one waits for the answer of another no longer than it takes.
  [[nodiscard]] Board again() const;
  // Where a launcher listens for its own ranks.
  static Board serve(const std::string& address, std::chrono::milliseconds timeout);

  void set(const std::string& key, const std::string& text) const;
  [[nodiscard]] bool has(const std::string& key) const;
  [[nodiscard]] std::optional<std::string> find(const std::string& key) const;
  [[nodiscard]] std::string get(const std::string& key) const;  // waits for it
  [[nodiscard]] std::int64_t add(const std::string& key, std::int64_t number) const;
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::string address_;
  int port_ = 0;
  std::string prefix_;
  std::chrono::milliseconds timeout_{};
};

// The first failure of a job counts; later ones follow from it.
struct Failure {
  int rank = 0;
  std::string text;
  bool own = false;      // the rank has said so itself; else others have found out
  bool mistake = false;  // of the user: what the program was given is wrong
};
// Returns the failure that counts, which may be an earlier one.
Failure report_failure(const Board& board, const Failure& failure);
std::optional<Failure> failure_of(const Board& board);

// For a rank that fails before it joins the others: rank 0, which would wait for it, learns why. Rank 0 itself prints its
// failure; it tells the launcher that it has, or listens for a while and tells the others, which would wait for it.
void report_early(const std::string& text, bool mistake);
// A rank that has learned of a failure ends: rank 0 need not keep the table for it.
void note_end(const Board& board);
// For rank 0: returns when so many others have ended, or after a time in seconds.
void wait_for_ends(const Board& board, int others, double seconds);
[[nodiscard]] bool rank_0_has_spoken(const Board& board);

}  // namespace posenc::parallel
