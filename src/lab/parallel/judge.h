// Finds the rank that failed when a job makes no progress. Every rank publishes a heartbeat: the number of wake-ups of its
// watch thread, and the number of collectives that its main thread has entered. A rank whose first number stops is gone; a
// rank whose second number is behind the others hangs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace posenc::parallel {

struct Beat {
  std::int64_t count = 0;
  std::int64_t entered = 0;
  bool operator==(const Beat&) const = default;
};
std::string beat_text(const Beat& beat);
Beat read_beat(const std::string& text);  // zeros where it is no beat

struct Verdict {
  int rank = 0;
  std::string text;
};

class Judge {
 public:
  Judge(int world, double timeout_s);

  // The beats as they are at a time in seconds. Where looks are far apart, this process was suspended, and the others with
  // it: that time does not count. `broken`: an exchange of this process has failed, so a rank may be gone.
  std::optional<Verdict> look(double now, const std::vector<Beat>& beats, bool broken);

  // How often ranks show a beat.
  [[nodiscard]] double interval() const { return interval_; }

 private:
  struct Seen {
    Beat beat{-1, -1};
    double beat_since = 0.0;    // when the count last changed
    double behind_since = 0.0;  // when others entered an exchange that this rank has not
    bool behind = false;
  };
  void leave_out_pause(double now);
  [[nodiscard]] std::optional<Verdict> silent(double now, bool broken) const;
  [[nodiscard]] std::optional<Verdict> hanging(double now) const;

  std::vector<Seen> seen_;
  std::optional<double> last_look_;
  double timeout_;
  double interval_;
};

}  // namespace posenc::parallel
