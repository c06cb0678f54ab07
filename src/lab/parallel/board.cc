#include "parallel/board.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "core/plain_text.h"
#include "core/value.h"
#include "posenc/core/error.h"
#include "system/files.h"

namespace posenc::parallel {
namespace {

using std::chrono::milliseconds;

constexpr const char* kFailure = "failure";
constexpr const char* kFailures = "failures";
constexpr const char* kSpoken = "rank 0 has spoken";
constexpr const char* kEnded = "ended";
constexpr auto kEarlyReport = std::chrono::seconds(20);  // other ranks may still be starting

c10::intrusive_ptr<c10d::TCPStore> connect(const std::string& address, int port, bool listens,
                                           milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = listens;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(address, options);
  } catch (const std::exception& e) {
    throw Error(
        ErrorKind::kIo,
        {.scope = "rendezvous",
         .key = fmt::format("{}:{}", address, port),
         .rule = listens ? "cannot be listened on by rank 0" : "does not answer: rank 0 is missing",
         .value = "",
         .hint = listens ? "choose a free port with MASTER_PORT, and a MASTER_ADDR of rank 0's host"
                         : "check MASTER_ADDR and MASTER_PORT, or raise train.timeout"});
  }
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// What rank 0 has written: the job, its address, its port. Files of other jobs are stale.
std::optional<std::pair<std::string, int>> read_rendezvous_file(const Launch& launch) {
  std::string job;
  std::string address;
  int port = 0;
  try {
    std::istringstream text(read_file(launch.file));
    text >> job >> address >> port;
  } catch (const Error&) {
    return std::nullopt;  // not written yet
  }
  if (job != launch.job || port == 0) return std::nullopt;
  return std::pair(address, port);
}

std::pair<std::string, int> wait_for_file(const Launch& launch, milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < end) {
    if (auto found = read_rendezvous_file(launch)) return *found;
    std::this_thread::sleep_for(milliseconds(50));
  }
  throw Error(ErrorKind::kIo, {.scope = "rendezvous",
                               .key = launch.file,
                               .rule = "was not written by rank 0 of this job",
                               .value = "",
                               .hint = "POSENC_RENDEZVOUS must be a file that all hosts see"});
}

}  // namespace

Board Board::open(const Launch& launch, milliseconds timeout) {
  Board board;
  board.address_ = launch.address;
  board.port_ = launch.port;
  board.timeout_ = timeout;
  board.prefix_ = launch.job;
  const bool listens = launch.leads() && !launch.store_exists;
  if (!launch.file.empty() && listens) board.address_ = host_name();
  if (!launch.file.empty() && !listens) {
    std::tie(board.address_, board.port_) = wait_for_file(launch, timeout);
  }
  const auto store = connect(board.address_, board.port_, listens, timeout);
  board.port_ = store->getPort();
  if (!launch.file.empty() && listens) {
    atomic_write(launch.file, fmt::format("{} {} {}\n", launch.job, board.address_, board.port_));
  }
  board.store_ = c10::make_intrusive<c10d::PrefixStore>(board.prefix_, store);
  return board;
}

Board Board::again() const {
  Board board = *this;
  board.store_ =
      c10::make_intrusive<c10d::PrefixStore>(prefix_, connect(address_, port_, false, timeout_));
  return board;
}

Board Board::serve(const std::string& address, milliseconds timeout) {
  Board board;
  board.address_ = address;
  board.timeout_ = timeout;
  board.prefix_ = "torchrun/0";
  const auto store = connect(address, 0, true, timeout);
  board.port_ = store->getPort();
  board.store_ = c10::make_intrusive<c10d::PrefixStore>(board.prefix_, store);
  return board;
}

void Board::set(const std::string& key, const std::string& text) const {
  store_->set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

bool Board::has(const std::string& key) const { return store_->check({key}); }

std::optional<std::string> Board::find(const std::string& key) const {
  return has(key) ? std::optional(get(key)) : std::nullopt;
}

std::string Board::get(const std::string& key) const {
  const std::vector<std::uint8_t> bytes = store_->get(key);
  return {bytes.begin(), bytes.end()};
}

std::int64_t Board::add(const std::string& key, std::int64_t number) const {
  return store_->add(key, number);
}

Failure report_failure(const Board& board, const Failure& failure) {
  if (board.add(kFailures, 1) == 1) {
    board.set(kFailure, fmt::format("{} {} {} {}", failure.rank, failure.own ? 1 : 0,
                                    failure.mistake ? 1 : 0, one_line(failure.text)));
    return failure;
  }
  // Between counting a failure and writing it there is a moment.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < end) {
    if (const auto first = failure_of(board)) return *first;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return failure;
}

std::optional<Failure> failure_of(const Board& board) {
  const auto text = board.find(kFailure);
  if (!text) return std::nullopt;
  std::istringstream in(*text);
  Failure failure;
  in >> failure.rank >> failure.own >> failure.mistake;
  std::getline(in >> std::ws, failure.text);
  return failure;
}

// A missing variable may be what is wrong. The number of a rank on its host is not needed to reach rank 0.
void report_early(const std::string& text, bool mistake) {
  try {
    const Launch launch = read_launch([](const std::string& name) -> std::optional<std::string> {
      const bool local =
          name == "LOCAL_RANK" || name == "SLURM_LOCALID" || name == "OMPI_COMM_WORLD_LOCAL_RANK";
      return local ? "0" : process_environment(name);
    });
    if (!launch.launched()) return;
    const Board board = Board::open(launch, kEarlyReport);
    if (launch.leads() && launch.store_exists) return board.set(kSpoken, "yes");
    (void)report_failure(board,
                         {.rank = launch.rank, .text = text, .own = true, .mistake = mistake});
    if (!launch.leads()) return note_end(board);
    wait_for_ends(board, launch.world - 1, std::chrono::duration<double>(kEarlyReport).count());
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): rank 0 has failed too
  }
}

void note_end(const Board& board) { (void)board.add(kEnded, 1); }

void wait_for_ends(const Board& board, int others, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (board.add(kEnded, 0) < others && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(20));
  }
}

bool rank_0_has_spoken(const Board& board) { return board.has(kSpoken); }

}  // namespace posenc::parallel
