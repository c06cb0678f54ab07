#include "runs/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "core/plain_text.h"
#include "core/value.h"
#include "runs/progress_text.h"

namespace posenc::runs {
namespace {

constexpr const char* kClearLine = "\r\x1b[K";

void write_quietly(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return;  // a closed terminal must not end a run
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

int terminal_width(int descriptor) {
  struct winsize size {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool can_redraw(int descriptor) {
  const char* kind = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Progress::Mode chosen(Progress::Mode mode, bool terminal) {
  if (mode == Progress::Mode::kAuto) mode = Progress::Mode::kBar;
  if (mode == Progress::Mode::kBar && !terminal) mode = Progress::Mode::kPlain;
  return mode;
}

bool at_end(const ProgressState& state) { return state.total > 0 && state.step >= state.total; }

}  // namespace

ProgressOutput ProgressOutput::to_descriptor(int descriptor) {
  return {[descriptor](std::string_view text) { write_quietly(descriptor, text); },
          can_redraw(descriptor), [descriptor] { return terminal_width(descriptor); }};
}

Progress::Progress(Mode mode, ProgressOutput output)
    : Progress(mode, std::move(output), Limits{}, steady_seconds) {}

Progress::Progress(Mode mode, ProgressOutput output, Limits limits, Clock clock)
    : mode_(chosen(mode, output.terminal)),
      output_(std::move(output)),
      limits_(limits),
      clock_(std::move(clock)) {}

Progress::~Progress() { finish(); }

double Progress::interval() const {
  if (mode_ == Mode::kBar) return limits_.bar;
  return mode_ == Mode::kJson ? limits_.json : limits_.plain;
}

void Progress::update(const ProgressState& state) {
  if (mode_ == Mode::kQuiet) return;
  const double now = clock_();
  if (!last_ || last_->phase != state.phase) {
    end_phase();
    begin_phase(state, now);
  }
  last_ = state;
  const std::int64_t done = state.step - phase_first_step_;
  if (!state.seconds_left && state.total > 0 && done > 0) {
    const auto left = static_cast<double>(state.total - state.step);
    last_->seconds_left = (now - phase_start_) / static_cast<double>(done) * left;
  }
  shown_ = false;
  if (!shown_at_ || now - *shown_at_ >= interval() || at_end(state)) show(*last_, now);
}

void Progress::begin_phase(const ProgressState& state, double now) {
  phase_start_ = now;
  phase_first_step_ = state.step;
  if (mode_ != Mode::kPlain) shown_at_.reset();
}

void Progress::show(const ProgressState& state, double now) {
  shown_ = true;
  shown_at_ = now;
  if (mode_ == Mode::kBar) return draw_bar(state);
  if (mode_ == Mode::kJson) return output_.write(json_line(state) + "\n");
  // The end of a phase has its line from end_phase(), with the time it took.
  shown_ = !at_end(state);
  if (shown_) output_.write(plain_line(state) + "\n");
}

void Progress::draw_bar(const ProgressState& state) {
  // The last column stays free: some terminals wrap as soon as it is written.
  output_.write("\r" + bar_line(state, output_.width() - 1) + "\x1b[K");
  bar_drawn_ = true;
}

void Progress::clear_bar() {
  if (bar_drawn_) output_.write(kClearLine);
  bar_drawn_ = false;
}

void Progress::end_phase() {
  if (!last_) return;
  clear_bar();
  const double now = clock_();
  if (mode_ == Mode::kJson) {
    if (!shown_) output_.write(json_line(*last_) + "\n");
  } else if (mode_ == Mode::kBar || !shown_) {
    output_.write(plain_line(*last_, now - phase_start_) + "\n");
  }
  shown_at_ = now;
  last_.reset();
}

void Progress::message(std::string_view text) {
  if (mode_ == Mode::kQuiet) return;
  if (mode_ == Mode::kJson) {
    const Value line(Value::Data(Value::Map{{"phase", Value::of_string("message")},
                                            {"text", Value::of_string(std::string(text))}}));
    return output_.write(printable_json(to_json(line)) + "\n");
  }
  const bool redraw = bar_drawn_;
  clear_bar();
  output_.write(printable(text) + "\n");
  if (redraw && last_) draw_bar(*last_);
}

void Progress::finish() { end_phase(); }

}  // namespace posenc::runs
