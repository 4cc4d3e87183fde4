// Plans at run time: sessions, which run a function on the device of its weights.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/lane.h"
#include "runtime/routine.h"
#include "runtime/state.h"
#include "runtime/weights.h"

namespace ingot::runtime {

// One caller at a time.
class Session {
 public:
  Session(std::shared_ptr<Weights> weights, size_t function, int threads, Allocator& allocator = system_allocator());
  ~Session();
  // Dims of every output for these inputs; range and shape errors as in run(). Of one whose sizes are read from data: the most they can be, or -1 where that is not known.
  const std::vector<std::vector<int64_t>>& resolve(std::span<const HostTensor> inputs);
  // Inputs may have any strides; those that lie in the order of their binding are read where they are. Outputs must be row-major and of the resolved dims. Allocates nothing after the first call at a size (but see set_keeping). On a
  // GPU, tensors may be on the host or there (in that order). When all of them are there, run() returns before it is done: it is work in the
  // stream, as the caller's own, and wait() or the next run tells what became of it.
  void run(std::span<const HostTensor> inputs, std::span<const HostTensor> outputs);
  // The caller's CUDA stream, from now on; null is the default one.
  void set_stream(void* stream) { stream_->set_stream(stream); }
  // Each run takes its memory from there and gives it back before it returns, when on a GPU the stream may still be using it; null: memory of the
  // session's own, kept from run to run.
  void set_run_memory(Allocator* from) { run_memory_ = from; }
  // Gives memory for each output whose sizes are read from data and for which run() is given none. Empty: as at first.
  void set_output_memory(OutputMemory give) { output_memory_ = std::move(give); }
  // Sizes of an output: after resolve() what that gave, after run() what they were.
  const std::vector<int64_t>& output_dims(size_t output) const { return output_dims_[output]; }
  // Whether the sizes of an output are read from data.
  bool is_open(size_t output) const { return routine_ != nullptr && routine_->is_open(loaded_.inputs + output); }
  // Until all runs so far are done. Error when one of them could not go on (an index out of range).
  void wait() { stream_->wait(); }
  // The weights of runs from now on: a fork of those that it has, or what they are a fork of. What it resolved and recorded stays. Error (invalid_input) for others.
  void set_weights(std::shared_ptr<Weights> weights);
  // What the model writes is in this state from now on; null: in the session's own, as at first. Error (invalid_input) when it is of another plan or device.
  void set_state(std::shared_ptr<State> state);
  // By the number among the function's states, of the state that is set: see State.
  void bind_state(size_t index, const HostTensor& tensor) { state_->bind(state_entry(index), tensor); }
  void copy_state(size_t index, void* data, size_t bytes, bool out);
  // The state that is set, but for memory of the caller's.
  void reset();
  size_t states() const { return loaded_.states; }
  size_t outputs() const { return loaded_.outputs; }
  const plan::Function& function() const { return *loaded_.function; }
  size_t arena_bytes() const { return arena_.size(); }
  // Of its weights, with what its own runs take of the device at the last sizes.
  Weights::Usage memory_usage() const;
  size_t kept_sizes() const { return executor_.kept(); }
  // How often sizes were resolved.
  size_t resolutions() const { return routine_ != nullptr ? routine_->resolutions() : executor_.resolutions(); }
  // Whether the arena and the copies of strided tensors are kept from run to run, as at first; else each run takes them and gives them back.
  void set_keeping(bool on) { keeping_ = on; }
  // Whether work on a GPU is recorded (CUDA graphs), as at first.
  void set_recording(bool on) { recording_ = on; }
  // From now on run() notes the time of each step; what the last run noted, as JSON, is empty before the first one.
  void set_profiling(bool on) { profiling_ = on; }
  std::string profile() const;
  // The same as a trace of events, which Perfetto and chrome://tracing show: the call and the steps on the CPU, or steps on a lane of the GPU.
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
  std::shared_ptr<const Weights::Set> set_;  // of `commits_` commits
  uint64_t commits_ = 0;
  const LoadedFunction& loaded_;
  Allocator& allocator_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<backend::Stream> stream_;
  bool device_;  // not the host
  Executor executor_;
  std::unique_ptr<Routine> routine_;  // of a function with regions
  OutputMemory output_memory_;
  std::vector<size_t> room_;  // per binding, of results whose size is read from data
  std::vector<int64_t> wanted_;
  MemoryBlock arena_, scratch_, ring_;  // with run_memory_ not used
  std::unique_ptr<Lane> lane_;  // of streamed weights
  Allocator* run_memory_ = nullptr;
  std::vector<MemoryBlock> gathered_;  // copies of inputs and states that lie otherwise than the plan reads them, on the host
  std::vector<MemoryBlock> staged_;  // and what of the caller's is on the host, on the device
  std::shared_ptr<State> own_state_, state_;  // state_: that runs use
  std::vector<size_t> state_entries_;  // of the function's states in it
  std::vector<size_t> input_entries_;  // of its inputs that `state_` has, else State::none
  std::vector<HostTensor> completed_;  // inputs with those of the state
  // Memory of a binding from its first element to its last.
  struct Span {
    const std::byte *begin, *end;
    size_t binding;
    bool written;
  };
  std::vector<Span> spans_;
  std::vector<std::byte*> pointers_;
  std::vector<std::vector<int64_t>> output_dims_;
  bool profiling_ = false, recording_ = true, keeping_ = true, from_host_ = false;
  std::vector<Timed> timed_;  // of the last profiled run, a step each
  int64_t call_nanoseconds_ = 0;  // of the same run, as the caller waits
};

}  // namespace ingot::runtime
