// Progress of training and evaluation, for a person at a terminal, for a log, or for a program.
//
//   bar    redrawn in place, as wide as the terminal      train  42 % [####......] 420/1000 ...
//   plain  a line now and then                            train 420/1000 loss 1.25 ...
//   json   an object per line                             {"phase": "train", "step": 420, ...}
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posenc::runs {

// Where progress is written. The layer itself never prints: the command line names the place.
struct ProgressOutput {
  std::function<void(std::string_view)> write;
  bool terminal = false;
  std::function<int()> width = [] { return 80; };  // asked before each redraw
  // An open descriptor, such as 1 or 2; write errors are ignored.
  static ProgressOutput to_descriptor(int descriptor);
};

struct ProgressState {
  std::string phase = "train";  // a new phase starts its own bar
  std::int64_t step = 0;
  std::int64_t total = 0;  // 0: unknown
  std::optional<double> loss, accuracy;
  std::optional<double> tokens_per_second, memory_bytes;
  std::optional<double> seconds_left;  // measured from the steps of this phase where not given
  std::vector<std::pair<std::string, double>> more;
};

class Progress {
 public:
  enum class Mode { kAuto, kBar, kPlain, kJson, kQuiet };
  using Clock = std::function<double()>;  // seconds
  // Seconds between two outputs. The end of a phase always shows; a new phase shows at once on a bar
  // and in JSON.
  struct Limits {
    double bar = 0.1;
    double plain = 10;
    double json = 1;
  };

  // kAuto: a bar on a terminal, plain lines elsewhere. kBar without a terminal is kPlain.
  Progress(Mode mode, ProgressOutput output);
  Progress(Mode mode, ProgressOutput output, Limits limits, Clock clock);
  ~Progress();  // finish()
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;

  [[nodiscard]] Mode mode() const { return mode_; }
  // Cheap where it is not time yet: call it every step.
  void update(const ProgressState& state);
  // A separate line above the bar; {"phase": "message", "text": ...} for programs; nothing if
  // quiet.
  void message(std::string_view text);
  // Ends the phase: removes the bar and leaves the last state as a plain line.
  void finish();

 private:
  [[nodiscard]] double interval() const;
  void begin_phase(const ProgressState& state, double now);
  void end_phase();
  void show(const ProgressState& state, double now);
  void draw_bar(const ProgressState& state);
  void clear_bar();

  Mode mode_;
  ProgressOutput output_;
  Limits limits_;
  Clock clock_;
  std::optional<ProgressState> last_;  // of the phase at hand, shown or not
  bool shown_ = false;                 // was last_ shown?
  bool bar_drawn_ = false;
  double phase_start_ = 0;
  std::int64_t phase_first_step_ = 0;
  std::optional<double> shown_at_;
};

constexpr std::array<std::string_view, 5> enum_names(Progress::Mode /*tag*/) {
  return {"auto", "bar", "plain", "json", "quiet"};
}

}  // namespace posenc::runs
