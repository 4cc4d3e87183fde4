// A session runs a function of a plan on the device of its weights.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/call_tensors.h"
#include "runtime/held_weights.h"
#include "runtime/overlap.h"
#include "runtime/runner.h"
#include "runtime/session_state.h"

namespace ingot::runtime {

// For one caller at a time.
class Session {
 public:
  Session(std::shared_ptr<Weights> weights, size_t function, const Threads& threads, Allocator& allocator = system_allocator());
  ~Session();
  // Dims of every output for these inputs. Range and shape errors as in run(). For an output whose sizes are read from
  // data: their upper bounds, or -1 without one.
  const std::vector<std::vector<int64_t>>& resolve(std::span<const HostTensor> inputs);
  // Inputs may have any strides; those in their binding's axis order are read in place. Outputs must be row-major with the resolved dims. Allocates nothing
  // after the first call at a size, unless set_keeping(false). On a GPU, tensors may be on the host or on the device, in the session's stream order. If all
  // are on the device, run() returns before the work is done, as it is work in the stream; wait() or the next run reports its errors.
  void run(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);
  // Sets the caller's CUDA stream for later runs; null is the default stream.
  void set_stream(void* stream) { runner_.stream().set_stream(stream); }
  // Each run allocates its memory from `from` and frees it before it returns; on a GPU the stream may use it after that. Null:
  // the session keeps its own memory between runs.
  void set_run_memory(Allocator* from) { runner_.settings().run_memory = from; }
  // `give` allocates, on the host or the device, each output whose sizes are read from data and for which run() gets no memory. Empty (the default): run()
  // must get memory for each.
  void set_output_memory(OutputMemory give) { output_memory_ = std::move(give); }
  // Dims of an output: as resolved after resolve(), as computed after run().
  const std::vector<int64_t>& output_dims(size_t output) const { return output_dims_[output]; }
  // True if the sizes of an output are read from data.
  bool is_open(size_t output) const { return runner_.is_open(loaded_.inputs + output); }
  // Waits until all runs are done. Error if one failed on the device (an index out of range).
  void wait() { runner_.stream().wait(); }
  // Sets the weights of later runs: a fork of the current ones, or one that the current ones are a fork of. What was resolved and
  // recorded stays. Error (invalid_input) for others.
  void set_weights(std::shared_ptr<Weights> weights);
  // Sets the state that later runs write; null: the session's own (the default). Error (invalid_input) if it is of another plan or device.
  void set_state(std::shared_ptr<State> state) { state_.set(std::move(state), weights_.weights()); }
  // On the current state; `index` counts the function's states. See State.
  void bind_state(size_t index, const HostTensor& tensor) { state_.current().bind(state_.entry(index), tensor); }
  void copy_state(size_t index, void* data, size_t bytes, bool out);
  // Resets the current state, except in the caller's memory.
  void reset();
  size_t states() const { return loaded_.states; }
  size_t outputs() const { return loaded_.outputs; }
  const plan::Function& function() const { return *loaded_.function; }
  size_t arena_bytes() const { return runner_.arena_bytes(); }
  // The usage of its weights, with the arena and scratch of its own last sizes.
  Weights::Usage memory_usage() const;
  size_t kept_sizes() const { return runner_.kept_sizes(); }
  // Number of resolve() calls.
  size_t resolutions() const { return runner_.resolutions(); }
  // True (the default): the arena and the copies of strided tensors are kept between runs. False: each run allocates and frees them.
  void set_keeping(bool on) { keeping_ = on; }
  // True (the default): repeated work on a GPU is recorded as CUDA graphs.
  void set_recording(bool on) { runner_.settings().recording = on; }
  // True: run() measures each step. profile() gives the last run's times as JSON, empty before the first run.
  void set_profiling(bool on) { runner_.settings().profiling = on; }
  std::string profile() const { return runner_.profile().table(runner_.resolutions()); }
  // The same as trace events for Perfetto and chrome://tracing: the call and the steps on the CPU, or steps on a track of the GPU.
  std::string trace() const { return runner_.profile().trace(loaded_); }

 private:
  Resolved& find(std::span<const HostTensor> inputs);
  void take_weights();
  void run_kept(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);
  void take_outputs(std::span<const HostTensor> outputs, const Resolved&);
  void take_states();
  void work(std::span<const HostTensor> outputs);
  void keep_for_recording();
  bool give_results(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);
  std::byte* make_late_output(size_t output, std::span<const int64_t> dims);
  size_t late_bytes(size_t output) const;
  size_t first_state() const { return loaded_.inputs + loaded_.outputs; }
  Allocator& memory() const { return on_device_ ? *loaded_.backend->memory() : allocator_; }

  HeldWeights weights_;
  const LoadedFunction& loaded_;
  Allocator& allocator_;
  Runner runner_;
  SessionState state_;
  CallTensors tensors_;
  OverlapCheck check_overlap_;
  OutputMemory output_memory_;
  std::vector<std::byte*> late_;  // per output: host memory that output_memory_ gave in this run, to which the result is copied from the device
  std::vector<size_t> room_;      // per binding: the bytes that the caller gave, for results whose sizes are read from data
  std::vector<int64_t> wanted_;   // the symbols
  std::vector<std::byte*> pointers_;
  std::vector<std::vector<int64_t>> output_dims_;
  const bool on_device_;
  bool keeping_ = true;
};

}  // namespace ingot::runtime
