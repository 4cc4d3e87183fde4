// A session runs a function of a plan on the device of its weights.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/copy_stream.h"
#include "runtime/executor.h"
#include "runtime/routine.h"
#include "runtime/state.h"
#include "runtime/weights.h"

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
  void set_stream(void* stream) { stream_->set_stream(stream); }
  // Each run allocates its memory from `from` and frees it before it returns; on a GPU the stream may use it after that. Null:
  // the session keeps its own memory between runs.
  void set_run_memory(Allocator* from) { run_memory_ = from; }
  // `give` allocates, on the host or the device, each output whose sizes are read from data and for which run() gets no memory. Empty (the default): run()
  // must get memory for each.
  void set_output_memory(OutputMemory give) { output_memory_ = std::move(give); }
  // Dims of an output: as resolved after resolve(), as computed after run().
  const std::vector<int64_t>& output_dims(size_t output) const { return output_dims_[output]; }
  // True if the sizes of an output are read from data.
  bool is_open(size_t output) const { return routine_ != nullptr && routine_->is_open(loaded_.inputs + output); }
  // Waits until all runs are done. Error if one failed on the device (an index out of range).
  void wait() { stream_->wait(); }
  // Sets the weights of later runs: a fork of the current ones, or one that the current ones are a fork of. What was resolved and
  // recorded stays. Error (invalid_input) for others.
  void set_weights(std::shared_ptr<Weights> weights);
  // Sets the state that later runs write; null: the session's own (the default). Error (invalid_input) if it is of another plan or device.
  void set_state(std::shared_ptr<State> state);
  // On the current state; `index` counts the function's states. See State.
  void bind_state(size_t index, const HostTensor& tensor) { state_->bind(state_entry(index), tensor); }
  void copy_state(size_t index, void* data, size_t bytes, bool out);
  // Resets the current state, except in the caller's memory.
  void reset();
  size_t states() const { return loaded_.states; }
  size_t outputs() const { return loaded_.outputs; }
  const plan::Function& function() const { return *loaded_.function; }
  size_t arena_bytes() const { return arena_.size(); }
  // The usage of its weights, with the arena and scratch of its own last sizes.
  Weights::Usage memory_usage() const;
  size_t kept_sizes() const { return executor_.kept(); }
  // Number of resolve() calls.
  size_t resolutions() const { return routine_ != nullptr ? routine_->resolutions() : executor_.resolutions(); }
  // True (the default): the arena and the copies of strided tensors are kept between runs. False: each run allocates and frees them.
  void set_keeping(bool on) { keeping_ = on; }
  // True (the default): repeated work on a GPU is recorded as CUDA graphs.
  void set_recording(bool on) { recording_ = on; }
  // True: run() measures each step. profile() gives the last run's times as JSON, empty before the first run.
  void set_profiling(bool on) { profiling_ = on; }
  std::string profile() const;
  // The same as trace events for Perfetto and chrome://tracing: the call and the steps on the CPU, or steps on a track of the GPU.
  std::string trace() const;

 private:
  Resolved& find(std::span<const HostTensor> inputs);
  void take_weights();
  void leave_weights();
  void check_ranges(std::span<const HostTensor> inputs) const;
  std::span<const HostTensor> from_state(std::span<const HostTensor> inputs, std::optional<State::Use>& use);
  void run_kept(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);
  void give_back() noexcept;
  void work(std::span<const HostTensor> outputs);
  void work_now(std::span<const HostTensor> outputs);
  void work_regions(std::span<const HostTensor> outputs);
  std::byte* make_late_output(size_t output, std::span<const int64_t> dims);
  size_t late_bytes(size_t output) const;
  void work_in(const RunMemory&);
  size_t ring_bytes() const { return set_->memory.streaming != nullptr ? set_->memory.streaming->ring_bytes : 0; }
  bool device() const { return device_; }
  Allocator& memory() const { return device() ? *weights_->backend().memory() : allocator_; }
  std::byte* take(size_t binding, const HostTensor&, bool filled);
  bool give(size_t binding, const HostTensor&);
  void scatter(size_t binding, const HostTensor&);
  size_t state_entry(size_t index) const;
  void check_overlap(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);
  [[noreturn]] void refuse_size(size_t input, size_t axis, const HostTensor& given, int64_t needed) const;

  std::shared_ptr<Weights> weights_;
  std::shared_ptr<const Weights::Set> set_;  // as of commit number `commits_`
  uint64_t commits_ = 0;
  const LoadedFunction& loaded_;
  Allocator& allocator_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<backend::Stream> stream_;
  bool device_;  // the device is not the host
  Executor executor_;
  std::unique_ptr<Routine> routine_;  // for a function with regions
  OutputMemory output_memory_;
  std::vector<std::byte*> late_;  // per output: host memory that output_memory_ gave in this run, to which the result is copied from staged_
  std::vector<size_t> room_;  // per binding: the bytes that the caller gave, for results whose sizes are read from data
  std::vector<int64_t> wanted_;
  MemoryBlock arena_, scratch_, ring_;  // not used with run_memory_
  std::unique_ptr<CopyStream> copy_stream_;  // copies streamed weights; null until there are some
  Allocator* run_memory_ = nullptr;
  std::vector<MemoryBlock> gathered_;  // host copies of inputs and states whose layout the plan cannot read
  std::vector<MemoryBlock> staged_;  // device copies of the caller's host tensors
  std::shared_ptr<State> own_state_, state_;  // state_: the current one
  std::vector<size_t> state_entries_;  // of the function's states in state_
  std::vector<size_t> input_entries_;  // of the function's inputs in state_, else State::none
  std::vector<HostTensor> completed_;  // the inputs, with missing ones taken from the state
  // The memory of a binding, from its first to its last element.
  struct Span {
    const std::byte *begin, *end;
    size_t binding;
    bool written;
  };
  std::vector<Span> spans_;
  std::vector<std::byte*> pointers_;
  std::vector<std::vector<int64_t>> output_dims_;
  bool profiling_ = false, recording_ = true, keeping_ = true, from_host_ = false;
  std::vector<Timed> timed_;  // of the last profiled run, one per step
  int64_t call_nanoseconds_ = 0;  // of that run, on the calling thread
};

}  // namespace ingot::runtime
