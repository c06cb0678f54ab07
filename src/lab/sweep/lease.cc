#include "sweep/lease.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "core/bind.h"
#include "runs/files.h"
#include "system/file_errors.h"

namespace posenc::sweep {
namespace {

namespace fs = std::filesystem;

constexpr double kBeatsInLimit = 6.0;
constexpr const char* kClaim = "claim";  // what becomes attempt n, under the name of a temporary

fs::path file_of(const fs::path& lease, std::int64_t number, const char* ending = "") {
  return lease / (std::to_string(number) + ending);
}

// 0 where the name is no number.
std::int64_t number_of(const std::string& name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : 0;
}

template <class T>
std::optional<T> read_whole(const fs::path& path) {
  try {
    return bind_config<T>(runs::read_json(path), path.string());
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string read_beat(const fs::path& path) {
  try {
    return read_file(path.string());
  } catch (const Error&) {
    return "";  // none yet
  }
}

double age_of(const fs::path& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (error) return 0.0;
  return std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
}

bool is_there(const fs::path& path) { return ::access(path.c_str(), F_OK) == 0; }

Attempt read_attempt(const fs::path& lease, std::int64_t number) {
  Attempt attempt;
  attempt.number = number;
  attempt.holder = read_whole<Holder>(file_of(lease, number)).value_or(Holder{});
  attempt.beat = read_beat(file_of(lease, number, ".beat"));
  attempt.beat_age = age_of(file_of(lease, number, ".beat"));
  const fs::path end = file_of(lease, number, ".end");
  if (is_there(end)) attempt.end = read_whole<AttemptEnd>(end).value_or(AttemptEnd{});
  return attempt;
}

std::int64_t last_number(const fs::path& lease) {
  std::int64_t last = 0;
  for (const std::string& name : names_in(lease)) last = std::max(last, number_of(name));
  return last;
}

// Whether this process may try to make the next attempt.
bool is_free(const Attempt& attempt, Watch& watch) {
  if (attempt.end) return true;
  switch (life_of(attempt.holder)) {
    case Life::kGone:
      return true;
    case Life::kAlive:
      return false;
    case Life::kUnknown:
      break;
  }
  return watch.look(attempt) == Watch::Sight::kLost;
}

// An NFS server may have made the link and lost its answer: the count of links tells.
bool link_once(const Temporary& claim, const fs::path& path) {
  const int result = ::link(claim.path.c_str(), path.c_str());
  const int why = errno;
  struct stat info {};
  if (result == 0) return true;
  if (::fstat(claim.lock.number(), &info) == 0 && info.st_nlink == 2) return true;
  if (why == EEXIST || why == ENOENT) return false;
  throw system_error(path.string(), "cannot be linked", why,
                     "a sweep needs a file system with hard links for its folder");
}

bool claim_number(const fs::path& lease, std::int64_t number, const Holder& self) {
  const Temporary claim = create_temporary_file((lease / kClaim).string());
  const fs::path path = file_of(lease, number);
  bool made = false;
  try {
    append_whole(claim.lock, to_json({Value::Data(all_fields(self))}) + "\n", claim.path);
    if (::fsync(claim.lock.number()) != 0) throw write_error(path.string(), errno);
    made = link_once(claim, path);
  } catch (const Error&) {
    ::unlink(claim.path.c_str());
    throw;
  }
  ::unlink(claim.path.c_str());
  return made;
}

}  // namespace

fs::path lease_folder(const fs::path& out, const std::string& hash) {
  return out / "leases" / hash;
}

std::vector<Attempt> attempts(const fs::path& lease) {
  std::vector<Attempt> all;
  const std::int64_t last = last_number(lease);
  for (std::int64_t number = 1; number <= last; ++number) {
    all.push_back(read_attempt(lease, number));
  }
  return all;
}

std::optional<Attempt> last_attempt(const fs::path& lease) {
  const std::int64_t last = last_number(lease);
  if (last == 0) return std::nullopt;
  return read_attempt(lease, last);
}

Watch::Sight Watch::look(const Attempt& attempt) {
  const auto now = now_();
  if (attempt.number != number_) {
    number_ = attempt.number;
    beat_ = attempt.beat;
    changed_ = false;
    since_ = now;
  } else if (attempt.beat != beat_) {
    beat_ = attempt.beat;
    changed_ = true;
    since_ = now;
  }
  if (std::chrono::duration<double>(now - since_).count() > attempt.holder.limit) {
    return Sight::kLost;
  }
  return changed_ ? Sight::kBeats : Sight::kWaiting;
}

std::optional<Lease> Lease::take(const fs::path& folder, const Holder& self, Watch& watch,
                                 Watch::Now now) {
  const std::optional<Attempt> last = last_attempt(folder);
  if (last && !is_free(*last, watch)) return std::nullopt;
  NewFolders folders(folder);
  folders.keep();
  const std::int64_t number = last ? last->number + 1 : 1;
  if (!claim_number(folder, number, self)) return std::nullopt;
  return Lease(folder, number, self.limit, std::move(now));
}

Lease::Lease(fs::path folder, std::int64_t number, double limit, Watch::Now now)
    : folder_(std::move(folder)),
      number_(number),
      limit_(limit),
      now_(std::move(now)),
      last_beat_(now_()) {
  (void)write_beat();
}

Lease::Lease(Lease&& other) noexcept
    : folder_(std::move(other.folder_)),
      number_(other.number_),
      limit_(other.limit_),
      now_(std::move(other.now_)),
      last_beat_(other.last_beat_),
      beats_(other.beats_),
      lost_(other.lost_),
      ended_(std::exchange(other.ended_, true)) {}

Lease::~Lease() {
  if (ended_) return;
  try {
    end({AttemptState::kStopped, "its worker ended early"});
  } catch (const std::exception&) {
    ended_ = true;  // the heartbeat has stopped, which frees it after the limit
  }
}

bool Lease::taken_over() const { return is_there(file_of(folder_, number_ + 1)); }

// In place: a heartbeat must not need a free block on a full disk. Closed each time, which NFS needs to send it.
bool Lease::write_beat() {
  const std::string text = fmt::format("{:020}\n", ++beats_);
  const Descriptor file(::open(file_of(folder_, number_, ".beat").c_str(),
                               O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  return file.number() >= 0 &&
         ::pwrite(file.number(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

bool Lease::keep() {
  const auto now = now_();
  if (lost_ || now - last_beat_ < limit_ / kBeatsInLimit) return !lost_;
  if (write_beat()) last_beat_ = now;
  // Without a heartbeat for the whole limit others count this process as dead.
  lost_ = taken_over() || now - last_beat_ > limit_;
  return !lost_;
}

void Lease::end(const AttemptEnd& end) {
  ended_ = true;
  runs::write_json(file_of(folder_, number_, ".end"), {Value::Data(all_fields(end))});
}

void tidy_leases(const fs::path& out) {
  for (const std::string& hash : names_in(out / "leases")) {
    const fs::path lease = out / "leases" / hash;
    for (const std::string& name : names_in(lease)) {
      if (is_temporary(name)) {
        remove_stale_temporaries((lease / name.substr(0, name.rfind(".tmp-"))).string());
      }
    }
  }
}

}  // namespace posenc::sweep
