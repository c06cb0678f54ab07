// A training in progress: its state between steps, and its output.
#pragma once

#include <optional>

#include "runs/checkpoints.h"
#include "train/results.h"
#include "train/run.h"
#include "train/session_log.h"
#include "train/trainer.h"

namespace posenc::train {

// Kept in the checkpoint's state.json: with the weights and the moments, all that a run is.
struct Memory {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  double first_loss = 0.0;
  double best_score = -1e300;
  std::int64_t since_best = 0;
  double seconds = 0.0;
  double data_seconds = 0.0;
  // Since the last row of metrics.
  double loss_sum = 0.0;
  std::int64_t loss_count = 0;
  std::int64_t scored = 0;
  std::int64_t correct = 0;
  double logged_seconds = 0.0;
  std::int64_t logged_tokens = 0;
  std::int64_t evaluated_step = 0;  // of the last evaluation in domain
  bool done = false;                // early: nothing more to train
  // Over all processes that trained it; 0: not known.
  std::int64_t peak_memory_bytes = 0;
  std::int64_t peak_gpu_bytes = 0;

  template <class Self, class Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("step", self.step, FieldRule{.doc = "steps done"});
    visit("tokens", self.tokens, FieldRule{.doc = "tokens seen"});
    visit("first_loss", self.first_loss, FieldRule{.doc = "of step 1"});
    visit("best_score", self.best_score, FieldRule{.doc = "of evaluations so far"});
    visit("since_best", self.since_best, FieldRule{.doc = "evaluations since then"});
    visit("seconds", self.seconds, FieldRule{.doc = "of training steps"});
    visit("data_seconds", self.data_seconds, FieldRule{.doc = "of them, for samples"});
    visit("loss_sum", self.loss_sum, FieldRule{.doc = "since the last row of metrics"});
    visit("loss_count", self.loss_count, FieldRule{.doc = "steps in it"});
    visit("scored", self.scored, FieldRule{.doc = "places in it"});
    visit("correct", self.correct, FieldRule{.doc = "right ones"});
    visit("logged_seconds", self.logged_seconds, FieldRule{.doc = "seconds at that row"});
    visit("logged_tokens", self.logged_tokens, FieldRule{.doc = "tokens at that row"});
    visit("evaluated_step", self.evaluated_step, FieldRule{.doc = "of the last evaluation"});
    visit("done", self.done, FieldRule{.doc = "training ended before its last step"});
    visit("peak_memory_bytes", self.peak_memory_bytes, FieldRule{.doc = "most memory taken"});
    visit("peak_gpu_bytes", self.peak_gpu_bytes, FieldRule{.doc = "most memory of the GPU"});
  }
};

class Session {
 public:
  Session(const config::Loaded& loaded, const TrainOptions& options, runs::Progress& progress,
          const StopRequest& stop);
  ~Session();
  Session(Session&&) = delete;
  Session& operator=(Session&&) = delete;
  Outcome run();

 private:
  // Rank 0 of several processes, or the only one: it has the directory, and the log.
  [[nodiscard]] bool leads() const { return options_.ranks == nullptr || options_.ranks->leads(); }
  // In any process.
  [[nodiscard]] bool stop_requested() const;
  void open_directory();
  void take_up_checkpoint();
  void take_up();
  Value::Map take_initial_weights();  // of train.init_from, and what environment.json says of them
  void note_jobs_at_once() const;
  std::optional<Outcome> train();
  std::optional<Outcome> advance();
  [[nodiscard]] std::int64_t steps_to_queue() const;
  std::optional<Outcome> take(const StepReport& report);
  void note(const StepReport& report);
  void log_row(const StepReport& report);
  [[nodiscard]] std::string divergence(const StepReport& report) const;
  [[nodiscard]] bool evaluation_due() const;
  bool evaluate_on_the_way();  // false where it was stopped
  void note_score(double score);
  void note_peaks();
  void save();
  Outcome stop_here(const std::string& where);
  std::optional<std::vector<EvalRow>> evaluate_at_the_end();
  void write_results(const std::vector<EvalRow>& rows);
  Outcome evaluate_and_finish();
  void keep_attention();
  void set_status(runs::RunState state, const std::string& message);
  void show(const StepReport& report);

  config::Loaded loaded_;
  TrainOptions options_;
  runs::Progress& progress_;
  const StopRequest& stop_;
  std::unique_ptr<tasks::Task> task_;
  Trainer trainer_;
  std::optional<runs::RunDirectory> directory_;
  std::optional<runs::Checkpoints> checkpoints_;
  std::optional<SessionLog> log_;
  Memory memory_;
  bool resumes_ = false;
  bool stop_agreed_ = false;            // with several processes: after the last step
  std::atomic<std::int64_t> step_ = 0;  // memory_.step, for the thread that watches other ranks
  std::optional<double> score_;         // of the evaluation at this very step
  bool improved_ = false;  // by the evaluation of this step, whose weights are the best so far
  std::int64_t saved_step_ = -1;
  double step_seconds_ = 0.0;  // of the last steps
};

}  // namespace posenc::train
